"""Which tokens the words of a single document made, and where in a corpus a token first came about.

A token *comes about* in a word when it is among the word's ids in the end or is part of a longer
token that is: the merges that lead to it fired there. So the final ids of a document and the tree
of merges say which tokens came about in it. Knows text in memory; nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.corpus.documents import ChunkText
from tokenizer_core.corpus.held_out import hold_out, sections_of
from tokenizer_core.corpus.reading import Reading
from tokenizer_core.counting.chunk_counts import documents_between
from tokenizer_core.counting.word_counts import WordCounts
from tokenizer_core.text import Text
from tokenizer_core.tokenizer import Tokenizer

NOWHERE = np.iinfo(np.int64).max
_WORDS_AT_A_TIME = 1 << 18
_BYTES_AT_A_TIME = 4 << 20


class MergeTree:
    """The parts of every token, as far as merges make it of parts.

    Where several merges make the same token, which foreign tokenizers have, all their parts count.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.size = max(tokenizer.vocab) + 1
        self._levels: list[tuple[NDArray[np.int64], ...]] = []
        if tokenizer.words is not None or tokenizer.byte_pairs.has_whole_words:
            return  # nothing merges on the way, or what is taken whole does not
        lengths = np.zeros(self.size, np.int64)
        for id_, token in tokenizer.vocab.items():
            lengths[id_] = len(token)
        columns = np.stack(tokenizer.merge_ids)
        order = np.argsort(-lengths[columns[2]], kind="stable")
        columns, lengths = columns[:, order], lengths[columns[2, order]]
        # Parts are shorter than what they make: of one length none is part of another.
        for level in np.split(columns, np.flatnonzero(np.diff(lengths)) + 1, axis=1):
            self._levels.append((level[0], level[1], level[2]))

    def spread(self, values: NDArray[np.int64], smallest: bool = True) -> None:
        """Give every token the smallest (or largest) value of all tokens it is a part of, too.

        Args:
            values: int64 ``[size]``, changed in place.
        """
        extreme = np.minimum if smallest else np.maximum
        for left, right, results in self._levels:
            extreme.at(values, left, values[results])
            extreme.at(values, right, values[results])


def first_positions(tokenizer: Tokenizer, words: WordCounts, tree: MergeTree) -> NDArray[np.int64]:
    """int64, by id: the position of the first word in which a token comes about, or `NOWHERE`.

    Args:
        words: cut by the tokenizer's pattern.
    """
    first = np.full(tree.size, NOWHERE, np.int64)
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        order = np.arange(begin, min(begin + _WORDS_AT_A_TIME, len(words)), dtype=np.int64)
        part = words.take(order)
        ids, ends = tokenizer.encoder.encode_words(part.words())
        np.minimum.at(first, ids, np.repeat(part.first_positions, np.diff(ends, prepend=0)))
    tree.spread(first)
    return first


def of_one_document(
    tokenizer: Tokenizer,
    tree: MergeTree,
    candidates: NDArray[np.int64],
    text: ChunkText,
    reading: Reading,
) -> NDArray[np.int64]:
    """Those of some tokens that came about in one document of a chunk and in no other.

    Documents are what training read: text between special tokens, the record of a JSON line, and
    of these what was not held out. The chunk is read no further than until every candidate has
    been met in two documents.

    Args:
        tokenizer: its pattern is the reading's.
        candidates: ids.
        text, reading: as they were counted.

    Returns:
        int64, ascending; candidates that come about in no document are not among them.
    """
    first = np.full(tree.size, NOWHERE, np.int64)
    last = np.full(tree.size, -1, np.int64)
    waiting = np.unique(candidates)
    for ids, documents in _encoded(tokenizer, text, reading):
        # Of equal ids the last one written stays.
        here = np.full(tree.size, NOWHERE, np.int64)
        here[ids[::-1]] = documents[::-1]
        np.minimum(first, here, out=first)
        last[ids] = documents
        begins, ends = first.copy(), last.copy()
        tree.spread(begins)
        tree.spread(ends, smallest=False)
        waiting = waiting[begins[waiting] >= ends[waiting]]
        if not len(waiting):
            return waiting
    return waiting[ends[waiting] >= 0] if len(waiting) and last.max() >= 0 else waiting[:0]


def _encoded(
    tokenizer: Tokenizer, text: ChunkText, reading: Reading
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Ids of the text that was trained on, a few megabytes at a time, and each one's document."""
    documents, _ = documents_between(text, reading.special_bytes)
    pairs = reading.pattern.cut_pairs
    spans, _ = hold_out(text.text, documents, reading.held_out_below, pairs)
    if not reading.held_out_below:
        spans = sections_of(text.text, documents, pairs)
    numbers = np.searchsorted(documents[:, 0], spans[:, 0], "right") - 1
    done = 0
    while done < len(spans):
        begin = spans[done, 0]
        end = max(int(np.searchsorted(spans[:, 1], begin + _BYTES_AT_A_TIME, "right")), done + 1)
        some = Text.of(text.text.bytes(int(begin), int(spans[end - 1, 1])))
        none = np.full(end - done, -1, np.int64)
        ids, ends = tokenizer.encoder.encode(some, spans[done:end] - begin, none)
        yield ids, np.repeat(numbers[done:end], np.diff(ends, prepend=0))
        done = end
