"""Words met before and their ids, in a table at an address; knows nothing of how ids are made.

The table is that of `word_keys`: entries of 32 bytes, found by the word itself or, above 15 bytes,
by hash and comparison. In place of value and place an entry holds

    ids     up to three of them, 4 bytes each
    count   how many (4 bytes)

Longer words, and words of more ids, lie in the *arena*: bytes of the word, padded to eight, if it
is a long one, then its ids. Then the entry holds where the ids begin (8 bytes) and the count, with
`IN_ARENA` added. Neither table nor arena grows here: see `is_full`.
"""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.encode_machine import (
    ARENA,
    ARENA_BYTES,
    ARENA_USED,
    CACHE,
    CACHE_END,
    LIMIT,
    USED,
)
from tokenizer_core.kernels.memory import load_u32, load_u64, store_u32, store_u64
from tokenizer_core.kernels.token_tables import Integer
from tokenizer_core.kernels.word_keys import HIGH, INLINE, LONG, LOW, same_bytes

ENTRY = 32  # bytes
IDS, COUNT = 16, 28  # places in an entry, in bytes
FEW = 3  # ids that an entry holds
IN_ARENA = 1 << 31
LONGEST_KEPT = 128  # bytes; longer words are not met again
ROOM = FEW + 1  # ids that may be written beyond the last one
LARGEST_RECORD = LONGEST_KEPT + 4 * LONGEST_KEPT + 16  # bytes in the arena


@kernel
def is_full(machine: Integer, words: Integer) -> bool:
    """Whether as many new words might not find room."""
    used = np.int64(load_u64(machine + 8 * USED))
    return used + words > np.int64(load_u64(machine + 8 * LIMIT))


@kernel
def copy_ids(source: Integer, target: Integer, count: Integer) -> None:
    """Copy 4-byte ids four at a time: up to 3 more than ``count`` are written behind."""
    for i in range(0, count, 4):
        store_u64(target + 4 * i, load_u64(source + 4 * i))
        store_u64(target + 4 * i + 8, load_u64(source + 4 * i + 8))


@kernel
def find_word(
    machine: Integer, entry: Integer, low: Integer, high: Integer, word: Integer, length: Integer
) -> Integer:
    """Address of a word's entry, or of the empty one where it belongs.

    Args:
        entry: where the search begins. low, high: the word's key.
    """
    last = np.int64(load_u64(machine + 8 * CACHE_END)) - ENTRY
    while True:
        found = load_u64(entry + HIGH)
        if found == np.uint64(0):
            return entry
        if found == high and load_u64(entry + LOW) == low:
            if high < LONG:
                return entry
            place = np.int64(load_u64(entry + IDS)) - ((length + 7) & ~7)
            if same_bytes(np.int64(load_u64(machine + 8 * ARENA)) + place, word, length):
                return entry
        if entry == last:
            entry = np.int64(load_u64(machine + 8 * CACHE))
        else:
            entry += ENTRY


@kernel
def copy_found(machine: Integer, entry: Integer, target: Integer) -> Integer:
    """Write the ids of an entry in use; returns how many."""
    count = np.int64(load_u32(entry + COUNT))
    if count <= FEW:
        copy_ids(entry + IDS, target, count)
        return count
    count -= IN_ARENA
    ids = np.int64(load_u64(machine + 8 * ARENA)) + np.int64(load_u64(entry + IDS))
    copy_ids(ids, target, count)
    return count


@kernel
def remember(
    machine: Integer,
    entry: Integer,
    low: Integer,
    high: Integer,
    word: Integer,
    length: Integer,
    ids: Integer,
    count: Integer,
) -> None:
    """Keep a word in an empty entry, if the arena has room for what the entry cannot hold."""
    if length <= INLINE and count <= FEW:
        store_u64(entry + IDS, load_u64(ids))
        store_u32(entry + IDS + 8, load_u32(ids + 8))
        store_u32(entry + COUNT, np.uint32(count))
    else:
        used = np.int64(load_u64(machine + 8 * ARENA_USED))
        if used + LARGEST_RECORD > np.int64(load_u64(machine + 8 * ARENA_BYTES)):
            store_u64(machine + 8 * USED, load_u64(machine + 8 * LIMIT))  # full
            return
        arena = np.int64(load_u64(machine + 8 * ARENA))
        if length > INLINE:
            for at in range(0, length, 8):
                store_u64(arena + used + at, load_u64(word + at))
            used += (length + 7) & ~7
        copy_ids(ids, arena + used, count)
        store_u64(entry + IDS, np.uint64(used))
        store_u32(entry + COUNT, np.uint32(count + IN_ARENA))
        # Ids are copied 16 bytes at a time.
        store_u64(machine + 8 * ARENA_USED, np.uint64(used + ((4 * count + 15) & ~15)))
    store_u64(entry + LOW, low)
    store_u64(entry + HIGH, high)
    store_u64(machine + 8 * USED, load_u64(machine + 8 * USED) + np.uint64(1))
