"""Words of one corpus in several tables, which threads share; knows no text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.part_rows import rows_of
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.counting.word_tables import (
    FEWEST_BITS,
    WordTable,
    empty_entries,
    first_arena,
)
from bpeline.tokenizer_core.kernels.counting.word_table import USED, hold_table, let_table_go
from bpeline.tokenizer_core.kernels.memory.pages import in_lines

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern

# Threads seldom meet at one of so many parts, each of which is theirs for microseconds at a time.
# A thread alone has several as well: they grow and become rows one after the other, so less of them
# is in memory twice.
_PARTS_OF_EACH = 8
_FEWEST_BITS = 16  # of all parts of one thread; below, one table does
_MOST_PARTS = 256
_TOUCHED = 512  # uint64, a small page


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
            self.used = in_lines(USED.itemsize << part_bits, np.uint8).view(USED)
            self.tables = [
                WordTable(memory=(part, first_arena(for_many=bits >= _FEWEST_BITS), used))
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
        tables, self.tables = self.tables, []
        return rows_of(tables, pattern, moved, threads)
