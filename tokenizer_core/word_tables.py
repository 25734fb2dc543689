"""Memory of word tables: zeroed, aligned, growing. What entries mean is in `kernels.word_keys`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.word_table import move_words

FULL = 0.6  # of a table's entries; linear probing stays short below this
_ENTRY = 4  # uint64
_LINE = 64  # bytes of a cache line; two entries share one and none straddles two


def empty_table(bits: int) -> NDArray[np.uint64]:
    """A table of 2^``bits`` empty entries: uint64 ``[4 · 2^bits]`` at the start of a cache line."""
    size = _ENTRY << bits
    memory = np.zeros(size + _LINE // 8, np.uint64)
    begin = -memory.ctypes.data % _LINE // 8
    return memory[begin : begin + size]


def bits_of(table: NDArray[np.uint64]) -> int:
    """b of a table with 2^b entries."""
    return (table.size // _ENTRY).bit_length() - 1


def grown_table(table: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """A table of 2^``bits`` entries that holds the same words."""
    larger = empty_table(bits)
    move_words(table, larger)
    return larger
