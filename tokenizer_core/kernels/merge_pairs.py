"""The table of pairs: one row per pair, found by its key through open addressing.

A pair's key is ``left << 32 | right``. Rows are appended, never removed. ``slots`` has a power
of two entries, at least twice as many as rows: the index of a row, or `EMPTY`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel

Integer = int | np.integer[Any]  # inside kernels both are int64

KEY, COUNT, START, LENGTH = 0, 1, 2, 3  # columns; START and LENGTH: its segment of the arena
COLUMNS = 4
EMPTY = -1

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth)


@kernel
def key_of(left: Integer, right: Integer) -> Integer:
    return (np.int64(left) << np.int64(32)) | np.int64(right)


@kernel
def slot_of(pairs: NDArray[np.int64], slots: NDArray[np.int32], key: Integer) -> Integer:
    """The slot that holds ``key``, or the empty one where it belongs."""
    last = np.uint64(slots.size - 1)
    mixed = np.uint64(key) * _MULTIPLIER
    slot = (mixed >> np.uint64(32)) & last
    while slots[slot] != EMPTY and pairs[slots[slot], KEY] != key:
        slot = (slot + np.uint64(1)) & last
    return np.int64(slot)


@kernel
def find_pair(pairs: NDArray[np.int64], slots: NDArray[np.int32], key: Integer) -> Integer:
    """Index of the row of ``key``, or `EMPTY`."""
    return np.int64(slots[slot_of(pairs, slots, key)])


@kernel
def fill_slots(pairs: NDArray[np.int64], size: Integer, slots: NDArray[np.int32]) -> None:
    """Enter the first ``size`` rows into ``slots``, which are all `EMPTY` before."""
    for index in range(size):
        slots[slot_of(pairs, slots, pairs[index, KEY])] = index
