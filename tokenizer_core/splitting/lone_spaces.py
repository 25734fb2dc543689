"""Single spaces, before which every named pattern cuts; where there is none, other cuts.

Asking for a space costs nothing. To know between which other characters a pattern cuts, its
automaton must be made, which takes as long as encoding ten megabytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bpeline.tokenizer_core.splitting.cut_pairs import CutPairs
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

# A single U+0020 between two characters that are surely no white space: in UTF-8 that begins
# with C2, E1, E2 or E3, or is a control character. The space stands first because `re` runs to a
# literal at memory speed, and to anything else 40 times as slowly.
LONE_SPACE = re.compile(
    rb" (?:(?<=[!-~] )|(?<=[\xc3-\xdf][\x80-\xbf] )|(?<=[\xe0\xe4-\xef][\x80-\xbf]{2} ))"
    rb"(?=[!-~\xc3-\xe0\xe4-\xf4])"
)


@dataclass(frozen=True, slots=True)
class SpacesFirst:
    """Where text may be cut: before a lone space; where none is near, as `CutPairs` says.

    For whom any legal cut will do. (Chunks want the first one, so that they stay what they are.)

    Attributes:
        pattern: one that cuts at spaces: see `SplitPattern.cuts_at_spaces`.
        far: bytes without a lone space that are worth an automaton. In a shorter stretch, such as
            that before a special token, nothing else is looked for: a cut is near anyway.
    """

    pattern: SplitPattern
    far: int = 1 << 15

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`."""
        found = LONE_SPACE.search(content, begin, end + CutPairs.LOOK)
        if found is not None and found.start() < end:
            return found.start()
        if end - begin < self.far:
            return -1
        pairs = self.pattern.cut_pairs
        return -1 if pairs is None else pairs.first(content, begin, end)
