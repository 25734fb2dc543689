"""Words of one corpus in several tables, which threads share; knows no text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_counts import (
    COUNT_LIMIT,
    WordCounts,
    order_of_positions,
    sorted_keys,
)
from bpeline.tokenizer_core.counting.word_tables import (
    FEWEST_BITS,
    FIRST_ARENA,
    WordTable,
    empty_entries,
    too_many,
)
from bpeline.tokenizer_core.kernels.counting.word_rows import (
    ROOM,
    gather_rows,
    keys_between,
    take_entries,
)
from bpeline.tokenizer_core.kernels.counting.word_table import USED, hold_table, let_table_go
from bpeline.tokenizer_core.kernels.memory.pages import in_pages

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

# Threads seldom meet at one of so many parts, each of which is theirs for microseconds at a time.
# A thread alone has several as well: they grow and become rows one after the other, so less of them
# is in memory twice.
_PARTS_OF_EACH = 8
_FEWEST_BITS = 16  # of all parts of one thread; below, one table does
_MOST_PARTS = 256
_TOUCHED = 512  # uint64, a small page
_SAMPLE = 1 << 10  # positions that are looked at to share rows out

Result = TypeVar("Result")


class WordParts:
    """Tables of words, and what each of them holds; a word belongs to one of them by its hash.

    Attributes:
        tables: a power of two of them.
        used: their records, see `kernels.counting.word_table`.
        bits: room for about 0.6 · 2^bits words, from the start.
    """

    def __init__(self, bits: int, threads: int = 1, table_bytes: int | None = None) -> None:
        """Empty tables.

        Args:
            bits: for how many words.
            threads: how many add words.
            table_bytes: bounds, see `WordTable`: then there is one table, for one thread.
        """
        self.bits = max(bits, FEWEST_BITS)
        if table_bytes is not None:
            self.tables = [WordTable(bits, table_bytes)]
            self.used = self.tables[0].used
        else:
            each = 1 if threads == 1 and bits < _FEWEST_BITS else _PARTS_OF_EACH
            part_bits = (min(each * threads, _MOST_PARTS) - 1).bit_length()
            entries = empty_entries(max(self.bits - part_bits, FEWEST_BITS) + part_bits)
            self.used = np.zeros(1 << part_bits, USED)
            self.tables = [
                WordTable(memory=(part, np.empty(FIRST_ARENA, np.uint8), used))
                for part, used in zip(
                    np.split(entries, 1 << part_bits),
                    np.split(self.used, 1 << part_bits),
                    strict=True,
                )
            ]
        self._growing = [threading.Lock() for _ in self.tables]

    def make_room(self, part: int, words: int, arena_bytes: int) -> bool:
        """Make room in a table, see `WordTable.make_room`."""
        table, larger = self.tables[part], None
        with self._growing[part]:
            if len(self.tables) > 1 and len(table) + words > table.limit:
                # Others wait while words are moved, so fresh memory is touched before.
                larger = empty_entries(table.bits + 1)
                larger[::_TOUCHED] = 0
            with self.held(part):
                return table.make_room(words, arena_bytes, larger)

    @contextmanager
    def held(self, part: int) -> Iterator[WordTable]:
        """A table that no other thread reads or writes meanwhile."""
        hold_table(self.used, part)
        try:
            yield self.tables[part]
        finally:
            let_table_go(self.used, part)

    def rows(
        self,
        pattern: SplitPattern,
        moved: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None,
        threads: int = 1,
    ) -> WordCounts:
        """All words, in order of first position; the tables are empty then.

        Args:
            pattern: what made the words.
            moved: gives first positions (int64) their final values, in the same order.
            threads: how many of them make rows; each those of a range of positions.

        Raises:
            InvalidOption: a count above 2⁶³ − 1.
        """
        words, size = int(self.used["words"].sum()), int(self.used["word_bytes"].sum())
        entries = in_pages(4 * words, np.uint64)
        arena = in_pages(int(self.used["arena_bytes"].sum()), np.uint8)
        positions, offsets = in_pages(words, np.int64), in_pages(words + 1, np.int64)
        lengths = offsets[:words]  # until these are known
        rows, places = (_begins(self.used[name]) for name in ("words", "arena_bytes"))
        tables = dict(enumerate(self.tables))
        self.tables = []

        def take(part: int) -> None:
            table, place = tables.pop(part), places[part]
            mine = slice(rows[part], rows[part + 1])
            target = entries[4 * mine.start : 4 * mine.stop]
            columns = positions[mine], lengths[mine]
            take_entries(table.entries, table.arena, target, place, *columns)
            arena[place : place + table.arena_bytes] = table.arena[: table.arena_bytes]
            if moved is not None:
                positions[mine] = moved(positions[mine])

        word_bytes, counts = in_pages(size + ROOM, np.uint8), in_pages(words, np.int64)
        with _Threads(threads) as at_once:
            at_once(take, range(len(tables)))
            bits, position_bits = words.bit_length(), int(positions.max(initial=0)).bit_length()
            if bits + position_bits > 63:  # of a number that holds both
                order = order_of_positions(positions)
                gather_rows(entries, arena, order, word_bytes, offsets, counts, 0, size + ROOM)
                positions = positions[order]
            else:
                ranges = _ranges(positions, threads)

                def sort(number: int) -> tuple[NDArray[np.int64], int]:
                    keys = in_pages(words + 1, np.int64)
                    first, behind = ranges[number : number + 2]
                    listed, size = keys_between(positions, lengths, first, behind, bits, keys)
                    return sorted_keys(keys[:listed], bits, position_bits), size

                ordered = at_once(sort, range(threads))
                first_rows = _begins([len(keys) for keys, _ in ordered])
                first_bytes = _begins([size for _, size in ordered])

                def gather(number: int) -> None:
                    keys, begin, end = ordered[number][0], *first_rows[number : number + 2]
                    np.right_shift(keys, np.int64(bits), out=positions[begin:end])
                    keys &= np.int64((1 << bits) - 1)
                    columns = offsets[begin : end + 1], counts[begin:end]
                    place, last = first_bytes[number : number + 2]
                    gather_rows(entries, arena, keys, word_bytes, *columns, place, last)

                at_once(gather, range(threads))
        if words and int(counts.min()) < 0:
            raise too_many(int(counts.view(np.uint64).max()))
        return WordCounts(word_bytes[:size], offsets, counts, positions, pattern)


class _Threads:
    """Calls a function of numbers, in threads where there are to be several."""

    def __init__(self, number: int) -> None:
        self._pool = ThreadPoolExecutor(number) if number > 1 else None

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def __call__(self, call: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
        return list((map if self._pool is None else self._pool.map)(call, numbers))


def _begins(sizes: Sequence[int] | NDArray[np.int64]) -> list[int]:
    """Where each of several parts of these sizes begins, and where the last one ends."""
    return [0, *np.cumsum(sizes).tolist()]


def _ranges(positions: NDArray[np.int64], number: int) -> list[int]:
    """Positions that bound so many ranges with about as many of these in each."""
    sample = np.sort(positions[:: max(len(positions) // _SAMPLE, 1)])
    middle = [int(sample[at * len(sample) // number]) for at in range(1, number) if len(sample)]
    return [0, *middle, *[COUNT_LIMIT] * (number - len(middle))]
