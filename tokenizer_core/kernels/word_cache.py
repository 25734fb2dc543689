"""Words met before and their ids, at addresses; knows nothing of how ids are made.

Words of 1 … `SHORT` bytes are their own key, in two-way sets of 64-byte entries. Longer words, up
to `LONGEST_KEPT` bytes, are found by hash and compared with their bytes, which lie with their ids
in an arena. When the arena is full, all long words are forgotten: so both are bounded, and neither
is ever searched.
"""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.encode_machine import ARENA, ARENA_BYTES, ARENA_USED, LONG_CACHE, SLOTS
from tokenizer_core.kernels.encode_word import MIX, ONE, Integer
from tokenizer_core.kernels.memory import load_u32, load_u64, store_u32, store_u64
from tokenizer_core.kernels.word_keys import same_bytes

# An entry is one cache line: 15 bytes of word and its length (16), number of ids (4) and
# the ids (44).
SHORT = 15
SHORT_IDS = 11
ENTRY_WORDS = 8  # uint64 per entry
ROOM = SHORT_IDS + 1  # ids that may be written beyond the last one

# A long word's entry: its hash (8), its length (2), number of ids (2) and place in the arena (4).
LONGEST_KEPT = 128
LONG_ENTRY_WORDS = 2
ARENA_PER_SLOT = 64  # bytes

MIX_2 = np.uint64(0xC2B2_AE3D_27D4_EB4F)
EIGHT = np.uint64(8)
COUNT_SHIFT, PLACE_SHIFT = np.uint64(16), np.uint64(32)
SIXTEEN_BITS = np.uint64(0xFFFF)


@kernel
def word_key(word: Integer, length: Integer) -> tuple[Integer, Integer]:
    """A word of 1 … 15 bytes as two uint64; the last byte is the length, so no key is zero."""
    low = load_u64(word)
    high = np.uint64(length) << np.uint64(56)
    if length < 8:
        low &= (ONE << np.uint64(8 * length)) - ONE
    elif length > 8:
        high |= load_u64(word + 8) & ((ONE << np.uint64(8 * length - 64)) - ONE)
    return low, high


@kernel
def cache_slot(cache: Integer, slots: Integer, low: Integer, high: Integer) -> Integer:
    """Address of the even entry of the two that may hold a key; ``slots`` is a power of two."""
    state = (low ^ (high * MIX_2)) * MIX
    state ^= state >> np.uint64(32)
    state *= MIX_2
    state >>= np.uint64(20)
    slot = state & np.uint64(slots - 1) & ~ONE
    return cache + np.int64(slot << np.uint64(6))


@kernel
def find_cached(entry: Integer, low: Integer, high: Integer) -> Integer:
    """Address of the key's entry among the two at ``entry``, or 0."""
    if load_u64(entry) == low and load_u64(entry + 8) == high:
        return entry
    if load_u64(entry + 64) == low and load_u64(entry + 72) == high:
        return entry + 64
    return np.int64(0)


@kernel
def remember(entry: Integer, low: Integer, high: Integer, ids: Integer, count: Integer) -> None:
    """Keep a word in front; the one that was there moves behind, the one behind is forgotten."""
    for i in range(ENTRY_WORDS):
        store_u64(entry + 64 + 8 * i, load_u64(entry + 8 * i))
    store_u64(entry, low)
    store_u64(entry + 8, high)
    store_u32(entry + 16, np.uint32(count))
    for i in range(count):
        store_u32(entry + 20 + 4 * i, load_u32(ids + 4 * i))


@kernel
def copy_ids(source: Integer, target: Integer, count: Integer) -> None:
    """Copy 4-byte ids four at a time: up to 3 more than ``count`` are written behind."""
    for i in range(0, count, 4):
        store_u64(target + 4 * i, load_u64(source + 4 * i))
        store_u64(target + 4 * i + 8, load_u64(source + 4 * i + 8))


@kernel
def long_word_hash(word: Integer, length: Integer) -> Integer:
    """64 bits of a word of 8 bytes or more: eight at a time, the last ones overlapping."""
    state = np.uint64(length) * MIX
    last = word + length - 8
    at = np.int64(word)
    while at < last:
        state = (state ^ load_u64(at)) * MIX
        state ^= state >> np.uint64(29)
        at += 8
    state = (state ^ load_u64(last)) * MIX_2
    return state ^ (state >> np.uint64(32))


@kernel
def long_entry(machine: Integer, mixed: Integer) -> Integer:
    """Address of the one entry that may hold a long word with this hash."""
    slot = mixed & np.uint64(load_u64(machine + 8 * SLOTS) - ONE)
    return np.int64(load_u64(machine + 8 * LONG_CACHE)) + np.int64(slot << np.uint64(4))


@kernel
def find_long(
    machine: Integer, entry: Integer, mixed: Integer, word: Integer, length: Integer
) -> tuple[Integer, Integer]:
    """Address of the ids of a long word and how many there are; 0 and 0 if it is not known."""
    header = load_u64(entry + 8)
    if load_u64(entry) == mixed and header & SIXTEEN_BITS == np.uint64(length):
        place = np.int64(load_u64(machine + 8 * ARENA)) + np.int64(header >> PLACE_SHIFT)
        if same_bytes(place, word, length):
            count = np.int64((header >> COUNT_SHIFT) & SIXTEEN_BITS)
            return place + ((length + 7) & ~7), count
    return np.int64(0), np.int64(0)


@kernel
def remember_long(
    machine: Integer,
    entry: Integer,
    mixed: Integer,
    word: Integer,
    length: Integer,
    ids: Integer,
    count: Integer,
) -> None:
    """Keep a long word in the place of the one that was at ``entry``."""
    word_bytes = (length + 7) & ~7
    size = word_bytes + ((4 * count + 15) & ~15)  # ids are copied 16 bytes at a time
    room = np.int64(load_u64(machine + 8 * ARENA_BYTES))
    used = np.int64(load_u64(machine + 8 * ARENA_USED))
    if size > room:
        return
    if used + size > room:
        forget_long(machine)
        used = np.int64(0)
    place = np.int64(load_u64(machine + 8 * ARENA)) + used
    for at in range(0, length, 8):
        store_u64(place + at, load_u64(word + at))
    copy_ids(ids, place + word_bytes, count)
    header = np.uint64(length) | (np.uint64(count) << COUNT_SHIFT)
    store_u64(entry, mixed)
    store_u64(entry + 8, header | (np.uint64(used) << PLACE_SHIFT))
    store_u64(machine + 8 * ARENA_USED, np.uint64(used + size))


@kernel
def forget_long(machine: Integer) -> None:
    """Forget all long words."""
    table = np.int64(load_u64(machine + 8 * LONG_CACHE))
    for i in range(LONG_ENTRY_WORDS * np.int64(load_u64(machine + 8 * SLOTS))):
        store_u64(table + 8 * i, np.uint64(0))
