"""Tables of words in memory: they grow, threads share them, and they become rows.

Threads make the rows, each for a range of first positions. Entries are only moved to the front of
their table, because touching new memory takes longer than sorting.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_counts import (
    COUNT_LIMIT,
    WordCounts,
    order_of_positions,
    sorted_keys,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared
from bpeline.tokenizer_core.kernels.counting import word_rows
from bpeline.tokenizer_core.kernels.counting.word_table import (
    POSITION_BYTES,
    USED,
    lock_table,
    unlock_table,
)
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import give_back, in_lines, in_pages
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import move_words

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

FULL = 0.6  # share of entries in use; linear probing is short below this
FEWEST_BITS = 10
_ENTRY = 4  # uint64
_ENTRY_BYTES = 32
_FIRST_ARENA = 1 << 12
_SECOND_ARENA = 2_000_000  # bytes; pages are touched as they are written
_ROWS_AT_ONCE = 1 << 16
# Tables grow one at a time, because the old and the new one need memory together.
_growing = threading.Lock()

# Rows of a range are sorted in a core's L2 cache.
_ROWS, _MOST_RANGES = 1 << 15, 1 << 10
_FEW = 1 << 11
_SAMPLE = 1 << 6  # sampled positions per range
_CELL_BITS = 12  # ranges consist of 2^12 cells of positions
_APART = 4  # ranges whose numbers fill a cache line
_ALL_BITS = 63

Moved = Callable[[NDArray[np.int64]], NDArray[np.int64]]

Result = TypeVar("Result")

# With so many parts, each locked for microseconds, threads seldom wait. A single thread has several
# parts, too: they grow and become rows one after the other, so less memory is needed twice.
_PARTS_OF_EACH = 8
_FEWEST_PART_BITS = 16  # a single thread with fewer entries has one table
_MOST_PARTS = 256
_TOUCHED = 512  # uint64 in a small page


def _renew_lock() -> None:
    """Replace the lock in a forked child, where no table grows."""
    global _growing
    _growing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class WordTable:
    """Words with their counts and first positions, each word once.

    Attributes:
        entries, arena, used: arrays for kernels, see `kernels.counting.word_table`.
    """

    def __init__(
        self,
        bits: int = FEWEST_BITS,
        table_bytes: int | None = None,
        memory: tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[Any]] | None = None,
    ) -> None:
        """Create an empty table.

        Args:
            bits: room for about 0.6 · 2^bits words from the start.
            table_bytes: memory limit, half for entries and half for the bytes of long words.
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
        """Number of words that fit without growing."""
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
        """Make room for more words and bytes of long words; False if it exceeds a limit."""
        return self._grow_entries(words, larger) and self._grow_arena(arena_bytes)

    def make_room_anyway(self, words: int, arena_bytes: int) -> None:
        """Make room for a few more words beyond the limits, until the next `tell`.

        The arena may exceed its limit. Entries may become crowded: 40 % are free in a full table.
        """
        self._grow_entries(words)
        self._grow_arena(arena_bytes, anyway=True)
        self.used["limit"] = max(self.limit, len(self) + words)

    def tell(self) -> None:
        """Store the addresses and the word limit for kernels."""
        self.used["entries"], self.used["arena"] = self.place
        self.used["slots"], self.used["arena_size"] = len(self.entries) // _ENTRY, len(self.arena)
        self.used["limit"] = self.limit

    def add(self, counts: WordCounts) -> None:
        """Add rows to a table without a memory limit; all counts must stay below 2⁶³."""
        size = len(counts.word_bytes)
        # A long word takes its bytes, up to seven more, and its position.
        self._grow_arena(size + (POSITION_BYTES + 7) * (size // 16), anyway=True)
        word_bytes = _padded(counts.word_bytes)
        offsets, occurrences, positions = (
            np.require(column, np.int64, ["C", "W"])  # the types that kernels are compiled for
            for column in (counts.offsets, counts.counts, counts.first_positions)
        )
        # Most words of later parts are there already, so make room for a few rows at a time.
        most = _ROWS_AT_ONCE if len(self) else max(len(counts), 1)
        for begin in range(0, len(counts), most):
            end = min(begin + most, len(counts))
            self._grow_entries(end - begin)
            word_rows.add_rows(
                word_bytes,
                offsets[begin : end + 1],
                occurrences[begin:end],
                positions[begin:end],
                self.entries,
                self.arena,
                self.used,
            )

    def rows(self, pattern: SplitPattern) -> WordCounts:
        """Return all words in order of first position; the table keeps them."""
        words, size = len(self), int(self.used["word_bytes"][0])
        numbers, positions = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        word_rows.list_words(self.entries, self.arena, numbers, positions)
        order = order_of_positions(positions)
        first_positions = in_pages(words, np.int64)
        np.take(positions, order, out=first_positions, mode="clip")
        np.take(numbers, order, out=positions, mode="clip")
        del numbers, order
        word_bytes = in_pages(size + word_rows.ROOM, np.uint8)
        offsets, counts = in_pages(words + 1, np.int64), in_pages(words, np.int64)
        end = size + word_rows.ROOM
        tables = np.array([self.place], np.int64)
        word_rows.gather_rows(tables, 0, positions, 63, word_bytes, offsets, counts, 0, end)
        if words and int(counts.min()) < 0:
            raise too_many(int(counts.view(np.uint64).max()))
        return WordCounts(word_bytes[:size], offsets, counts, first_positions, pattern)

    def _grow_entries(self, words: int, made: NDArray[np.uint64] | None = None) -> bool:
        """Grow as far as needed and allowed; False if that is not enough."""
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
        """Grow as far as needed; False if the limit forbids it."""
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
    """Copy the bytes of words, with padding that kernels may read."""
    padded = np.empty(len(word_bytes) + PADDING, np.uint8)
    padded[: len(word_bytes)] = word_bytes
    padded[len(word_bytes) :] = 0
    return padded


def too_many(total: int) -> InvalidOption:
    """Return the error for counts that do not fit 64 bits."""
    return InvalidOption(
        f"the word counts add up to {total}",
        f"expected a sum that fits a 64-bit integer: up to {COUNT_LIMIT}",
        "use smaller weights: only their proportions matter",
    )


def first_arena(*, for_many: bool = False) -> NDArray[np.uint8]:
    """Allocate an arena for long words, with padding; it is larger ``for_many``."""
    if for_many:
        return in_pages(_SECOND_ARENA, np.uint8)
    return np.empty(_FIRST_ARENA + word_rows.ROOM, np.uint8)[:_FIRST_ARENA]


def empty_entries(bits: int) -> NDArray[np.uint64]:
    """Allocate 2^``bits`` empty entries, uint64 ``[4 · 2^bits]``, cache-aligned."""
    return in_lines(_ENTRY << bits, np.uint64)


def rows_of(
    tables: Sequence[WordTable], pattern: SplitPattern, moved: Moved | None, threads: int
) -> WordCounts:
    """Return the words of 2^n disjoint tables, which are used up: `WordParts.rows`."""
    rows = _Rows(tables, moved)
    with _Threads(threads) as at_once:
        rows.last = max(at_once(rows.pack, range(len(tables))))
        if rows.are_few or not rows.fit_in_numbers:
            least = rows.write_all()
        else:
            ranges = rows.find_ranges(threads)
            at_once(rows.count, range(len(tables)))
            rows.place_ranges()
            at_once(rows.share_out, range(len(tables)))
            least = min(at_once(rows.write, range(ranges)))
    if least < 0:
        raise too_many(int(rows.counts.view(np.uint64).max()))
    return WordCounts(
        rows.word_bytes[: rows.size], rows.offsets, rows.counts, rows.positions, pattern
    )


def load_kernels_of_rows() -> None:
    """Load or compile the kernels of `rows_of`, while other threads still count."""
    compile_declared(
        word_rows.pack_entries,
        word_rows.count_shares,
        word_rows.share_rows,
        word_rows.sort_by_digit,
        word_rows.gather_rows,
    )


class _Rows:
    """Rows in the making.

    Attributes:
        positions, counts, offsets, word_bytes: of the rows. Until these are sorted, ``positions``
            holds the positions of the entries, table by table.
        size: bytes of all words.
        last: largest position.
    """

    last = 0

    def __init__(self, tables: Sequence[WordTable], moved: Moved | None) -> None:
        self._tables, self._moved = tables, moved
        self._part_bits = (len(tables) - 1).bit_length()
        self._begins = _begins(map(len, tables))
        self._bits = max(map(len, tables)).bit_length() + self._part_bits
        words = self._begins[-1]
        self.size = sum(int(table.used["word_bytes"][0]) for table in tables)
        # One allocation, so that most of it is in large pages.
        memory = in_pages(8 * (3 * words + 1) + self.size + word_rows.ROOM, np.uint8)
        columns = memory[: 8 * (3 * words + 1)].view(np.int64)
        self.positions, self.counts, self.offsets = np.split(columns, [words, 2 * words])
        self.word_bytes = memory[columns.nbytes :]

    def _of_table(self, part: int) -> NDArray[np.int64]:
        return self.positions[self._begins[part] : self._begins[part + 1]]

    def pack(self, part: int) -> int:
        """Move the entries of a table to its front; return the largest position."""
        table, positions = self._tables[part], self._of_table(part)
        word_rows.pack_entries(table.entries, table.arena, positions)
        give_back(table.entries[4 * len(positions) :])
        if self._moved is not None:
            positions[:] = self._moved(positions)
        return int(positions.max(initial=0))

    @property
    def are_few(self) -> bool:
        """Whether there are too few rows to divide them into ranges."""
        return len(self.positions) <= _FEW

    @property
    def fit_in_numbers(self) -> bool:
        """Whether one number can hold any position and the place of its entry."""
        return self._bits + self.last.bit_length() <= _ALL_BITS

    def find_ranges(self, threads: int) -> int:
        """Choose ranges of positions with about as many words in each; return how many."""
        words = len(self.positions)
        # As many for each thread, so that all end at about the same time.
        number = min(max(words // (_ROWS * threads), 1) * threads, _MOST_RANGES)
        sample = np.sort(self.positions[:: max(words // (_SAMPLE * number), 1)])
        self._shift = max(self.last.bit_length() - _CELL_BITS, 0)
        cells = np.zeros((self.last >> self._shift) + 1, np.int64)
        if words:
            cells[sample[np.arange(1, number) * len(sample) // number] >> self._shift] = 1
        self._ranges = np.cumsum(cells)
        number = int(self._ranges[-1]) + 1
        begins = np.searchsorted(self._ranges, np.arange(number)) << self._shift
        self._between = [*begins.tolist(), self.last]
        # Words and bytes of each table in each range; tables do not share cache lines.
        shape = len(self._tables), -(-number // _APART) * _APART, 2
        self._shares = in_lines(2 * shape[0] * shape[1], np.int64).reshape(shape)
        return number

    def count(self, part: int) -> None:
        """Count the words of one table in each range."""
        cells = self._ranges, self._shift
        word_rows.count_shares(
            self._tables[part].entries, self._of_table(part), *cells, self._shares[part]
        )

    def place_ranges(self) -> None:
        """Assign rows and bytes to each range and, in a range, to each table."""
        words, sizes = self._shares[:, :, 0].T, self._shares[:, :, 1].sum(axis=0)
        self._first_rows, self._first_bytes = _begins(words.sum(axis=1)), _begins(sizes)
        words[:] = np.cumsum(words).reshape(words.shape) - words
        self._numbers = in_pages(len(self.positions), np.int64)

    def share_out(self, part: int) -> None:
        """Move the rows of one table to their ranges."""
        bits = self._part_bits, self._bits
        place = self._ranges, self._shift, part, *bits
        word_rows.share_rows(self._of_table(part), *place, self._shares[part], self._numbers)

    def write(self, number: int) -> int:
        """Write the rows of one range; return the smallest count."""
        mine = slice(*self._first_rows[number : number + 2])
        numbers, positions = self._numbers[mine], self.positions[mine]
        first, last = self._between[number : number + 2]
        least = first << self._bits
        ordered = sorted_keys(numbers, self._bits, (last - first).bit_length(), positions, least)
        begin, end = self._first_bytes[number : number + 2]
        count = self._gather(ordered, self._bits, mine.start, begin, end)
        np.right_shift(ordered, np.int64(self._bits), out=positions)
        return count

    def write_all(self) -> int:
        """Write all rows at once, if they are few or do not fit in numbers."""
        numbers = np.concatenate(
            [
                np.arange(len(table), dtype=np.int64) << self._part_bits | part
                for part, table in enumerate(self._tables)
            ]
        )
        order = order_of_positions(self.positions)
        self.positions[:] = self.positions[order]
        return self._gather(numbers[order], _ALL_BITS, 0, 0, len(self.word_bytes))

    def _gather(self, numbers: NDArray[np.int64], bits: int, row: int, begin: int, end: int) -> int:
        places = np.array([table.place for table in self._tables], np.int64)
        offsets = self.offsets[row : row + len(numbers) + 1]
        counts = self.counts[row : row + len(numbers)]
        columns = self.word_bytes, offsets, counts
        word_rows.gather_rows(places, self._part_bits, numbers, bits, *columns, begin, end)
        return int(counts.min(initial=0))


class _Threads:
    """Calls a function of numbers in several threads, including the calling one."""

    def __init__(self, number: int) -> None:
        self._others = number - 1
        self._pool = ThreadPoolExecutor(self._others) if self._others else None

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def __call__(self, call: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
        """Return the results in any order."""
        waiting, results = deque(numbers), list[Result]()

        def work() -> None:
            while waiting:
                try:
                    number = waiting.popleft()
                except IndexError:  # another thread took it
                    return
                results.append(call(number))

        working = []
        if self._pool is not None:
            working = [self._pool.submit(work) for _ in range(min(self._others, len(waiting) - 1))]
        work()
        for future in working:
            future.result()
        return results


def _begins(sizes: Iterable[int]) -> list[int]:
    """Return where each of several parts begins, and where the last one ends."""
    return [0, *np.cumsum(list(sizes)).tolist()]


class WordParts:
    """Tables of words that threads share; the hash of a word decides its table.

    Attributes:
        tables: a power of two of them.
        used: their records, see `kernels.counting.word_table`.
        bits: room for about 0.6 · 2^bits words from the start.
    """

    def __init__(self, bits: int, threads: int = 1, table_bytes: int | None = None) -> None:
        """Create empty tables; with ``table_bytes``, one table for one thread."""
        self.bits = max(bits, FEWEST_BITS)
        if table_bytes is not None:
            self.tables = [WordTable(bits, table_bytes)]
            self.used = self.tables[0].used
        else:
            each = 1 if threads == 1 and bits < _FEWEST_PART_BITS else _PARTS_OF_EACH
            part_bits = (min(each * threads, _MOST_PARTS) - 1).bit_length()
            entries = empty_entries(max(self.bits - part_bits, FEWEST_BITS) + part_bits)
            self.used = in_lines(USED.itemsize << part_bits, np.uint8).view(USED)
            self.tables = [
                WordTable(memory=(part, first_arena(for_many=bits >= _FEWEST_PART_BITS), used))
                for part, used in zip(
                    np.split(entries, 1 << part_bits),
                    np.split(self.used, 1 << part_bits),
                    strict=True,
                )
            ]
        self._growing = [threading.Lock() for _ in self.tables]

    def make_room(self, part: int, words: int, arena_bytes: int) -> bool:
        """`WordTable.make_room` in one of the tables."""
        table, larger = self.tables[part], None
        with self._growing[part]:
            if len(self.tables) > 1 and len(table) + words > table.limit:
                # Touch new memory before the lock: others wait while words are moved.
                larger = empty_entries(table.bits + 1)
                larger[::_TOUCHED] = 0
            with self.held(part):
                return table.make_room(words, arena_bytes, larger)

    @contextmanager
    def held(self, part: int) -> Iterator[WordTable]:
        """Lock a table, so that no other thread reads or writes it."""
        lock_table(self.used, part)
        try:
            yield self.tables[part]
        finally:
            unlock_table(self.used, part)

    def rows(
        self,
        pattern: SplitPattern,
        moved: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
        threads: int = 1,
    ) -> WordCounts:
        """Return all words in order of first position, and remove the tables.

        ``moved`` converts first positions (int64) to their final values, in the same order.
        """
        tables, self.tables = self.tables, []
        return rows_of(tables, pattern, moved, threads)
