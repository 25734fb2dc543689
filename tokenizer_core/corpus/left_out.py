"""Passages that no training of a name reads, those of its evaluation set: found by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.kernels.scanning.find_passages import (
    FILTER_WORDS,
    WINDOW,
    find_passages,
    hash_windows,
)
from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans
from bpeline.tokenizer_core.text import Text

_ROOM = 1 << 12
_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is left out, as small as it can be told.

    Attributes:
        passages: of every passage the hash of a window, where in it that begins, bytes, the last
            eight of them, fingerprint: each uint64, ascending.
        held_out_below: every passage is held out anyway where sections are cut as they were for
            ``cut_by`` and those with a fingerprint below this number are held out; 0 for passages
            that were not sections.
        cut_by: digest of the split pattern and the special tokens between which sections were cut.
    """

    passages: bytes
    held_out_below: int = 0
    cut_by: str = ""

    @classmethod
    def of(cls, documents: Sequence[bytes], *, sections: bool = False, cut_by: str = "") -> LeftOut:
        """Describe documents. Those shorter than `WINDOW` bytes are not looked for.

        Args:
            documents: UTF-8.
            sections: whether they are sections of a training's text, cut as ``cut_by`` says.
        """
        long = [one for one in documents if len(one) >= WINDOW]
        text = Text.of(b"".join(long))
        ends = np.cumsum([0, *map(len, long)], dtype=np.int64)
        offsets = np.array([_telling_window(one) for one in long], np.int64)
        hashes, prints = np.empty(len(long), np.uint64), np.empty(len(long), np.uint64)
        if long:
            spans = np.ascontiguousarray(np.stack((ends[:-1], ends[1:]), axis=1))
            hash_windows(text.data, ends[:-1] + offsets, hashes, np.zeros(FILTER_WORDS, np.uint64))
            fingerprint_spans(text.data, spans, prints)
        lasts = np.array([int.from_bytes(one[-8:], "little") for one in long], np.uint64)
        columns = hashes, offsets, np.diff(ends), lasts, prints
        rows = np.stack([one.astype(np.uint64) for one in columns], axis=1)
        highest = int(prints.max()) + 1 if long and sections else 0
        passages = np.unique(rows, axis=0).tobytes()
        return cls(passages, highest, cut_by if sections else "")

    @property
    def digest(self) -> str:
        """Of the passages."""
        return digest_of_bytes(self.passages)

    def spans_in(self, text: Text) -> NDArray[np.int64]:
        """Where the passages occur in a text: int64 ``[n, 2]``, ascending by their begins."""
        rows = np.frombuffer(self.passages, np.uint64).reshape(-1, _COLUMNS)
        windows, offsets, lengths, lasts, prints = (column.copy() for column in rows.T)
        filled = np.zeros(FILTER_WORDS, np.uint64)
        np.bitwise_or.at(filled, windows >> 54, np.uint64(1) << (windows >> 48 & 63))
        room = _ROOM
        while True:
            found = np.empty((room, 2), np.int64)
            seen = find_passages(
                text.data, text.size, windows, filled, offsets.astype(np.int64),
                lengths.astype(np.int64), lasts, prints, np.zeros(len(rows), np.int64), found,
            )  # fmt: skip
            if seen <= room:
                return found[np.argsort(found[:seen, 0], kind="stable")]
            room = int(seen)

    def may_hold(self, document: bytes) -> bool:
        """Whether a document holds a passage, or is too short to tell."""
        return len(document) < WINDOW or len(self.spans_in(Text.of(document))) > 0


def _telling_window(document: bytes) -> int:
    """Where the window begins, of a few, that has most different bytes: no run of spaces."""
    places = range(0, len(document) - WINDOW + 1, max(1, (len(document) - WINDOW) // 8))
    return max(places, key=lambda at: len(set(document[at : at + WINDOW])))
