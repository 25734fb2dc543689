"""Hash tables of pairs, and a binary heap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    U64,
    I32s,
    I64Rows,
    I64s,
    Int,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import (
    ALL,
    ZERO,
    HashKey,
    key_in,
    mix,
    next_slot,
    shift_for,
)


@kernel
def push(heap: I64, size: I64, item: U64) -> None:
    """Add a uint64 to a binary min-heap of ``size`` items at an address."""
    at = np.int64(size)
    while at > 0:
        above = (at - 1) >> 1
        parent = load_u64(heap + 8 * above)
        if parent <= item:
            break
        store_u64(heap + 8 * at, parent)
        at = above
    store_u64(heap + 8 * at, item)


@kernel
def pop(heap: I64, size: I64) -> U64:
    smallest = load_u64(heap)
    last = np.int64(size) - 1
    item = load_u64(heap + 8 * last)
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        child = load_u64(heap + 8 * below)
        if below + 1 < last:
            other = load_u64(heap + 8 * below + 8)
            if other < child:
                child = other
                below += 1
        if item <= child:
            break
        store_u64(heap + 8 * at, child)
        at = below
    store_u64(heap + 8 * at, item)
    return smallest


NO_MERGE = ALL  # result for a pair that is not in the table
RANK_SHIFT, LOW_32 = np.uint64(32), np.uint64(0xFFFF_FFFF)  # of a value: rank above, id below

KEY, COUNT, START, LENGTH = 0, 1, 2, 3  # columns of rows; START and LENGTH: segment of the arena
COLUMNS = 4
EMPTY = -1

_16_BYTES, _8_BYTES = np.uint64(4), np.uint64(3)


class PairTable(NamedTuple):
    """Address of a table, its `shift_for` and the key of its hashes."""

    address: Int
    shift: U64
    key: HashKey


@kernel
def pair_key(left: Int, right: Int) -> U64:
    return (np.uint64(left) << RANK_SHIFT) | np.uint64(right)


@kernel
def table_of_merges(table: U64s, hash_key: U64s) -> PairTable:
    """A table of 16-byte entries: uint64 ``[2 · 2^b]``, all ones, at most half full."""
    return PairTable(table.ctypes.data, shift_for(table.size >> 1), key_in(hash_key))


@kernel
def entry_of_pair(table: PairTable, pair: U64) -> I64:
    """Address of the 16-byte entry of a pair, or of the empty one where it belongs."""
    slot = mix(pair, ZERO, table.key) >> table.shift
    while True:
        entry = table.address + np.int64(slot << _16_BYTES)
        stored = load_u64(entry)
        if stored in (pair, NO_MERGE):
            return entry
        slot = next_slot(slot, table.shift)


@kernel
def find_merge(table: PairTable, left: Int, right: Int) -> U64:
    """(rank << 32 | id) of a pair of symbols, or `NO_MERGE`, as in empty entries."""
    return load_u64(entry_of_pair(table, pair_key(left, right)) + 8)


@kernel
def put_merge(table: PairTable, left: I64, right: I64, rank: I64, result: I64) -> bool:
    """Add a merge to a table; returns False if the pair is already there."""
    pair = pair_key(left, right)
    entry = entry_of_pair(table, pair)
    if load_u64(entry) == pair:
        return False
    store_u64(entry, pair)
    store_u64(entry + 8, (np.uint64(rank) << RANK_SHIFT) | np.uint64(result))
    return True


@entry_kernel
def fill_merges(
    left: I64s, right: I64s, ranks: I64s, results: I64s, table: U64s, hash_key: U64s
) -> None:
    """Add merges to a table, see `table_of_merges`; the first of equal pairs wins."""
    pairs = table_of_merges(table, hash_key)
    for row in range(len(left)):
        put_merge(pairs, left[row], right[row], ranks[row], results[row])


@kernel
def packed_entry(table: PairTable, number: U64, mixed: U64, below: U64) -> I64:
    """Address of the 8-byte entry of a number, or of the empty one where it belongs.

    An entry holds the number above ``below`` other bits; ``mixed`` is its hash.
    """
    slot = mixed >> table.shift
    while True:
        entry = table.address + np.int64(slot << _8_BYTES)
        stored = load_u64(entry)
        if stored == ZERO or stored >> below == number:
            return entry
        slot = next_slot(slot, table.shift)


@kernel
def first_slot(slots: I32s, pair: U64, key: HashKey) -> I64:
    return np.int64(mix(pair, ZERO, key) >> shift_for(slots.size))


@kernel
def slot_of(rows: I64Rows, slots: I32s, key: HashKey, pair: U64) -> I64:
    """The slot that holds the row of a pair, or the empty one where it belongs."""
    shift = shift_for(slots.size)
    slot = mix(pair, ZERO, key) >> shift
    while slots[slot] != EMPTY and np.uint64(rows[np.uint64(slots[slot]), KEY]) != pair:
        slot = next_slot(slot, shift)
    return np.int64(slot)


@kernel
def find_row(rows: I64Rows, slots: I32s, key: HashKey, pair: U64) -> I64:
    """Index of the row of a pair, or `EMPTY`."""
    return np.int64(slots[np.uint64(slot_of(rows, slots, key, pair))])


@entry_kernel
def fill_slots(rows: I64Rows, size: I64, slots: I32s, key: HashKey) -> None:
    """Enter the first ``size`` rows, which have distinct pairs, into a hash index.

    ``rows`` is ``[n, COLUMNS]``; ``slots`` is all `EMPTY`, a power of two of at least twice n.
    """
    shift = shift_for(slots.size)
    for index in range(size):
        slot = mix(np.uint64(rows[index, KEY]), ZERO, key) >> shift
        while slots[slot] != EMPTY:
            slot = next_slot(slot, shift)
        slots[slot] = index
