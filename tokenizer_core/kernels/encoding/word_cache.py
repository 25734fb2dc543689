"""Words met before and their ids, in a table that threads share; knows nothing of how ids are made.

The table is that of `word_keys`: entries of 32 bytes, found by the word itself or, above 15 bytes,
by hash and comparison. In place of value and place an entry holds

    ids     up to three of them, 4 bytes each
    count   how many (4 bytes)

Longer words, and words of more ids, lie in the *arena*: bytes of the word, padded to eight, if it
is a long one, then its ids. Then the entry holds where the ids begin (8 bytes) and the count, and
the highest bit of its ``high`` is not that of the word's key, so that one comparison with a key
finds words whose ids are in the entry, and no others. Neither table nor arena grows here: see
`is_full`. Other than in all other tables a search begins where low bits of `queue_hash` say, those
of ``cache_slots``, and looks at both entries of a cache line before it goes on to the next line.

Any number of threads read and add words at once, without locks. An entry is empty (its ``high`` is
0), then taken by the one thread that wins it (`TAKEN`, which is no word's key), and complete when
its ``high`` is stored, behind all else; from then on it never changes, nor do its bytes in the
arena. So a thread that has read a word's ``high`` reads that word's ids, whole. Who passes an entry
that is only taken goes on as if it were another word's: the worst that can happen is that a word is
encoded, or kept, twice.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    copy_sixteen,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.atomics import (
    add_and_tell,
    load_acquire,
    store_release,
    take_if_zero,
)
from bpeline.tokenizer_core.kernels.memory.records import Record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, key_in
from bpeline.tokenizer_core.kernels.tables.simd_words import queue_hash
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    HIGH,
    INLINE,
    LONG,
    LOW,
    TAKEN,
    copy_entry,
    same_bytes,
)

IDS, COUNT = 16, 28  # places in an entry, in bytes
WORDS, ARENA_USED = 0, 8  # places in the counts of a table, in bytes
INLINE_IDS = 3  # ids that an entry holds
IN_ARENA = np.uint64(1 << 63)  # of high: other than in the word's key
THE_REST = np.uint64((1 << 63) - 1)
LENGTH_BITS = np.uint64(60)  # of high, from where on a word with its ids in the entry has none
LONGEST_KEPT = 512  # bytes; longer words are not met again
ROOM = INLINE_IDS + 1  # ids that may be written beyond the last one
LARGEST_RECORD = LONGEST_KEPT + 4 * LONGEST_KEPT + 16  # bytes in the arena


@kernel
def is_full(workspace: Record) -> bool:
    """Whether it is time for another table.

    Nobody has to go and get one: a fuller table remembers less, and `remember` keeps a quarter of
    it empty, so that every search in it ends.
    """
    used = np.int64(load_u64(workspace.cache_used + WORDS))
    return bool(used >= workspace.cache_limit)


@kernel
def is_in_arena(high: U64) -> bool:
    """Whether the ids of an entry in use lie in the arena."""
    return bool(high >> LENGTH_BITS != ZERO)


@kernel
def copy_ids(source: I64, target: I64, count: I64) -> None:
    """Copy 4-byte ids four at a time: up to 3 more than ``count`` are written behind."""
    for i in range(0, count, 4):
        copy_sixteen(source + 4 * i, target + 4 * i)


@kernel
def next_entry(entry: I64, home: I64) -> I64:
    """Where a search goes on: at the other entry of the same cache line, then at the next line.

    It may lie behind the table, as many bytes as it is to be behind the beginning.
    """
    other = entry ^ ENTRY
    return other if (entry ^ home) & ENTRY == 0 else other + 2 * ENTRY


@kernel
def find_word(
    workspace: Record, entry: I64, low: U64, high: U64, word: I64, length: I64
) -> tuple[I64, bool]:
    """A word's entry and True, or one that was empty, where the word belongs, and False.

    (Another thread may have filled that one meanwhile, so it is not looked at again.)

    Args:
        entry: where the search begins. low, high: the word's key.
    """
    home, end = entry, workspace.cache_end
    while True:
        found = load_acquire(entry + HIGH)
        if found == ZERO:
            return entry, False
        if (found ^ high) & THE_REST == ZERO and load_u64(entry + LOW) == low:
            if high < LONG:
                return entry, True
            place = np.int64(load_u64(entry + IDS)) - ((length + 7) & ~7)
            if same_bytes(workspace.arena + place, word, length):
                return entry, True
        entry = next_entry(entry, home)
        if entry >= end:
            entry += workspace.cache - end


@kernel
def copy_found(workspace: Record, entry: I64, target: I64) -> I64:
    """Write the ids of an entry in use; returns how many."""
    count = np.int64(load_u32(entry + COUNT))
    if not is_in_arena(load_u64(entry + HIGH)):
        copy_ids(entry + IDS, target, count)
        return count
    ids = workspace.arena + np.int64(load_u64(entry + IDS))
    copy_ids(ids, target, count)
    return count


@kernel
def remember(
    workspace: Record,
    entry: I64,
    low: U64,
    high: U64,
    word: I64,
    length: I64,
    ids: I64,
    count: I64,
) -> None:
    """Keep a word in an entry that was empty, if there is room and no other thread takes it."""
    counts, limit = workspace.cache_used, workspace.cache_limit
    if add_and_tell(counts + WORDS, np.int64(1)) >= limit + (limit >> 1):
        return
    if length <= INLINE and count <= INLINE_IDS:
        if not take_if_zero(entry + HIGH, TAKEN):
            return
        store_u64(entry + IDS, load_u64(ids))
        store_u32(entry + IDS + 8, load_u32(ids + 8))
        store_u32(entry + COUNT, np.uint32(count))
    else:
        padded = np.int64(0)
        if length > INLINE:
            padded = (length + 7) & ~7
        # Ids are copied 16 bytes at a time.
        place = add_and_tell(counts + ARENA_USED, padded + ((4 * count + 15) & ~15))
        if place + LARGEST_RECORD > workspace.arena_bytes:
            store_u64(counts + WORDS, np.uint64(limit + (limit >> 1)))  # full
            return
        if not take_if_zero(entry + HIGH, TAKEN):
            return
        record = workspace.arena + place
        for at in range(0, padded, 8):
            store_u64(record + at, load_u64(word + at))
        copy_ids(ids, record + padded, count)
        store_u64(entry + IDS, np.uint64(place + padded))
        store_u32(entry + COUNT, np.uint32(count))
        high ^= IN_ARENA
    store_u64(entry + LOW, low)
    store_release(entry + HIGH, high)


@entry_kernel
def move_kept(table: U64s, larger: U64s, hash_key: U64s) -> I64:
    """Enter every word of a table into a larger, zeroed one; returns how many.

    Other threads may go on adding words: what they add is lost or moved. Records in its arena are
    complete when their entries are, so the arena is copied afterwards.
    """
    entry, end = np.int64(table.ctypes.data), np.int64(table.ctypes.data) + 8 * table.size
    target, key = np.int64(larger.ctypes.data), key_in(hash_key)
    slots = np.uint64(8 * larger.size - ENTRY)
    number = np.int64(0)
    while entry < end:
        high = load_acquire(entry + HIGH)
        if high > TAKEN:
            own = high ^ IN_ARENA if is_in_arena(high) else high
            home = place = np.int64(queue_hash(load_u64(entry + LOW), own, key) & slots)
            while load_u64(target + place + HIGH) != ZERO:
                place = next_entry(place, home) & np.int64(slots)
            copy_entry(entry, target + place)
            number += 1
        entry += ENTRY
    return number
