"""A table that adds up words: counts and first positions in, one entry a word; never allocates.

Entries are those of `word_keys`; their value is the word's count. The place of a short word is
its first position. A long word lies in the *arena*, at its place: eight bytes of first position,
then the word, filled up to a multiple of eight bytes. So a table refers to no text, and the texts
that were counted may go.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, prefetch, store_u64
from bpeline.tokenizer_core.kernels.memory.records import one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, HashKey, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    ENTRY_BITS,
    HIGH,
    LONG,
    LOW,
    PLACE,
    VALUE,
    find_entry,
    key_length,
    put_entry,
    table_shift,
)

# What a table holds, and the key of its hashes, which words keep when it grows.
USED = np.dtype(
    [
        ("words", np.int64),
        ("word_bytes", np.int64),  # of all of them
        ("arena_bytes", np.int64),  # in use
        ("hash_key", np.uint64, (2,)),  # see `HashKey`
    ]
)
Used = Annotated[NDArray[Any], one_record(USED)]
POSITION_BYTES = 8  # of a long word's first position, before its bytes
AHEAD = 32  # entries that are on the way from memory while one is looked at


class Table(NamedTuple):
    """A table of words at addresses: entries, their `table_shift`, arena; and what is `USED`."""

    entries: I64
    shift: U64
    key: HashKey
    arena: I64
    used: Used


@kernel
def table_of(entries: U64s, arena: U8s, used: Used) -> Table:
    first, arena_first = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    key = HashKey(used[0].hash_key[0], used[0].hash_key[1])
    return Table(first, table_shift(entries), key, arena_first, used)


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + VALUE, load_u64(entry + VALUE) + amount)


@kernel
def expect(table: Table, low: U64, high: U64) -> None:
    """Start loading what a table holds where a key belongs."""
    prefetch(table.entries + np.int64((mix(low, high, table.key) >> table.shift) << ENTRY_BITS))


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
def seek_word(table: Table, low: U64, high: U64, address: I64) -> I64:
    """The entry of a word, or the empty one where it belongs.

    Args:
        low, high: the word's key.
        address: the word itself; read only when it is long.
    """
    mixed = mix(low, high, table.key)
    long_words = table.arena + POSITION_BYTES
    return find_entry(table.entries, table.shift, low, high, mixed, long_words, address)


@kernel
def put_word(
    table: Table, entry: I64, low: U64, high: U64, address: I64, count: U64, position: I64
) -> None:
    """Write a new word to the empty entry where it belongs; table and arena have room for it.

    Args:
        entry: from `seek_word`.
        address: the word itself, with seven readable bytes behind; read only when it is long.
        count, position: how often it occurred, and where first.
    """
    used = table.used[0]
    length = key_length(high)
    place = position
    if high >= LONG:
        place = used.arena_bytes
        used.arena_bytes = place + arena_size(length)
        store_u64(table.arena + place, np.uint64(position))
        copy_eights(address, table.arena + place + POSITION_BYTES, length)
    put_entry(entry, low, high, count, np.uint64(place))
    used.words += 1
    used.word_bytes += length


@kernel
def add_word(table: Table, low: U64, high: U64, address: I64, count: U64, position: I64) -> None:
    """Add a count to a word, new or not; its first position is the smaller one from now on.

    Args: see `put_word`.
    """
    entry = seek_word(table, low, high, address)
    if load_u64(entry + HIGH) == ZERO:
        put_word(table, entry, low, high, address, count, position)
        return
    add_to(entry, count)
    held = entry + PLACE if high < LONG else table.arena + np.int64(load_u64(entry + PLACE))
    if np.int64(load_u64(held)) > position:
        store_u64(held, np.uint64(position))


@entry_kernel
def add_table(other: U64s, other_arena: U8s, table: U64s, arena: U8s, used: Used) -> None:
    """Add every word of another table of the same key; there must be room for all of them.

    Both tables are in the order of the same hash, so both are walked through, not jumped about in.
    """
    words = table_of(table, arena, used)
    entry, others = np.int64(other.ctypes.data), np.int64(other_arena.ctypes.data)
    for _ in range(other.size >> 2):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            place = np.int64(load_u64(entry + PLACE))
            position = place if high < LONG else np.int64(load_u64(others + place))
            address = others + place + POSITION_BYTES
            add_word(words, low, high, address, load_u64(entry + VALUE), position)
        entry += ENTRY
