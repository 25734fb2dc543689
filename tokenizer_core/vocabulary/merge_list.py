"""Merges kept as ids of a vocab and read as pairs of bytes; knows not which merges are sound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.whole_words import fill_whole_words, find_whole_words
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.text import Text

Merge = tuple[bytes, bytes]
MergeIds = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class MergeList(Sequence[Merge]):
    """Pairs of bytes in order of rank, made when they are looked at.

    Encoding needs their ids only: 100,000 tuples would take more time and memory than the ids of
    them all.

    Args:
        vocab: id → bytes.
        left, right, results: int64 ``[n]``: ids of the parts and of the result, by rank. All of
            them are in the vocab, and the bytes of the parts join to those of the result.
    """

    __slots__ = ("left", "results", "right", "vocab")

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
    ) -> None:
        self.vocab = vocab
        self.left = left
        self.right = right
        self.results = results

    def __len__(self) -> int:
        return len(self.left)

    @overload
    def __getitem__(self, rank: int) -> Merge: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Merge]: ...
    def __getitem__(self, rank: int | slice) -> Merge | list[Merge]:
        if isinstance(rank, slice):
            columns = self.left[rank], self.right[rank], self.results[rank]
            return list(MergeList(self.vocab, *columns))
        return self.vocab[int(self.left[rank])], self.vocab[int(self.right[rank])]

    def __iter__(self) -> Iterator[Merge]:
        left, right = self.left.tolist(), self.right.tolist()
        token = self.vocab.__getitem__
        return zip(map(token, left), map(token, right), strict=True)


def find_merges(vocab: Mapping[int, bytes], parts: bytes, lengths: NDArray[np.int64]) -> MergeIds:
    """Look up merges that are spelled out: ids of left parts, right parts and results.

    Args:
        vocab: id → bytes.
        parts: left, right, left, right, … joined. lengths: int64 ``[2n]`` of each, above 0.

    Returns:
        Three times int64 ``[n]``; −1 for what the vocab lacks.
    """
    tokens = list(filter(None, vocab.values()))
    words = Text.of(b"".join(tokens)).data
    ids = np.array([id_ for id_, token in vocab.items() if token], np.int64)
    word_ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    table = np.zeros(4 << (2 * len(tokens)).bit_length(), np.uint64)
    fill_whole_words(words, word_ends, ids, table, HASH_KEY)
    text = Text.of(parts).data
    ends = np.cumsum(lengths)
    begins = ends - lengths
    found = np.empty((3, len(lengths) // 2), np.int64)
    spans = (begins[::2], ends[::2]), (begins[1::2], ends[1::2]), (begins[::2], ends[1::2])
    for column, (first, last) in zip(found, spans, strict=True):
        first, last = np.ascontiguousarray(first), np.ascontiguousarray(last)
        find_whole_words(text, first, last, words, table, HASH_KEY, column)
    return found[0], found[1], found[2]
