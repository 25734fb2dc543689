"""Byte-level BPE of a vocab in which some bytes are no tokens: they are left out of every word.

So ``tokenizers`` does where there is no unknown token. Words are cut with these bytes in them, and
what stands on both sides of one is adjacent then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.splitting import Splitter
from bpeline.tokenizer_core.text import Text


class AbsentBytesEncoder(Encoder):
    """An encoder that leaves bytes out before words are merged.

    Args:
        merging: merges bytes; what it makes of absent ones is never looked at.
        absent: bool ``[256]``.
    """

    def __init__(self, merging: BytePairEncoder, absent: NDArray[np.bool_]) -> None:
        self.merging = merging
        self._absent = absent
        self._splitter = Splitter(merging.pattern)

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        kept = ~self._absent[text.data[: text.size]]
        if kept.all():
            return self.merging.encode(text, spans, behind)
        starts = np.unpackbits(
            self._splitter.mark_every_byte(text, spans).view(np.uint8), bitorder="little"
        )[: text.size]
        # A word whose first byte goes begins with the next that stays, if that is one of its own.
        before = np.zeros(text.size + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        places = before[np.flatnonzero(starts)]
        size = int(before[-1])
        marks = np.zeros(size // 64 + 2, np.uint64)
        bits = np.zeros(len(marks) * 64, np.uint8)
        bits[places[places < size]] = 1
        marks[:] = np.packbits(bits, bitorder="little").view(np.uint64)
        rest = Text.of(text.data[: text.size][kept].tobytes())
        return self.merging.encode_marked(rest, marks, before[spans], behind)

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        table = bytes(np.flatnonzero(self._absent).tolist())
        return self.merging.encode_words([word.translate(None, table) for word in words])
