"""Passages that no training of a name reads, those of its evaluation set: found by content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.held_out import touched
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.kernels.scanning.find_passages import (
    FILTER_WORDS,
    WINDOW,
    find_passages,
    hash_windows,
)
from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans
from bpeline.tokenizer_core.text import Text

SECTIONS_RULE = 1  # the sections of about 4 KiB that a passage touches, found in one chunk alone
LEFT_OUT_RULE = 2  # the passages themselves, up to the next places where text may be cut

_ROOM = 1 << 12
_COLUMNS = 5
_RUN = 64  # bytes in a row that documents of two texts do not share by chance
_STRIDE = _RUN - WINDOW + 1  # each run holds a window that begins at a multiple of it


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is left out, as small as it can be told.

    Attributes:
        passages: of every passage the hash of a window, where in it that begins, bytes, the last
            eight of them, fingerprint: each uint64, ascending.
        held_out_below, cut_by: where sections are cut by the split pattern and special tokens of
            this digest, and those with a fingerprint below this number held out, the first rule
            looks for nothing; of former sets.
        rule: how much text is left out with a passage.
        shards: keys of the counts of those chunks that the passages were held out of, shortened by
            `short`: what was counted so is not looked into again.
    """

    passages: bytes
    held_out_below: int = 0
    cut_by: str = ""
    rule: int = LEFT_OUT_RULE
    shards: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Sequence[bytes], shards: Iterable[str] = ()) -> LeftOut:
        """Describe documents. Those shorter than `WINDOW` bytes are not looked for.

        Args:
            documents: UTF-8.
            shards: keys of the counts of all chunks that they were held out of.
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
        passages = np.unique(rows, axis=0).tobytes()
        return cls(passages, shards=frozenset(map(short, shards)))

    @property
    def digest(self) -> str:
        """Of the passages and the rule; by the first rule, of the passages alone."""
        passages = digest_of_bytes(self.passages)
        return passages if self.rule == SECTIONS_RULE else digest_of([self.rule, passages])

    def looks_into(self, shards: Iterable[str]) -> bool:
        """Whether chunks with counts of these keys are not all those it was held out of."""
        return not self.shards.issuperset(map(short, shards))

    @property
    def reach(self) -> int:
        """Bytes on either side of a place that tell whether a passage lies across it."""
        if self.rule == SECTIONS_RULE:
            return 0
        return max(0, int(_columns_of(self.passages)[2].max(initial=0)) - 1)

    def spans_in(self, text: Text) -> NDArray[np.int64]:
        """Where the passages occur in a text: int64 ``[n, 2]``, ascending by their begins."""
        windows, offsets, lengths, lasts, prints = _columns_of(self.passages)
        filled = np.zeros(FILTER_WORDS, np.uint64)
        np.bitwise_or.at(filled, windows >> 54, np.uint64(1) << (windows >> 48 & 63))
        room = _ROOM
        while True:
            found = np.empty((room, 2), np.int64)
            seen = find_passages(
                text.data, text.size, windows, filled, offsets.astype(np.int64),
                lengths.astype(np.int64), lasts, prints, np.zeros(len(windows), np.int64), found,
            )  # fmt: skip
            if seen <= room:
                return found[np.argsort(found[:seen, 0], kind="stable")]
            room = int(seen)

    def touches(self, text: Text, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which spans of a text, int64 ``[n, 2]``, share bytes with a passage."""
        return touched(spans, self.spans_in(text))

    def across(self, before: bytes, behind: bytes) -> tuple[int, int]:
        """How far passages reach that lie across the place between two texts.

        Returns:
            Bytes before the place and behind it.
        """
        found, place = self.spans_in(Text.of(before + behind)), len(before)
        across = found[(found[:, 0] < place) & (found[:, 1] > place)]
        if not len(across):
            return 0, 0
        return place - int(across[:, 0].min()), int(across[:, 1].max()) - place


def short(key: str) -> str:
    """So much of a digest that no other one begins alike."""
    return key[:16]


@lru_cache(maxsize=2)
def _columns_of(passages: bytes) -> tuple[NDArray[np.uint64], ...]:
    rows = np.frombuffer(passages, np.uint64).reshape(-1, _COLUMNS)
    return tuple(column.copy() for column in rows.T)


def _telling_window(document: bytes) -> int:
    """Where the window begins, of a few, that has most different bytes: no run of spaces."""
    places = range(0, len(document) - WINDOW + 1, max(1, (len(document) - WINDOW) // 8))
    return max(places, key=lambda at: len(set(document[at : at + WINDOW])))


def new_documents(documents: Sequence[bytes], known: Sequence[bytes]) -> list[bytes]:
    """The documents that share no 64 bytes in a row with a known one.

    Shorter ones are not among them: where they come from cannot be told.
    """
    windows = {window for one in known for _, window in _windows_of(one)}
    text = b"\xff".join(documents)  # in no document, so that no window lies in two of them
    spans = LeftOut.of([*windows]).spans_in(Text.of(text))
    around: dict[bytes, set[bytes]] = {text[begin:end]: set() for begin, end in spans.tolist()}
    for one in known:
        for place, window in _windows_of(one):
            if window in around:
                around[window].add(one[max(place - WINDOW, 0) : place + _RUN])
    ends = np.cumsum([len(one) + 1 for one in documents], dtype=np.int64)
    is_new = [len(one) >= _RUN for one in documents]
    numbers = np.searchsorted(ends, spans[:, 0], "right").tolist()
    for (begin, end), number in zip(spans.tolist(), numbers, strict=True):
        if is_new[number]:
            # Of equal windows within four bytes only the first one is found.
            places = range(max(begin - WINDOW, 0), begin + WINDOW // 8 + 1)
            runs = {text[place : place + _RUN] for place in places}
            stretches = around[text[begin:end]]
            is_new[number] = not any(
                len(run) == _RUN and run in stretch for run in runs for stretch in stretches
            )
    return [one for one, new in zip(documents, is_new, strict=True) if new]


def _windows_of(document: bytes) -> Iterator[tuple[int, bytes]]:
    for place in range(0, len(document) - WINDOW + 1, _STRIDE):
        yield place, document[place : place + WINDOW]
