"""A table that adds up words: counts and first positions in, one entry a word; never allocates.

Entries are those of `word_keys`; their value is the word's count. The place of a short word is
its first position. A long word lies in the *arena*, at its place: eight bytes of first position,
then the word, filled up to a multiple of eight bytes. So a table refers to no text, and the texts
that were counted may go.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import load_u64, prefetch, store_u64
from bpeline.tokenizer_core.kernels.word_keys import (
    ALL,
    HIGH,
    I64,
    LONG,
    LOW,
    ONE,
    PLACE,
    U64,
    VALUE,
    find_entry,
    key_length,
    mix,
    table_shift,
)

# What a table holds: int64 [USED].
WORDS, WORD_BYTES, ARENA_BYTES = range(3)
USED = 3
POSITION_BYTES = 8  # of a long word's first position, before its bytes
AHEAD = 32  # entries that are on the way from memory while one is looked at

ZERO = np.uint64(0)
FIVE = np.uint64(5)


@kernel
def put_entry(entry: I64, low: U64, high: U64, value: U64, place: U64) -> None:
    store_u64(entry + LOW, low)
    store_u64(entry + HIGH, high)
    store_u64(entry + VALUE, value)
    store_u64(entry + PLACE, place)


@kernel
def copy_entry(source: I64, target: I64) -> None:
    put_entry(
        target,
        load_u64(source + LOW),
        load_u64(source + HIGH),
        load_u64(source + VALUE),
        load_u64(source + PLACE),
    )


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + VALUE, load_u64(entry + VALUE) + amount)


@kernel
def expect(entry: I64, table: I64, shift: U64) -> None:
    """Start loading what a table holds where the key of ``entry`` belongs."""
    mixed = mix(load_u64(entry + LOW), load_u64(entry + HIGH))
    prefetch(table + np.int64((mixed >> shift) << FIVE))


@kernel
def copy_eights(source: I64, target: I64, length: I64) -> None:
    """Copy ``length`` bytes and up to seven more."""
    for done in range(0, length, 8):
        store_u64(target + done, load_u64(source + done))


@kernel
def arena_size(length: I64) -> I64:
    """Bytes that a long word takes in the arena."""
    return ((length + 7) & ~7) + POSITION_BYTES


@kernel
def add_word(
    table: I64,
    shift: U64,
    arena: I64,
    used: np.ndarray,
    low: U64,
    high: U64,
    address: I64,
    count: U64,
    position: I64,
) -> None:
    """Add a count to a word; table and arena must have room for it.

    Args:
        table, shift, arena: addresses of entries and arena, and the table's `table_shift`.
        used: int64 ``[USED]``.
        low, high: the word's key.
        address: the word itself, with seven readable bytes behind; read only when it is long.
        count, position: how often it occurred, and where first.
    """
    entry = find_entry(table, shift, low, high, mix(low, high), arena + POSITION_BYTES, address)
    if load_u64(entry + HIGH) != ZERO:
        add_to(entry, count)
        held = entry + PLACE if high < LONG else arena + np.int64(load_u64(entry + PLACE))
        if np.int64(load_u64(held)) > position:
            store_u64(held, np.uint64(position))
        return
    length = key_length(high)
    place = position
    if high >= LONG:
        place = used[ARENA_BYTES]
        used[ARENA_BYTES] = place + arena_size(length)
        store_u64(arena + place, np.uint64(position))
        copy_eights(address, arena + place + POSITION_BYTES, length)
    put_entry(entry, low, high, count, np.uint64(place))
    used[WORDS] += 1
    used[WORD_BYTES] += length


@kernel
def move_words(table: np.ndarray, larger: np.ndarray) -> None:
    """Enter every word of a table into a larger, zeroed one, which goes with the same arena."""
    entry = np.int64(table.ctypes.data)
    target, shift = np.int64(larger.ctypes.data), table_shift(larger)
    mask = ALL >> shift
    for _ in range(table.size >> 2):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            slot = mix(low, high) >> shift
            while load_u64(target + np.int64(slot << FIVE) + HIGH) != ZERO:
                slot = (slot + ONE) & mask
            copy_entry(entry, target + np.int64(slot << FIVE))
        entry += 32


@kernel
def add_table(
    other: np.ndarray,
    other_arena: np.ndarray,
    table: np.ndarray,
    arena: np.ndarray,
    used: np.ndarray,
) -> None:
    """Add every word of another table; there must be room for all of them.

    Both tables are in the order of the same hash, so both are walked through, not jumped about in.
    """
    main, shift, bytes_ = (
        np.int64(table.ctypes.data),
        table_shift(table),
        np.int64(arena.ctypes.data),
    )
    entry, others = np.int64(other.ctypes.data), np.int64(other_arena.ctypes.data)
    for _ in range(other.size >> 2):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            place = np.int64(load_u64(entry + PLACE))
            position = place if high < LONG else np.int64(load_u64(others + place))
            address = others + place + POSITION_BYTES
            count = load_u64(entry + VALUE)
            add_word(main, shift, bytes_, used, low, high, address, count, position)
        entry += 32
