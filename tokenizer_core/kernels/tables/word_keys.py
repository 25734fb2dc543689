"""A word as a 128-bit key, and its entry in a table of words; never allocates.

A table is uint64 ``[4 · 2^b]``: entries of 32 bytes that hold

    low     the first eight bytes of the word, zero-padded   (long words: a 64-bit hash)
    high    bytes 8 … 14 below the length in the top byte    (long words: 255, and the length)
    value   whatever the owner of the table wants: a count, an id
    place   long words: where the owner's bytes hold the word; short ones: what the owner wants

Words of up to 15 bytes are their own key. Longer words are found by hash and length and are
always compared byte by byte as well, so no two words can ever be confused. ``high`` is zero in
empty entries alone, because every word has a length.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    folded_product,
    load_acquire,
    load_u64,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import (
    ZERO,
    HashKey,
    key_in,
    mix,
    next_slot,
    shift_for,
)

INLINE = 15  # longest word that is its own key
LOW, HIGH, VALUE, PLACE = 0, 8, 16, 24  # byte offsets inside an entry
ENTRY = 32  # bytes
ENTRY_BITS = np.uint64(5)

TOP_BYTE = np.uint64(56)
TAKEN = np.uint64(1)  # no word's high: a thread is about to fill the entry, see `word_cache`
LONG = np.uint64(0xFF << 56)  # the length byte of words above INLINE
LENGTH_MASK = np.uint64((1 << 40) - 1)

# For a word of so many bytes: which of those at its place belong to the low and which to the high
# part of its key, and its length as it stands in the high part. (Shifts would be six instructions
# more; rows are of 32 bytes, so that one shift finds them.)
_OF_LENGTH = np.array(
    [
        ((1 << 8 * min(n, 8)) - 1, (1 << 8 * max(n - 8, 0)) - 1, n << 56, 0)
        for n in range(INLINE + 1)
    ],
    np.uint64,
)


@kernel
def long_word_key(address: I64, length: I64, key: HashKey) -> tuple[U64, U64]:
    """A hash over eight bytes at a time, the last ones overlapping; length ≥ 8."""
    low = np.uint64(length) ^ key.low
    last = address + length - 8
    while address < last:
        low = folded_product(low ^ load_u64(address), key.high)
        address += 8
    low = folded_product(low ^ load_u64(last), key.high)
    return low, LONG | np.uint64(length)


@kernel
def word_key(address: I64, length: I64, key: HashKey) -> tuple[U64, U64]:
    """The key (low, high) of the ``length`` ≥ 1 bytes at ``address``; reads up to 16 bytes."""
    if length > INLINE:
        return long_word_key(address, length, key)
    return short_word_key(address, length)


@kernel
def short_word_key(address: I64, length: I64) -> tuple[U64, U64]:
    """`word_key` of at most `INLINE` bytes: the word is its own key."""
    row = np.uint64(length)
    low = load_u64(address) & _OF_LENGTH[row, 0]
    high = load_u64(address + 8) & _OF_LENGTH[row, 1] | _OF_LENGTH[row, 2]
    return low, high


@kernel
def key_length(high: U64) -> I64:
    """The length of the word whose key ends in ``high``."""
    length = high >> TOP_BYTE
    return np.int64(high & LENGTH_MASK) if length > np.uint64(INLINE) else np.int64(length)


@kernel
def same_bytes(left: I64, right: I64, length: I64) -> bool:
    """Whether two words of ``length`` ≥ 8 bytes are equal."""
    last = length - 8
    place = 0
    while place < last:
        if load_u64(left + place) != load_u64(right + place):
            return False
        place += 8
    return load_u64(left + last) == load_u64(right + last)


@kernel
def table_shift(table: U64s) -> U64:
    """How far to shift a hash so that it numbers the entries of a table."""
    return shift_for(table.size >> 2)


@kernel
def find_entry(
    table: I64, shift: U64, low: U64, high: U64, mixed: U64, text: I64, address: I64
) -> I64:
    """Address of the entry of a word, or of the empty entry where it belongs.

    Args:
        table, shift: address of the table and its `table_shift`.
        low, high, mixed: the word's key and its hash.
        text: the address that the places of long words count from.
        address: the word itself, read only when it is long.
    """
    slot = mixed >> shift
    while True:
        entry = table + np.int64(slot << ENTRY_BITS)
        found = load_u64(entry + HIGH)
        if found == high and load_u64(entry + LOW) == low:
            if high < LONG:
                return entry
            if same_bytes(text + np.int64(load_u64(entry + PLACE)), address, key_length(high)):
                return entry
        elif found == ZERO:
            return entry
        slot = next_slot(slot, shift)


@kernel
def put_entry(entry: I64, low: U64, high: U64, value: U64, place: U64) -> None:
    store_u64(entry + LOW, low)
    store_u64(entry + HIGH, high)
    store_u64(entry + VALUE, value)
    store_u64(entry + PLACE, place)


@kernel
def copy_entry(source: I64, target: I64) -> None:
    low, high = load_u64(source + LOW), load_u64(source + HIGH)
    put_entry(target, low, high, load_u64(source + VALUE), load_u64(source + PLACE))


@entry_kernel
def move_words(table: U64s, larger: U64s, hash_key: U64s) -> I64:
    """Enter every word of a table into a larger, zeroed one of the same key; returns how many.

    Other threads may go on adding words to a `word_cache`: what they add is lost or moved. Records
    in its arena are complete when their entries are, so the arena is copied afterwards.
    """
    entry = np.int64(table.ctypes.data)
    target, shift = np.int64(larger.ctypes.data), table_shift(larger)
    key = key_in(hash_key)
    number = np.int64(0)
    for _ in range(table.size >> 2):
        high = load_acquire(entry + HIGH)
        if high > TAKEN:
            slot = mix(load_u64(entry + LOW), high, key) >> shift
            while load_u64(target + np.int64(slot << ENTRY_BITS) + HIGH) != ZERO:
                slot = next_slot(slot, shift)
            copy_entry(entry, target + np.int64(slot << ENTRY_BITS))
            number += 1
        entry += ENTRY
    return number
