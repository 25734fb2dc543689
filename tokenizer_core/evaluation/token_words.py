"""Which counted words a token comes about in: those that paid for it when it was learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.encoding import BytePairEncoder
from bpeline.tokenizer_core.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class MakingWord:
    """A word, and how often one occurrence of it makes the token.

    Attributes:
        word: its bytes.
        count: its occurrences.
        times: in each of them.
    """

    word: bytes
    count: int
    times: int

    @property
    def made(self) -> int:
        """How often the word makes the token in all."""
        return self.count * self.times


def making_words(tokenizer: Tokenizer, id_: int, words: WordCounts) -> list[MakingWord]:
    """The words in which a token comes about, those that make it most often first.

    It comes about where its merge fires, whether or not a later merge takes it in; so the words
    are encoded with the merges up to its own.

    Args:
        tokenizer: of byte-level BPE.
        id_: a byte, or what a merge makes; for any other id no word does.
        words: cut by the tokenizer's pattern.

    Raises:
        InvalidOption: a tokenizer of another algorithm.
    """
    encoder = tokenizer.byte_pairs
    left, right, results = tokenizer.merge_ids
    ranks = np.flatnonzero(results == id_)
    if not len(ranks) and id_ not in encoder.byte_ids:
        return []
    end = int(ranks[0]) + 1 if len(ranks) else 0
    columns = left[:end], right[:end], results[:end]
    then = BytePairEncoder(encoder.byte_ids, *columns, encoder.pattern, cache_words=0)
    holding = words.take(rows_holding(tokenizer.id_to_token(id_), words))
    ids, ends = then.encode_words(holding.words())
    so_many = np.concatenate(([0], np.cumsum(ids == id_)))
    times = np.diff(so_many[ends], prepend=0)
    made = times * holding.counts
    order = np.argsort(-made, kind="stable")
    chosen = holding.take(order[made[order] > 0])
    of_each = times[order[made[order] > 0]].tolist()
    return [
        MakingWord(word, count, one)
        for (word, count), one in zip(chosen.items(), of_each, strict=True)
    ]


def rows_holding(content: bytes, words: WordCounts) -> NDArray[np.int64]:
    """Rows whose word holds some bytes (at least one), ascending."""
    data = words.word_bytes
    places = np.flatnonzero(data[: max(len(data) - len(content) + 1, 0)] == content[0])
    for ahead, byte in enumerate(content[1:], 1):
        places = places[data[places + ahead] == byte]
    rows = np.searchsorted(words.offsets, places, "right") - 1
    within = places + len(content) <= words.offsets[rows + 1]
    return np.unique(rows[within]).astype(np.int64)
