"""Tables of words in memory: they grow, add up word counts of every kind, and become rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_counts import (
    COUNT_LIMIT,
    WordCounts,
    concatenated,
    order_of_positions,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_rows import (
    ROOM,
    add_rows,
    gather_rows,
    join_counts,
    list_words,
    take_counts,
    take_entries,
)
from bpeline.tokenizer_core.kernels.counting.word_table import (
    POSITION_BYTES,
    USED,
    add_table,
)
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import in_pages
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import move_words

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

FULL = 0.6  # of a table's entries; linear probing stays short below this
FEWEST_BITS = 10
_ENTRY = 4  # uint64
_COUNT = 2  # which of them
_ENTRY_BYTES = 32
_LINE = 64  # bytes of a cache line; two entries share one and none straddles two
_FIRST_ARENA = 1 << 12
_ROWS_AT_ONCE = 1 << 16
_GROWING = threading.Lock()  # one at a time: the smaller and the larger table are there together


class WordTable:
    """Words with their counts and first positions, each word once.

    Attributes:
        entries, arena, used: what kernels work on, see `kernels.counting.word_table`.
    """

    def __init__(self, bits: int = FEWEST_BITS, table_bytes: int | None = None) -> None:
        """An empty table.

        Args:
            bits: room for about 0.6 · 2^bits words from the start.
            table_bytes: half of it is the most that entries take, half the most that the bytes of
                long words take; None sets no bounds.
        """
        self._most_arena = COUNT_LIMIT if table_bytes is None else table_bytes // 2
        self._most_bits = max((self._most_arena // _ENTRY_BYTES).bit_length() - 1, FEWEST_BITS)
        self.entries = empty_entries(min(bits, self._most_bits))
        self.arena: NDArray[np.uint8] = np.empty(_FIRST_ARENA, np.uint8)
        self.used = np.zeros(1, USED)
        self.used["hash_key"] = HASH_KEY

    def __len__(self) -> int:
        return int(self.used["words"][0])

    @property
    def limit(self) -> int:
        """Words that it holds without growing."""
        return int(FULL * (len(self.entries) // _ENTRY))

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena in use."""
        return int(self.used["arena_bytes"][0])

    @property
    def memory(self) -> int:
        """Bytes taken now."""
        return self.entries.nbytes + self.arena.nbytes

    def make_room(self, words: int, arena_bytes: int) -> bool:
        """Make room for more words and bytes of long words; False where the bounds forbid it."""
        return self._grow_entries(words) and self._grow_arena(arena_bytes, self._most_arena)

    def make_room_anyway(self, words: int, arena_bytes: int) -> None:
        """The same, but the arena may grow beyond its bound, and the entries may become crowded.

        For few words only: four in ten entries are free in a table that is full.
        """
        self._grow_entries(words)
        self._grow_arena(arena_bytes, COUNT_LIMIT)

    def add(self, counts: WordCounts) -> None:
        """Add rows. All counts together must stay below 2⁶³; the table must have no bounds."""
        size = len(counts.word_bytes)
        # A long word takes its bytes, up to seven more, and its position.
        self._grow_arena(size + (POSITION_BYTES + 7) * (size // 16), COUNT_LIMIT)
        word_bytes = _padded(counts.word_bytes)
        offsets, occurrences, positions = (
            np.require(column, np.int64, ["C", "W"])  # as kernels are compiled for
            for column in (counts.offsets, counts.counts, counts.first_positions)
        )
        # Of a part that is not the first most words are there: room is made for few rows at a time.
        most = _ROWS_AT_ONCE if len(self) else max(len(counts), 1)
        for begin in range(0, len(counts), most):
            end = min(begin + most, len(counts))
            self._grow_entries(end - begin)
            add_rows(
                word_bytes,
                offsets[begin : end + 1],
                occurrences[begin:end],
                positions[begin:end],
                self.entries,
                self.arena,
                self.used,
            )

    def added_to(self, earlier: WordCounts) -> WordCounts:
        """The sum of this table and of rows in order of sight, whose words all occurred earlier.

        They stay where they are, so that this costs a look at each, and no table of them. This
        table is empty of counts then. All counts together must stay below 2⁶³.
        """
        counts = np.array(earlier.counts, np.int64)
        offsets = np.require(earlier.offsets, np.int64, ["C", "W"])
        word_bytes = _padded(earlier.word_bytes)
        take_counts(word_bytes, offsets, counts, self.entries, self.arena, self.used)
        new = self.rows(earlier.pattern)
        return concatenated([replace(earlier, counts=counts), new.at_least(1)])

    def absorb(self, other: WordTable) -> None:
        """Add the words of another table; this one must have no bounds."""
        self._grow_entries(len(other))
        self._grow_arena(other.arena_bytes, COUNT_LIMIT)
        add_table(other.entries, other.arena, self.entries, self.arena, self.used)

    def unbounded(self) -> WordTable:
        """This very table, without bounds from now on."""
        self._most_arena = COUNT_LIMIT
        self._most_bits = COUNT_LIMIT.bit_length()
        return self

    def rows(
        self,
        pattern: SplitPattern,
        moved: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
    ) -> WordCounts:
        """All words, in order of first position; the table keeps them.

        Args:
            pattern: what made the words.
            moved: gives first positions (int64) their final values, in the same order.

        Raises:
            InvalidOption: a count above 2⁶³ − 1.
        """
        words, size = len(self), int(self.used["word_bytes"][0])
        numbers, positions = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        list_words(self.entries, self.arena, numbers, positions)
        if moved is not None:
            positions = moved(positions)
        order = order_of_positions(positions)
        first_positions = in_pages(words, np.int64)
        np.take(positions, order, out=first_positions, mode="clip")
        np.take(numbers, order, out=positions, mode="clip")
        del numbers, order
        word_bytes = in_pages(size + ROOM, np.uint8)
        offsets, counts = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        gather_rows(self.entries, self.arena, positions, word_bytes, offsets, counts)
        if words and int(counts.min()) < 0:
            raise too_many(int(counts.view(np.uint64).max()))
        return WordCounts(word_bytes[:size], offsets, counts, first_positions, pattern)

    @classmethod
    def joined(cls, tables: list[WordTable]) -> WordTable:
        """A table to make rows of, which holds the words of several and no room for others.

        They are emptied and taken from the list one by one: all of them in one table that may grow
        are up to twice the memory. With few words in common, many tables are better absorbed.
        """
        for number, table in enumerate(tables):
            for other in tables[number + 1 :]:
                join_counts(table.entries, table.arena, other.entries, other.arena, other.used)
        counted = [np.count_nonzero(table.entries[_COUNT::_ENTRY]) for table in tables]
        made = cls()
        made.entries = in_pages(_ENTRY * int(sum(counted)), np.uint64)
        made.arena = in_pages(sum(table.arena_bytes for table in tables), np.uint8)
        used = made.used[0]
        while tables:
            table = tables.pop(0)
            words, begin = int(used["words"]), int(used["arena_bytes"])
            used["words"], size = take_entries(table.entries, made.entries, words, begin)
            used["word_bytes"] += size
            used["arena_bytes"] += table.arena_bytes
            made.arena[begin : used["arena_bytes"]] = table.arena[: table.arena_bytes]
        return made

    def _grow_entries(self, words: int) -> bool:
        """Grow as far as needed, or as far as allowed: then the answer is False."""
        wanted = now = (self.entries.size // _ENTRY).bit_length() - 1
        while len(self) + words > FULL * (1 << wanted):
            wanted += 1
        bits = min(wanted, self._most_bits)
        if bits > now:
            with _GROWING:
                larger = empty_entries(bits)
                move_words(self.entries, larger, self.used["hash_key"][0])
                self.entries = larger
        return wanted <= self._most_bits

    def _grow_arena(self, more: int, most: int) -> bool:
        used = self.arena_bytes
        size = used + more
        if size > len(self.arena):
            if size > most:
                return False
            larger = in_pages(min(max(size, 2 * len(self.arena)), most), np.uint8)
            larger[:used] = self.arena[:used]
            self.arena = larger
        return True


def _padded(word_bytes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A copy of the bytes of words, with as many readable ones behind as kernels may read."""
    padded = np.empty(len(word_bytes) + PADDING, np.uint8)
    padded[: len(word_bytes)] = word_bytes
    padded[len(word_bytes) :] = 0
    return padded


def too_many(total: int) -> InvalidOption:
    """The refusal of counts that do not fit 64 bits."""
    return InvalidOption(
        f"the word counts add up to {total}",
        f"counts are 64-bit integers: up to {COUNT_LIMIT}",
        "use smaller weights: only their proportions matter",
    )


def empty_entries(bits: int) -> NDArray[np.uint64]:
    """2^``bits`` empty entries: uint64 ``[4 · 2^bits]`` at the start of a cache line."""
    size = _ENTRY << bits
    memory = in_pages(size + _LINE // 8, np.uint64)
    begin = -memory.ctypes.data % _LINE // 8
    return memory[begin : begin + size]
