"""Tables of words in memory: they grow, add up word counts of every kind, and become rows."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_counts import (
    COUNT_LIMIT,
    WordCounts,
    order_of_positions,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.counting.word_rows import (
    ROOM,
    add_rows,
    gather_rows,
    list_words,
)
from bpeline.tokenizer_core.kernels.counting.word_table import POSITION_BYTES, USED
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import in_lines, in_pages
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import move_words

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

FULL = 0.6  # of a table's entries; linear probing stays short below this
FEWEST_BITS = 10
_ENTRY = 4  # uint64
_ENTRY_BYTES = 32
_FIRST_ARENA = 1 << 12
_SECOND_ARENA = 2_000_000  # in pages that are touched as they are written
_ROWS_AT_ONCE = 1 << 16
# Tables grow one at a time: the smaller and the larger one are there together.
_growing = threading.Lock()


def _renew_lock() -> None:
    """In a forked child no table grows, whatever the lock says."""
    global _growing
    _growing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class WordTable:
    """Words with their counts and first positions, each word once.

    Attributes:
        entries, arena, used: what kernels work on, see `kernels.counting.word_table`.
    """

    def __init__(
        self,
        bits: int = FEWEST_BITS,
        table_bytes: int | None = None,
        memory: tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[Any]] | None = None,
    ) -> None:
        """An empty table.

        Args:
            bits: room for about 0.6 · 2^bits words from the start.
            table_bytes: half of it is the most that entries take, half the most that the bytes of
                long words take; None sets no bounds.
            memory: ``entries``, ``arena`` and ``used`` to begin with; entries and used are zeros.
        """
        self._most_arena = COUNT_LIMIT if table_bytes is None else table_bytes // 2
        self._most_bits = max((self._most_arena // _ENTRY_BYTES).bit_length() - 1, FEWEST_BITS)
        if memory is None:
            entries = empty_entries(min(bits, self._most_bits))
            memory = entries, first_arena(), np.zeros(1, USED)
        self.entries, self.arena, self.used = memory
        self.used["hash_key"] = HASH_KEY
        self.tell()

    def __len__(self) -> int:
        return int(self.used["words"][0])

    @property
    def bits(self) -> int:
        """There are 2^bits entries."""
        return (len(self.entries) // _ENTRY).bit_length() - 1

    @property
    def limit(self) -> int:
        """Words that it holds without growing."""
        return int(FULL * (len(self.entries) // _ENTRY))

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena in use."""
        return int(self.used["arena_bytes"][0])

    @property
    def place(self) -> tuple[int, int]:
        """Addresses of entries and arena."""
        return self.entries.ctypes.data, self.arena.ctypes.data

    def make_room(
        self, words: int, arena_bytes: int, larger: NDArray[np.uint64] | None = None
    ) -> bool:
        """Make room for more words and bytes of long words; False where the bounds forbid it.

        Args:
            larger: empty entries that may be used, twice as many as now.
        """
        return self._grow_entries(words, larger) and self._grow_arena(arena_bytes)

    def make_room_anyway(self, words: int, arena_bytes: int) -> None:
        """The same, but the arena may grow beyond its bound, and the entries may become crowded.

        For few words only, and until the next `tell`: four in ten entries are free in a table that
        is full.
        """
        self._grow_entries(words)
        self._grow_arena(arena_bytes, anyway=True)
        self.used["limit"] = max(self.limit, len(self) + words)

    def tell(self) -> None:
        """Tell kernels where everything is, and how many words there may be."""
        self.used["entries"], self.used["arena"] = self.place
        self.used["slots"], self.used["arena_size"] = len(self.entries) // _ENTRY, len(self.arena)
        self.used["limit"] = self.limit

    def add(self, counts: WordCounts) -> None:
        """Add rows. All counts together must stay below 2⁶³; the table must have no bounds."""
        size = len(counts.word_bytes)
        # A long word takes its bytes, up to seven more, and its position.
        self._grow_arena(size + (POSITION_BYTES + 7) * (size // 16), anyway=True)
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

    def rows(self, pattern: SplitPattern) -> WordCounts:
        """All words, in order of first position; the table keeps them.

        Raises:
            InvalidOption: a count above 2⁶³ − 1.
        """
        words, size = len(self), int(self.used["word_bytes"][0])
        numbers, positions = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        list_words(self.entries, self.arena, numbers, positions)
        order = order_of_positions(positions)
        first_positions = in_pages(words, np.int64)
        np.take(positions, order, out=first_positions, mode="clip")
        np.take(numbers, order, out=positions, mode="clip")
        del numbers, order
        word_bytes = in_pages(size + ROOM, np.uint8)
        offsets, counts = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        end = size + ROOM
        tables = np.array([self.place], np.int64)
        gather_rows(tables, 0, positions, 63, word_bytes, offsets, counts, 0, end)
        if words and int(counts.min()) < 0:
            raise too_many(int(counts.view(np.uint64).max()))
        return WordCounts(word_bytes[:size], offsets, counts, first_positions, pattern)

    def _grow_entries(self, words: int, made: NDArray[np.uint64] | None = None) -> bool:
        """Grow as far as needed, or as far as allowed: then the answer is False.

        Args:
            made: see `make_room`.
        """
        wanted = self.bits
        while len(self) + words > FULL * (1 << wanted):
            wanted += 1
        bits = min(wanted, self._most_bits)
        if bits > self.bits:
            if made is not None and len(made) == _ENTRY << bits:
                self._move_to(made)
            else:
                with _growing:
                    self._move_to(empty_entries(bits))
        return wanted <= self._most_bits

    def _move_to(self, larger: NDArray[np.uint64]) -> None:
        move_words(self.entries, larger, self.used["hash_key"][0])
        self.entries = larger
        self.tell()

    def _grow_arena(self, more: int, *, anyway: bool = False) -> bool:
        """Grow as far as needed; where the bounds forbid that, not at all or no farther."""
        used = self.arena_bytes
        size = used + more
        if size > len(self.arena):
            if size > self._most_arena and not anyway:
                return False
            enough = max(2 * len(self.arena), _SECOND_ARENA)
            larger = in_pages(max(size, min(enough, self._most_arena)), np.uint8)
            larger[:used] = self.arena[:used]
            self.arena = larger
            self.tell()
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


def first_arena(*, for_many: bool = False) -> NDArray[np.uint8]:
    """What holds the first long words, with as many readable bytes behind as kernels may read.

    Args:
        for_many: whether it grows anyway; what is not written takes no memory then.
    """
    if for_many:
        return in_pages(_SECOND_ARENA, np.uint8)
    return np.empty(_FIRST_ARENA + ROOM, np.uint8)[:_FIRST_ARENA]


def empty_entries(bits: int) -> NDArray[np.uint64]:
    """2^``bits`` empty entries: uint64 ``[4 · 2^bits]``; none lies in two cache lines."""
    return in_lines(_ENTRY << bits, np.uint64)
