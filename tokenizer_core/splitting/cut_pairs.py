"""Between which characters a split pattern always cuts, so that a text may be parted there.

Derived from the pattern's automaton, hence for every pattern that has one, a user's too. Take a
character of class x and one of class y behind it. When, in every state in which x can leave the
automaton, y makes the same move as at the start of a text, and x that ends a text is decided
alike, then whatever the text is

- a pre-token ends between them, for y is passed in no other way;
- attempts that fail at y fall back alike when the text ends with x, and try again;
- behind y all is as if the text began there.

So the pre-tokens of both parts are those of the whole.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.automaton import CUT, DEAD, MOVE, STOP
from bpeline.tokenizer_core.kernels.scanning.find_cuts import find_cut
from bpeline.tokenizer_core.splitting.split_automaton import SplitAutomaton, split_automaton

_SURROGATES = (0xD800, 0xE000)
_WINDOW = 1 << 12  # characters looked at together, from the end of a text on
_START, _UNMATCHED = 0, 1  # rows of every automaton


@dataclass(frozen=True, slots=True, eq=False)
class CutPairs:
    """Pairs of characters between which every text may be cut.

    Attributes:
        class_of_point: uint8 of shape [0x110000].
        legal: uint8 of shape [classes, classes]: whether a character of the one class may be
            parted from one of the other that follows.
    """

    class_of_point: NDArray[np.uint8]
    legal: NDArray[np.uint8]

    LOOK = 4  # bytes, of the longest character, on either side of a position by which it is judged

    def first(self, content: bytes | memoryview, begin: int, end: int) -> int:
        """The first legal cut at a position in [begin, end), or -1.

        Args:
            content: any bytes; with `LOOK` of them before ``begin`` and from ``end - 1`` on
                (fewer where a text begins or ends).
        """
        raw = np.frombuffer(content, np.uint8)
        return int(find_cut(raw, begin, min(end, raw.size), self.class_of_point, self.legal))

    def last_in(self, text: str, begin: int, end: int) -> int:
        """The last legal cut before a character of ``text`` at a position in [begin, end), or -1.

        Never beside a surrogate, which may be half of a character.
        """
        while begin < end:
            window = max(begin, end - _WINDOW)
            around = text[max(window - 1, 0) : end].encode("utf-32-le", "surrogatepass")
            points = np.frombuffer(around, "<u4")
            classes = self.class_of_point[points]
            whole = (points < _SURROGATES[0]) | (points >= _SURROGATES[1])
            legal = self.legal[classes[:-1], classes[1:]] & whole[:-1] & whole[1:]
            found = np.flatnonzero(legal)
            if found.size:
                return max(window, 1) + int(found[-1])
            end = window
        return -1


@functools.lru_cache(maxsize=16)
def cut_pairs(pattern: str) -> CutPairs | None:
    """The pairs of a regex that the ``regex`` package compiles; None if none is known."""
    automaton = split_automaton(pattern)
    if isinstance(automaton, str):
        return None
    legal = _legal(automaton)
    return CutPairs(automaton.class_of_point, legal) if legal.any() else None


@functools.cache
def behind_lines() -> CutPairs:
    """Cuts behind line feeds, but not before a byte order mark, which begins documents only."""
    other, line_feed, byte_order_mark = range(3)
    classes = np.full(0x110000, other, np.uint8)
    classes[ord("\n")] = line_feed
    classes[0xFEFF] = byte_order_mark
    legal = np.zeros((3, 3), np.uint8)
    legal[line_feed, [other, line_feed]] = 1
    return CutPairs(classes, legal)


def _legal(automaton: SplitAutomaton) -> NDArray[np.uint8]:
    columns, end = automaton.columns, automaton.end
    flags = automaton.moves[:, :, 1]
    rows = automaton.moves[:, :, 0] // (columns * MOVE)
    as_at_start = (automaton.moves == automaton.moves[_START]).all(axis=2) & (flags & CUT > 0)
    ends = flags[:, end, None]
    # A state whose attempt fails on y, and at the end, leaves both to what it falls back to.
    decided = (as_at_start & (ends == STOP)) | ((flags == DEAD) & (ends == DEAD))
    legal = np.zeros((columns, columns), np.uint8)
    for column in range(columns):
        goes_on = (flags[:, column] & (DEAD | STOP)) == 0
        behind = rows[goes_on, column].tolist()
        if automaton.can_fail[column]:
            behind.append(_UNMATCHED)
        legal[column] = decided[np.unique(np.array(behind, np.int64))].all(axis=0)
    line_feed = automaton.class_of_point[ord("\n")]
    if line_feed != automaton.last_line_feed:
        legal[line_feed] = 0  # where a text ends with it, more may match than where it goes on
    legal[:, end] = legal[end] = 0
    return legal
