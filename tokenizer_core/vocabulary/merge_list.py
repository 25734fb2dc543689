"""Merges kept as ids of a vocab and read as pairs of bytes; knows not which merges are sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.whole_words import fill_whole_words
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary.token_table import TokenTable, empty_word_table

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
    find = vocab.find if isinstance(vocab, TokenTable) else _finding(vocab)
    text = Text.of(parts).data
    ends = np.cumsum(lengths)
    begins = ends - lengths
    left = find(text, begins[::2], ends[::2])
    right = find(text, begins[1::2], ends[1::2])
    return left, right, find(text, begins[::2], ends[1::2])


def _finding(vocab: Mapping[int, bytes]) -> Callable[..., NDArray[np.int64]]:
    """`TokenTable.find` of a vocab that may hold a token twice: the last one counts."""
    tokens = list(filter(None, vocab.values()))
    words = Text.of(b"".join(tokens)).data
    ids = np.array([id_ for id_, token in vocab.items() if token], np.int64)
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    table = empty_word_table(len(tokens))
    fill_whole_words(words, ends, ids, table, HASH_KEY)
    return TokenTable(words, ends, ids, table).find
