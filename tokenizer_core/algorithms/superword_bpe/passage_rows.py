"""Passages cut into words once: counts of the words, and each passage as a row of their numbers.

What training and measuring ask of passages, they ask of these rows; no passage is cut again.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.superword_bpe.kernels.passage_rows import (
    COUNT,
    POSITION,
    add_occurrences,
    add_pairs,
    cut_runs,
    find_rows,
    list_marks,
    number_rows,
)
from bpeline.tokenizer_core.algorithms.superword_bpe.passages import words_of
from bpeline.tokenizer_core.counting import COUNT_LIMIT, WordCounts, WordTable, too_many
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.merging import exact_dot
from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text

_BLOCK = 1 << 22  # bytes of passages that are cut together
_LEAST_PART = 1 << 20  # bytes of passages that are worth a thread
_NUMBERED_AT_ONCE = 1 << 16  # words for which a table grows
_MOST_BUCKET_BITS = 22
_NEVER = np.iinfo(np.int64).max

Runs = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]


@dataclass(slots=True, eq=False)
class WordRows:
    """Some passages as rows of words.

    Attributes:
        numbers: uint32: the number of each word, passage after passage.
        ends: int64 ``[n]``: words up to the end of each passage.
        counts: int64 ``[n]``: how often each passage occurs.
    """

    numbers: NDArray[np.uint32]
    ends: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CutPassages:
    """Passages, cut.

    Attributes:
        words: the counts of the words that passages consist of; a row is the number of its word.
        rows: the passages, some after the others.
        table: the words by their bytes.
    """

    words: WordCounts
    rows: list[WordRows]
    table: WordTable

    def numbers_of(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The numbers of some words, int64 ``[n]``; −1 for those that do not occur.

        Args:
            content, offsets: uint8 and int64 ``[n + 1]``: one after the other, from 0 on.
        """
        numbers = np.empty(len(offsets) - 1, np.int64)
        table = self.table.entries, self.table.arena, self.table.used
        find_rows(Text.of(content.data).data, offsets, *table, numbers)
        return numbers

    def runs(self, symbols: NDArray[np.int32], least: int) -> Runs:
        """Runs of two words or more that are a symbol each, as far as their pairs may be frequent.

        A run ends where a pair is certain to occur less often than ``least`` times: no merge that
        occurs so often ever joins what stands there.

        Args:
            symbols: int32 ``[words]``: the symbol of each word, or −1 for none.

        Returns:
            Symbols, run after run; int64 ``[n + 1]``, where each begins; int64 ``[n]``, how often
            each occurs.
        """
        words = sum(len(rows.numbers) for rows in self.rows)
        bits = min(words.bit_length(), _MOST_BUCKET_BITS)

        def added(some: list[WordRows]) -> NDArray[np.int64]:
            buckets = np.zeros(1 << bits, np.int64)
            for rows in some:
                add_pairs(rows.numbers, rows.ends, rows.counts, symbols, buckets, HASH_KEY)
            return buckets

        def cut(rows: WordRows) -> Runs:
            content = np.empty(len(rows.numbers), np.int32)
            ends, counts = np.empty((2, len(content) // 2 + 1), np.int64)
            passages = rows.numbers, rows.ends, rows.counts
            number = cut_runs(*passages, symbols, buckets, least, HASH_KEY, content, ends, counts)
            lengths = np.diff(ends[:number], prepend=0)
            return content[: int(lengths.sum())].copy(), lengths, counts[:number].copy()

        number = available_processors()
        with ThreadPoolExecutor(number, "cut runs") as threads:
            parts = [self.rows[part::number] for part in range(min(number, len(self.rows)))]
            buckets = sum(threads.map(added, parts), np.zeros(1 << bits, np.int64))
            runs = list(threads.map(cut, self.rows))
        contents, lengths, counts = zip(*runs, strict=True) if runs else ((), (), ())
        return (
            np.concatenate([np.zeros(0, np.int32), *contents]),
            np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths])),
            np.concatenate([np.zeros(0, np.int64), *counts]),
        )


def cut_passages(passages: WordCounts) -> CutPassages:
    """Cut passages into words, in threads.

    Raises:
        InvalidPattern: counts of anything but passages.
        InvalidOption: the counts of the words add up to more than 2⁶³ − 1.
    """
    pattern = words_of(passages.pattern)
    splitter = Splitter(pattern)
    size = len(passages.word_bytes)
    number = max(1, min(available_processors(), size // _LEAST_PART))
    edges = np.searchsorted(passages.offsets, [size * part // number for part in range(number)])
    begins = [0, *edges[1:].tolist(), len(passages)]

    def cut(part: int) -> _PartCut:
        made = _PartCut(splitter)
        for block in _blocks(passages.between(begins[part], begins[part + 1])):
            made.add(block)
        return made

    with ThreadPoolExecutor(number, "cut passages") as threads:
        whole, *others = threads.map(cut, range(number))
    for other in others:
        whole.absorb(other)
    return CutPassages(whole.words(pattern), whole.rows, whole.table)


def _blocks(passages: WordCounts) -> Iterator[WordCounts]:
    begin = 0
    while begin < len(passages):
        reach = passages.offsets[begin] + _BLOCK
        end = max(begin + 1, int(np.searchsorted(passages.offsets, reach, side="right")) - 1)
        yield passages.between(begin, end)
        begin = end


class _PartCut:
    """Passages of a part, cut one block after the other by one thread."""

    def __init__(self, splitter: Splitter) -> None:
        self.rows: list[WordRows] = []
        self._splitter = splitter
        self.table = WordTable()
        self._sums = np.empty((0, 2), np.int64)
        self._total = 0

    def add(self, block: WordCounts) -> None:
        text = Text.of(block.word_bytes.data)
        offsets = np.ascontiguousarray(block.offsets, np.int64)
        spans = np.ascontiguousarray(np.stack((offsets[:-1], offsets[1:]), axis=1))
        edges = np.empty(text.size + 1, np.int64)
        found = list_marks(self._splitter.mark_every_byte(text, spans), edges)
        edges[found] = text.size
        edges = edges[: found + 1]
        numbers, ends = self._numbers_of(text, edges), np.empty(len(block), np.int64)
        counts, positions = (
            np.require(column, np.int64, ["C", "W"])  # as kernels are compiled for
            for column in (block.counts, block.first_positions)
        )
        add_occurrences(numbers, edges, offsets, counts, positions, self._sums, ends)
        self._total += exact_dot(counts, np.diff(ends, prepend=0))
        self.rows.append(WordRows(numbers, ends, counts))

    def absorb(self, other: _PartCut) -> None:
        """Add what another thread has cut; its words get the numbers that they have here."""
        words = other.table.rows(self._splitter.pattern)
        numbers = self._numbers_of(Text.of(words.word_bytes.data), words.offsets)
        known = other._sums[: len(words)]
        self._sums[numbers, COUNT] += known[:, COUNT]
        self._sums[numbers, POSITION] = np.minimum(
            self._sums[numbers, POSITION], known[:, POSITION]
        )
        self._total += other._total
        for rows in other.rows:
            rows.numbers = numbers[rows.numbers]
            self.rows.append(rows)

    def words(self, pattern: SplitPattern) -> WordCounts:
        """All words in the order of their numbers."""
        if self._total > COUNT_LIMIT:
            raise too_many(self._total)
        counts, positions = self._sums[: len(self.table)].T
        words = self.table.rows(pattern)
        return replace(words, counts=counts.copy(), first_positions=positions.copy())

    def _numbers_of(self, text: Text, edges: NDArray[np.int64]) -> NDArray[np.uint32]:
        numbers = np.empty(len(edges) - 1, np.uint32)
        for begin in range(0, len(numbers), _NUMBERED_AT_ONCE):
            end = min(begin + _NUMBERED_AT_ONCE, len(numbers))
            # A long word takes its bytes, up to seven more, and eight of its position.
            self.table.make_room(end - begin, 2 * int(edges[end] - edges[begin]))
            entries, arena, used = self.table.entries, self.table.arena, self.table.used
            number_rows(text.data, edges[begin : end + 1], entries, arena, used, numbers[begin:end])
        if len(self.table) > len(self._sums):
            more = np.empty((2 * len(self.table), 2), np.int64)
            more[:, COUNT], more[:, POSITION] = 0, _NEVER
            more[: len(self._sums)] = self._sums
            self._sums = more
        return numbers
