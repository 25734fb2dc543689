"""The table of pairs: one row per pair, found by its key through open addressing.

A pair's key is ``left << 32 | right``. Rows are appended, never removed. ``slots`` has a power
of two entries, at least twice as many as rows: the index of a row, or `EMPTY`.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I32s, I64Rows, Int

KEY, COUNT, START, LENGTH = 0, 1, 2, 3  # columns; START and LENGTH: its segment of the arena
COLUMNS = 4
EMPTY = -1

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing (Knuth)


@kernel
def key_of(left: Int, right: Int) -> I64:
    return (np.int64(left) << np.int64(32)) | np.int64(right)


@kernel
def first_slot(slots: I32s, key: I64) -> I64:
    """Where the search for ``key`` begins."""
    mixed = np.uint64(key) * _MULTIPLIER
    return np.int64((mixed >> np.uint64(32)) & np.uint64(slots.size - 1))


@kernel
def slot_of(pairs: I64Rows, slots: I32s, key: I64) -> I64:
    """The slot that holds ``key``, or the empty one where it belongs."""
    slot = first_slot(slots, key)
    while slots[slot] != EMPTY and pairs[slots[slot], KEY] != key:
        slot = (slot + 1) & (slots.size - 1)
    return slot


@kernel
def find_pair(pairs: I64Rows, slots: I32s, key: I64) -> I64:
    """Index of the row of ``key``, or `EMPTY`."""
    return np.int64(slots[slot_of(pairs, slots, key)])


@entry_kernel
def fill_slots(pairs: I64Rows, size: I64, slots: I32s) -> None:
    """Enter the first ``size`` rows, whose keys differ, into ``slots``, all `EMPTY` before."""
    for index in range(size):
        slot = first_slot(slots, pairs[index, KEY])
        while slots[slot] != EMPTY:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = index
