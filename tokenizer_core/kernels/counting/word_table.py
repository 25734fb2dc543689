"""A table that adds up words: counts and first positions in, one entry a word; never allocates.

Entries are those of `word_keys`; their value is the word's count. The place of a short word is
its first position. A long word lies in the *arena*, at its place: eight bytes of first position,
then the word, filled up to a multiple of eight bytes. So a table refers to no text, and the texts
that were counted may go.

Threads may share tables: each of them `hold`s one while it reads or writes it.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, prefetch, store_u64
from bpeline.tokenizer_core.kernels.memory.atomics import (
    let_others_run,
    load_acquire,
    store_release,
    take_if_zero,
)
from bpeline.tokenizer_core.kernels.memory.records import Record, one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, HashKey, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY_BITS,
    HIGH,
    LONG,
    PLACE,
    VALUE,
    find_entry,
    key_length,
    put_entry,
    table_shift,
)

# What a table holds, where, and the key of its hashes, which words keep when it grows.
USED = np.dtype(
    [
        ("held", np.int64),  # not 0 while a thread has it for itself, see `hold`
        ("words", np.int64),
        ("word_bytes", np.int64),  # of all of them
        ("arena_bytes", np.int64),  # in use
        ("limit", np.int64),  # words that it may hold without growing
        ("entries", np.int64),  # their address
        ("slots", np.int64),  # how many there are
        ("arena", np.int64),  # its address
        ("arena_size", np.int64),
        ("hash_key", np.uint64, (2,)),  # see `HashKey`
        ("apart", np.int64, (5,)),  # so that tables of two threads share no cache line
    ]
)
Used = Annotated[NDArray[Any], one_record(USED)]
USED_BYTES = USED.itemsize
PATIENCE = 1 << 18  # looks at what another thread has, less than a millisecond
POSITION_BYTES = 8  # of a long word's first position, before its bytes
AHEAD = 32  # entries that are on the way from memory while one is looked at


class Table(NamedTuple):
    """A table of words at addresses: entries, their `table_shift`, arena; and what is `USED`.

    That is the record of this number.
    """

    entries: I64
    shift: U64
    key: HashKey
    arena: I64
    used: Used
    number: I64


@kernel
def table_of(entries: U64s, arena: U8s, used: Used) -> Table:
    first, arena_first = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    return Table(first, table_shift(entries), key_of(used), arena_first, used, np.int64(0))


@kernel
def key_of(used: Used) -> HashKey:
    return HashKey(used[0].hash_key[0], used[0].hash_key[1])


@kernel
def table_at(used: Used, number: I64) -> Table:
    """The table that a record tells of, which this thread holds."""
    one: Record = used[number]
    return Table(one.entries, shift_for(one.slots), key_of(used), one.arena, used, number)


@kernel
def hold(used: Used, number: I64) -> None:
    """Wait until no other thread has a table, and have it: nobody else reads or writes it then.

    Others have it for microseconds, or while it grows.
    """
    held = np.int64(used.ctypes.data) + number * USED_BYTES
    looks = 0
    while not take_if_zero(held, ONE):
        while load_acquire(held) != ZERO:
            looks += 1
            if looks % PATIENCE == 0:
                let_others_run()


@kernel
def let_go(used: Used, number: I64) -> None:
    store_release(np.int64(used.ctypes.data) + number * USED_BYTES, ZERO)


@entry_kernel
def hold_table(used: Used, number: I64) -> None:
    """`hold`, for Python."""
    hold(used, number)


@entry_kernel
def let_table_go(used: Used, number: I64) -> None:
    """`let_go`, for Python."""
    let_go(used, number)


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
    used: Record = table.used[table.number]
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
def first_position(table: Table, entry: I64, high: U64) -> I64:
    """Where the first position of a word that ends its key in ``high`` is held: an address."""
    return entry + PLACE if high < LONG else table.arena + np.int64(load_u64(entry + PLACE))


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
    held = first_position(table, entry, high)
    if np.int64(load_u64(held)) > position:
        store_u64(held, np.uint64(position))
