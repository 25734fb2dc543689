"""How files are read that are encoded sentence by sentence: no part ends within a sentence."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from bpeline.tokenizer_core.corpus import Cuts, Reading
from bpeline.tokenizer_core.splitting import CutPairs

_OTHER, _LINE_FEED, _BYTE_ORDER_MARK = range(3)
_POINTS = 0x110000


@dataclass(frozen=True, slots=True)
class SentenceReading(Reading):
    """Documents of which only parts with whole sentences are encoded apart.

    Attributes:
        sentences: ``lines``: a part of a document ends with a line; ``punkt``: a document is
            encoded as a whole, for what follows may decide where a sentence ends.
    """

    sentences: str = "punkt"

    def quick_cuts(self, format: str) -> Cuts:
        if format == "jsonl":
            return self.cuts(format)
        pairs = behind_lines() if self.sentences == "lines" else None
        return Cuts(pairs=pairs, special_tokens=self.special_bytes)


@functools.cache
def behind_lines() -> CutPairs:
    """Cuts behind line feeds, but not before a byte order mark, which begins documents only."""
    classes = np.full(_POINTS, _OTHER, np.uint8)
    classes[ord("\n")] = _LINE_FEED
    classes[0xFEFF] = _BYTE_ORDER_MARK
    legal = np.zeros((3, 3), np.uint8)
    legal[_LINE_FEED, [_OTHER, _LINE_FEED]] = 1
    return CutPairs(classes, legal)
