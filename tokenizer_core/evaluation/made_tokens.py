"""Which tokens come about in which words: what words are left with, and what that is made of.

A token *comes about* in a word when it is among the word's ids in the end or is part of a longer
token that is: the merges that lead to it fired there. So the final ids of words and the tree of
merges say which tokens came about where. Knows nothing of files or documents.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.kernels.counting.token_rows import (
    LEAST,
    MOST,
    SUM,
    join_values,
    mark_rows,
)
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.tokenizer import Tokenizer

NOWHERE = np.iinfo(np.int64).max
_WORDS_AT_A_TIME = 1 << 18


class MergeTree:
    """The parts of every token, as far as merges make it of parts.

    Where several merges make the same token, which foreign tokenizers have, all their parts count.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.size = tokenizer.spec.largest_id + 1
        self.is_exact = True  # each token is made of two parts in one way only, or of none
        self._levels: list[tuple[NDArray[np.int64], ...]] = []
        if not tokenizer.merges_words or tokenizer.byte_pairs.has_whole_words:
            return  # nothing merges on the way, or what is taken whole does not
        lengths = np.zeros(self.size, np.int64)
        for id_, token in tokenizer.vocab.items():
            lengths[id_] = len(token)
        columns = np.stack(tokenizer.merge_ids)
        self.is_exact = len(np.unique(columns[2])) == columns.shape[1]
        order = np.argsort(-lengths[columns[2]], kind="stable")
        columns, lengths = columns[:, order], lengths[columns[2, order]]
        # Parts are shorter than what they make: of one length none is part of another.
        for level in np.split(columns, np.flatnonzero(np.diff(lengths)) + 1, axis=1):
            self._levels.append((level[0], level[1], level[2]))

    def pass_down(self, values: NDArray[np.int64], joined: np.ufunc) -> None:
        """Join the value of every token to those of its parts, from the longest tokens down.

        Args:
            values: int64 ``[size]``, changed in place.
            joined: `np.minimum`, `np.maximum` or `np.add`.
        """
        for left, right, results in self._levels:
            joined.at(values, left, values[results])
            joined.at(values, right, values[results])

    def made_of(self, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        """By id: whether a token is one of these or has one of them among its parts."""
        made = np.zeros(self.size, np.bool_)
        made[tokens] = True
        for left, right, results in reversed(self._levels):
            made[results[made[left] | made[right]]] = True
        return made


@dataclass(frozen=True, slots=True)
class MadeTokens:
    """Which tokens come about in each of some words.

    Attributes:
        tree: of the tokenizer.
        ids: uint32: the tokens that the words are left with, word after word.
        ends: int64 ``[words]``: how many these are up to the end of each word.
    """

    tree: MergeTree
    ids: NDArray[np.uint32]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, tokenizer: Tokenizer, words: WordCounts) -> MadeTokens:
        """Encode words, which the tokenizer's pattern has cut; on all processors."""

        def encoded(begin: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
            some = words.between(begin, begin + _WORDS_AT_A_TIME)
            ids, ends = tokenizer.encoder.encode_rows(some.word_bytes, some.offsets)
            return ids, np.diff(ends, prepend=0)

        begins = range(0, max(len(words), 1), _WORDS_AT_A_TIME)
        with ThreadPoolExecutor(available_processors(), "encode words") as threads:
            ids, lengths = zip(*threads.map(encoded, begins), strict=True)
        return cls(MergeTree(tokenizer), np.concatenate(ids), np.cumsum(np.concatenate(lengths)))

    def smallest(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the smallest value of a word in which the token comes about, or `NOWHERE`.

        Args:
            values: int64 ``[words]``, not negative.
        """
        smallest = self._joined(LEAST, values, NOWHERE)
        self.tree.pass_down(smallest, np.minimum)
        return smallest

    def largest(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the largest value of a word in which the token comes about, or −1."""
        largest = self._joined(MOST, values, -1)
        self.tree.pass_down(largest, np.maximum)
        return largest

    def totals(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """By id: the sum of the values of all words that are left with the token.

        Args:
            values: int64 ``[words]``; one that is left with a token twice adds twice.
        """
        return self._joined(SUM, values, 0)

    def rows_making(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The words in which some token of these comes about, ascending (int64)."""
        rows = np.empty(len(self.ends), np.bool_)
        mark_rows(self.ids, self.ends, self.tree.made_of(tokens), rows)
        return np.flatnonzero(rows).astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> MadeTokens:
        """The same of some words alone."""
        begins = np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))[rows]
        lengths = self.ends[rows] - begins
        ends = np.cumsum(lengths)
        places = np.arange(lengths.sum()) + np.repeat(begins - (ends - lengths), lengths)
        return MadeTokens(self.tree, self.ids[places], ends)

    def _joined(self, how: int, values: NDArray[np.int64], none: int) -> NDArray[np.int64]:
        """By id: the values of all words that are left with the token, joined."""
        found = np.full(self.tree.size, none, np.int64)
        join_values(self.ids, self.ends, np.require(values, np.int64, ["C", "W"]), how, found)
        return found
