"""A running sum of word counts in memory: parts go in one by one, each word comes out once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.errors import InvalidOption
from tokenizer_core.kernels.memory import PADDING
from tokenizer_core.kernels.word_sums import add_rows
from tokenizer_core.word_counts import COUNT_LIMIT, WordCounts
from tokenizer_core.word_tables import FULL, bits_of, empty_table, grown_table

if TYPE_CHECKING:
    from tokenizer_core.split_patterns import SplitPattern

Number = TypeVar("Number", bound=np.generic)

_FEWEST_BITS = 10


class WordSum:
    """Adds `WordCounts` up; memory is that of the distinct words so far and of one part.

    Parts may be added from one thread only. First positions must already be positions in the
    whole corpus (`WordCounts.shifted`).
    """

    def __init__(self, pattern: SplitPattern) -> None:
        self._pattern = pattern
        self._table = empty_table(_FEWEST_BITS)
        self._used = 0
        self._total = 0
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)
        self._positions: NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, part: WordCounts) -> None:
        """Add one part.

        Raises:
            InvalidOption: the part has another split pattern, or all counts together exceed
                2⁶³ − 1 (so no single sum can overflow either).
        """
        if part.pattern != self._pattern:
            raise InvalidOption(
                "word counts made by different split patterns cannot be added up",
                f"every part must have the pattern {self._pattern.name or self._pattern.regex!r}",
                "count the corpus again with one pattern",
            )
        self._total += part.total
        if self._total > COUNT_LIMIT:
            raise InvalidOption(
                f"the word counts add up to {self._total}",
                f"counts are 64-bit integers: up to {COUNT_LIMIT}",
                "use smaller weights: only their proportions matter",
            )
        self._make_room(len(part), len(part.word_bytes))
        word_bytes = np.empty(len(part.word_bytes) + PADDING, np.uint8)
        word_bytes[: len(part.word_bytes)] = part.word_bytes
        word_bytes[len(part.word_bytes) :] = 0
        self._used = add_rows(
            word_bytes,
            _for_kernels(part.offsets),
            _for_kernels(part.counts),
            _for_kernels(part.first_positions),
            self._table,
            self._bytes,
            self._offsets,
            self._counts,
            self._positions,
            self._used,
        )

    @property
    def memory(self) -> int:
        """Bytes taken now; adding a part may double them."""
        arrays = (self._table, self._bytes, self._offsets, self._counts, self._positions)
        return sum(array.nbytes for array in arrays)

    def result(self) -> WordCounts:
        """The sum so far, rows in order of first insertion; the sum may go on afterwards."""
        return WordCounts(
            self._bytes[: self._offsets[self._used]].copy(),
            self._offsets[: self._used + 1].copy(),
            self._counts[: self._used].copy(),
            self._positions[: self._used].copy(),
            self._pattern,
        )

    def _make_room(self, rows: int, size: int) -> None:
        """Room for ``rows`` more words of ``size`` bytes together, as if all of them were new."""
        rows += self._used
        size += int(self._offsets[self._used]) + PADDING
        self._bytes = _grown(self._bytes, size)
        self._offsets = _grown(self._offsets, rows + 1)
        self._counts = _grown(self._counts, rows)
        self._positions = _grown(self._positions, rows)
        bits = bits_of(self._table)
        while rows > FULL * (1 << bits):
            bits += 1
        if bits > bits_of(self._table):
            self._table = grown_table(self._table, bits)


def _grown(array: NDArray[Number], size: int) -> NDArray[Number]:
    """``array`` itself if it has ``size`` items, else a copy with room for twice as many."""
    if len(array) >= size:
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


def _for_kernels(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """``array`` as kernels are compiled for: int64, contiguous, writable."""
    return np.require(array, np.int64, ["C", "W"])
