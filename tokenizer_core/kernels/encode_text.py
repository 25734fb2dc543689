"""A text with marked pre-tokens in, token ids out, through a cache of words.

Knows nothing of how pre-tokens or special tokens were found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.encode_word import MIX, ONE, SHORT_WORD, Integer, merge_word
from tokenizer_core.kernels.memory import (
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
    trailing_zeros,
)

# A cache entry is one cache line: 15 bytes of word and its length (16), number of ids (4) and
# the ids (44).
CACHED_BYTES = 15
CACHED_IDS = 11
ENTRY_WORDS = 8  # uint64 per entry
ROOM = CACHED_IDS + 1  # ids that may be written beyond the last one

MIX_2 = np.uint64(0xC2B2_AE3D_27D4_EB4F)
EIGHT = np.uint64(8)
ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)

# Fields of the state that a call continues from.
SPAN, POSITION, WRITTEN, NEEDED = 0, 1, 2, 3


@kernel
def next_start(marks: NDArray[np.uint64], after: Integer, end: Integer) -> Integer:
    """First marked position in (after, end), or ``end``."""
    position = after + 1
    block = position >> 6
    mask = marks[block] & (ALL << np.uint64(position & 63))
    while mask == np.uint64(0):
        block += 1
        if block << 6 >= end:
            return end
        mask = marks[block]
    return min(end, (block << 6) + trailing_zeros(mask))


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
def encode_one(
    word: Integer,
    length: Integer,
    byte_ids: Integer,
    pairs: Integer,
    shift: Integer,
    cache: Integer,
    slots: Integer,
    scratch: Integer,
    target: Integer,
) -> Integer:
    """Write the ids of one pre-token at the address ``target``; returns how many."""
    if length == 1:
        store_u32(target, load_u32(byte_ids + 4 * np.int64(load_u8(word))))
        return np.int64(1)
    if length > CACHED_BYTES or slots == 0:
        count = merge_word(word, length, byte_ids, pairs, shift, scratch, np.int64(0), np.int64(0))
        copy_ids(scratch, target, count)
        return count
    low, high = word_key(word, length)
    entry = cache_slot(cache, slots, low, high)
    found = find_cached(entry, low, high)
    if found != 0:
        count = np.int64(load_u32(found + 16))
        store_u64(target, load_u64(found + 20))
        store_u64(target + 8, load_u64(found + 28))
        if count > 4:
            copy_ids(found + 36, target + 16, count - 4)
        return count
    count = merge_word(word, length, byte_ids, pairs, shift, scratch, np.int64(0), np.int64(0))
    copy_ids(scratch, target, count)
    if count <= CACHED_IDS:
        remember(entry, low, high, scratch, count)
    return count


@kernel
def encode_spans(
    text: NDArray[np.uint8],
    marks: NDArray[np.uint64],
    spans: NDArray[np.int64],
    behind: NDArray[np.int64],
    byte_ids: NDArray[np.uint32],
    pairs: NDArray[np.uint64],
    shift: Integer,
    cache: NDArray[np.uint64],
    scratch: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    ends: NDArray[np.int64],
    state: NDArray[np.int64],
) -> Integer:
    """Encode spans of a text one after the other.

    Args:
        text: uint8, readable `PADDING` bytes beyond the last span.
        marks: uint64 bitmap of pre-token starts.
        spans: int64 ``[n, 2]``: half-open byte ranges.
        behind: int64 ``[n]``: an id to write behind each span (a special token), or −1.
        byte_ids: uint32 ``[256]``. pairs: uint64 table, ``shift`` uint64: see `merge_word`.
        cache: uint64 ``[8 * slots]``, zero at first, slots a power of two ≥ 2; or empty.
        scratch: uint64; grown by the caller on demand.
        ids: uint32, room for one id per byte and span and `ROOM` more.
        ends: int64 ``[n]``: receives the number of ids written when each span was done.
        state: int64 ``[4]``: span, position in it (−1: its begin), ids written, scratch needed.

    Returns:
        0 when done; 1 when a pre-token of ``state[NEEDED]`` bytes needs more scratch: grow it and
        call again with the same state.
    """
    base = text.ctypes.data
    target = ids.ctypes.data
    scratch_room = (np.int64(len(scratch)) * 8 - 16 * SHORT_WORD) >> 5
    slots = np.int64(len(cache)) >> 3
    written = state[WRITTEN]
    for span in range(state[SPAN], len(spans)):
        start = state[POSITION]
        if start < 0:
            start = spans[span, 0]
        end = spans[span, 1]
        while start < end:
            stop = next_start(marks, start, end)
            if stop - start > SHORT_WORD and stop - start > scratch_room:
                state[SPAN], state[POSITION] = span, start
                state[WRITTEN], state[NEEDED] = written, stop - start
                return np.int64(1)
            written += encode_one(
                base + start,
                stop - start,
                byte_ids.ctypes.data,
                pairs.ctypes.data,
                shift,
                cache.ctypes.data,
                slots,
                scratch.ctypes.data,
                target + 4 * written,
            )
            start = stop
        if behind[span] >= 0:
            store_u32(target + 4 * written, np.uint32(behind[span]))
            written += 1
        ends[span] = written
        state[POSITION] = -1
    state[WRITTEN] = written
    return np.int64(0)
