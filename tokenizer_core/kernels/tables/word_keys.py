"""Words as 128-bit keys, and a hash table of words.

A table is uint64 ``[4 · 2^b]``. Its entries of 32 bytes hold

    low     the first eight bytes of the word, zero-padded   (long words: a 64-bit hash)
    high    bytes 8 … 14 below the length in the top byte    (long words: 255, and the length)
    value   chosen by the owner of the table: a count, an id
    place   long words: offset of the word in the owner's bytes; short words: chosen by the owner

Words of up to 15 bytes are their own key. Longer words are found by hash and length and then
compared byte by byte. ``high`` is zero only in empty entries, because every word has a length.
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
TAKEN = np.uint64(1)  # not the high of any word: a thread is filling the entry, see `word_cache`
LONG = np.uint64(0xFF << 56)  # the length byte of words above INLINE
LENGTH_MASK = np.uint64((1 << 40) - 1)

# By length of a word: masks of the bytes in the low and high part of its key, and the length in the
# top byte. Shifts would take six more instructions. Rows have 32 bytes, so one shift finds them.
_OF_LENGTH = np.array(
    [
        ((1 << 8 * min(n, 8)) - 1, (1 << 8 * max(n - 8, 0)) - 1, n << 56, 0)
        for n in range(INLINE + 1)
    ],
    np.uint64,
)


@kernel
def long_word_key(address: I64, length: I64, key: HashKey) -> tuple[U64, U64]:
    """The key of a word of at least eight bytes, hashed eight at a time."""
    low = np.uint64(length) ^ key.low
    last = address + length - 8
    while address < last:
        low = folded_product(low ^ load_u64(address), key.high)
        address += 8
    low = folded_product(low ^ load_u64(last), key.high)
    return low, LONG | np.uint64(length)


@kernel
def word_key(address: I64, length: I64, key: HashKey) -> tuple[U64, U64]:
    """The key (low, high) of a word that is not empty; reads at least 16 bytes."""
    if length > INLINE:
        return long_word_key(address, length, key)
    return short_word_key(address, length)


@kernel
def short_word_key(address: I64, length: I64) -> tuple[U64, U64]:
    row = np.uint64(length)
    low = load_u64(address) & _OF_LENGTH[row, 0]
    high = load_u64(address + 8) & _OF_LENGTH[row, 1] | _OF_LENGTH[row, 2]
    return low, high


@kernel
def key_length(high: U64) -> I64:
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
    return shift_for(table.size >> 2)


@kernel
def find_entry(
    table: I64, shift: U64, low: U64, high: U64, mixed: U64, text: I64, address: I64
) -> I64:
    """Address of the entry of a word, or of the empty entry where it belongs.

    Args:
        table, shift: address of the table and its `table_shift`.
        mixed: hash of the key.
        text: base address of the places of long words.
        address: address of the word, read only if it is long.
    """
    slot = mixed >> shift
    while True:
        entry = table + np.int64(slot << ENTRY_BITS)
        entry_high = load_u64(entry + HIGH)
        if entry_high == high and load_u64(entry + LOW) == low:
            if high < LONG:
                return entry
            if same_bytes(text + np.int64(load_u64(entry + PLACE)), address, key_length(high)):
                return entry
        elif entry_high == ZERO:
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
    """Copy all words into a larger, zeroed table of the same key; returns how many.

    Other threads may add words to a `word_cache` meanwhile; those words are copied or lost. A
    record in the arena is complete before its entry is, so copy the arena afterwards.
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
