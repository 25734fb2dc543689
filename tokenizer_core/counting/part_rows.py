"""Words in several tables become rows in order of first position, made by threads; counts nothing.

Each thread makes the rows of a range of positions. Entries stay where they are, but for being moved
to the front of their table: memory that was never touched takes longer than sorting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_counts import (
    WordCounts,
    order_of_positions,
    sorted_keys,
)
from bpeline.tokenizer_core.counting.word_tables import WordTable, too_many
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared
from bpeline.tokenizer_core.kernels.counting.word_rows import (
    ROOM,
    count_shares,
    gather_rows,
    pack_entries,
    share_rows,
    sort_by_digit,
)
from bpeline.tokenizer_core.kernels.memory.pages import give_back, in_lines, in_pages

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

# Rows of a range are sorted in the second-level cache of a core.
_ROWS, _MOST_RANGES = 1 << 15, 1 << 10
_FEW = 1 << 11
_SAMPLE = 1 << 6  # positions for each range that are looked at
_CELL_BITS = 12  # cells of positions, of which ranges are made
_APART = 4  # ranges whose numbers fill a cache line
_ALL_BITS = 63

Moved = Callable[[NDArray[np.int64]], NDArray[np.int64]]
Result = TypeVar("Result")


def rows_of(
    tables: Sequence[WordTable], pattern: SplitPattern, moved: Moved | None, threads: int
) -> WordCounts:
    """All words of tables that have none in common, in order of first position.

    Args:
        tables: a power of two of them; only their memory is of use afterwards.
        pattern, moved, threads: see `WordParts.rows`.

    Raises:
        InvalidOption: a count above 2⁶³ − 1.
    """
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
    """Load, or compile, what makes many words rows, while other threads still count them."""
    compile_declared(pack_entries, count_shares, share_rows, sort_by_digit, gather_rows)


class _Rows:
    """Rows in the making.

    Attributes:
        positions, counts, offsets, word_bytes: of the rows. Until these are in order, ``positions``
            has those of the entries of one table after the other.
        size: bytes of all words.
        last: no position is above.
    """

    last = 0

    def __init__(self, tables: Sequence[WordTable], moved: Moved | None) -> None:
        self._tables, self._moved = tables, moved
        self._part_bits = (len(tables) - 1).bit_length()
        self._begins = _begins(map(len, tables))
        self._bits = max(map(len, tables)).bit_length() + self._part_bits
        words = self._begins[-1]
        self.size = sum(int(table.used["word_bytes"][0]) for table in tables)
        # One after the other, so that most of them lies in large pages.
        memory = in_pages(8 * (3 * words + 1) + self.size + ROOM, np.uint8)
        columns = memory[: 8 * (3 * words + 1)].view(np.int64)
        self.positions, self.counts, self.offsets = np.split(columns, [words, 2 * words])
        self.word_bytes = memory[columns.nbytes :]

    def _of_table(self, part: int) -> NDArray[np.int64]:
        return self.positions[self._begins[part] : self._begins[part + 1]]

    def pack(self, part: int) -> int:
        """Move the entries of one table to its front, list their positions; the last of these."""
        table, positions = self._tables[part], self._of_table(part)
        pack_entries(table.entries, table.arena, positions)
        give_back(table.entries[4 * len(positions) :])
        if self._moved is not None:
            positions[:] = self._moved(positions)
        return int(positions.max(initial=0))

    @property
    def are_few(self) -> bool:
        """Whether ranges of them are not worth making."""
        return len(self.positions) <= _FEW

    @property
    def fit_in_numbers(self) -> bool:
        """Whether one number can hold a position up to the last one, and where its entry is."""
        return self._bits + self.last.bit_length() <= _ALL_BITS

    def find_ranges(self, threads: int) -> int:
        """Ranges of positions with about as many words in each, some for each thread; how many."""
        words = len(self.positions)
        # As many for each thread, so that all of them end at about the same time.
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
        # Of each range in each table words and bytes; no two tables share a cache line.
        shape = len(self._tables), -(-number // _APART) * _APART, 2
        self._shares = in_lines(2 * shape[0] * shape[1], np.int64).reshape(shape)
        return number

    def count(self, part: int) -> None:
        """Count the words of one table in each range."""
        cells = self._ranges, self._shift
        count_shares(self._tables[part].entries, self._of_table(part), *cells, self._shares[part])

    def place_ranges(self) -> None:
        """Give each range a place, and in it each table one; the same for their bytes."""
        words, sizes = self._shares[:, :, 0].T, self._shares[:, :, 1].sum(axis=0)
        self._first_rows, self._first_bytes = _begins(words.sum(axis=1)), _begins(sizes)
        words[:] = np.cumsum(words).reshape(words.shape) - words
        self._numbers = in_pages(len(self.positions), np.int64)

    def share_out(self, part: int) -> None:
        """Put the rows of one table to those of their ranges."""
        bits = self._part_bits, self._bits
        place = self._ranges, self._shift, part, *bits
        share_rows(self._of_table(part), *place, self._shares[part], self._numbers)

    def write(self, number: int) -> int:
        """The rows of one range; the least of their counts."""
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
        """All rows, where they are few or positions leave no room for numbers."""
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
        gather_rows(places, self._part_bits, numbers, bits, *columns, begin, end)
        return int(counts.min(initial=0))


class _Threads:
    """Calls a function of numbers in several threads, of which the calling one is one."""

    def __init__(self, number: int) -> None:
        self._others = number - 1
        self._pool = ThreadPoolExecutor(self._others) if self._others else None

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def __call__(self, call: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
        """What the function gives, in any order."""
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
        for one in working:
            one.result()
        return results


def _begins(sizes: Iterable[int]) -> list[int]:
    """Where each of several parts of these sizes begins, and where the last one ends."""
    return [0, *np.cumsum(list(sizes)).tolist()]
