"""A text with marked pre-tokens in, token ids out, through caches of words.

Knows nothing of how pre-tokens or special tokens were found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.encode_machine import (
    BYTE_IDS,
    CACHE,
    LONGEST,
    PAIRS,
    SCRATCH,
    SHIFT,
    SLOTS,
    WHOLE,
)
from tokenizer_core.kernels.encode_word import Integer, merge_word
from tokenizer_core.kernels.memory import (
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
    trailing_zeros,
)
from tokenizer_core.kernels.whole_words import whole_word
from tokenizer_core.kernels.word_cache import (
    LONGEST_KEPT,
    SHORT,
    SHORT_IDS,
    cache_slot,
    copy_ids,
    find_cached,
    find_long,
    long_entry,
    long_word_hash,
    remember,
    remember_long,
    word_key,
)

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
def encode_anew(word: Integer, length: Integer, machine: Integer, target: Integer) -> Integer:
    """Write the ids of a word that no cache knows; returns how many."""
    if load_u64(machine + 8 * WHOLE) != np.uint64(0):
        whole = whole_word(machine, word, length)
        if whole >= 0:
            store_u32(target, np.uint32(whole))
            return np.int64(1)
    scratch = np.int64(load_u64(machine + 8 * SCRATCH))
    count = merge_word(
        word,
        length,
        np.int64(load_u64(machine + 8 * BYTE_IDS)),
        np.int64(load_u64(machine + 8 * PAIRS)),
        load_u64(machine + 8 * SHIFT),
        scratch,
        np.int64(0),
        np.int64(0),
    )
    copy_ids(scratch, target, count)
    return count


@kernel
def encode_long(word: Integer, length: Integer, machine: Integer, target: Integer) -> Integer:
    """Write the ids of a word above `SHORT` bytes; there is a cache."""
    mixed = long_word_hash(word, length)
    entry = long_entry(machine, mixed)
    ids, count = find_long(machine, entry, mixed, word, length)
    if count > 0:
        copy_ids(ids, target, count)
        return count
    count = encode_anew(word, length, machine, target)
    remember_long(machine, entry, mixed, word, length, target, count)
    return count


@kernel
def encode_one(word: Integer, length: Integer, machine: Integer, target: Integer) -> Integer:
    """Write the ids of one pre-token at the address ``target``; returns how many."""
    if length == 1:
        byte_ids = np.int64(load_u64(machine + 8 * BYTE_IDS))
        store_u32(target, load_u32(byte_ids + 4 * np.int64(load_u8(word))))
        return np.int64(1)
    slots = np.int64(load_u64(machine + 8 * SLOTS))
    if length > LONGEST_KEPT or slots == 0:
        return encode_anew(word, length, machine, target)
    if length > SHORT:
        return encode_long(word, length, machine, target)
    low, high = word_key(word, length)
    entry = cache_slot(np.int64(load_u64(machine + 8 * CACHE)), slots, low, high)
    found = find_cached(entry, low, high)
    if found != 0:
        count = np.int64(load_u32(found + 16))
        store_u64(target, load_u64(found + 20))
        store_u64(target + 8, load_u64(found + 28))
        if count > 4:
            copy_ids(found + 36, target + 16, count - 4)
        return count
    count = encode_anew(word, length, machine, target)
    if count <= SHORT_IDS:
        remember(entry, low, high, target, count)
    return count


@kernel
def encode_spans(
    text: NDArray[np.uint8],
    marks: NDArray[np.uint64],
    spans: NDArray[np.int64],
    behind: NDArray[np.int64],
    machine: NDArray[np.int64],
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
        machine: int64 ``[MACHINE]``: tables, caches and scratch, see `encode_machine`.
        ids: uint32, room for one id per byte and span and `ROOM` more.
        ends: int64 ``[n]``: receives the number of ids written when each span was done.
        state: int64 ``[4]``: span, position in it (−1: its begin), ids written, scratch needed.

    Returns:
        0 when done; 1 when a pre-token of ``state[NEEDED]`` bytes needs more scratch: grow it and
        call again with the same state.
    """
    base = text.ctypes.data
    target = ids.ctypes.data
    longest = machine[LONGEST]
    written = state[WRITTEN]
    for span in range(state[SPAN], len(spans)):
        start = state[POSITION]
        if start < 0:
            start = spans[span, 0]
        end = spans[span, 1]
        while start < end:
            stop = next_start(marks, start, end)
            if stop - start > longest:
                state[SPAN], state[POSITION] = span, start
                state[WRITTEN], state[NEEDED] = written, stop - start
                return np.int64(1)
            written += encode_one(
                base + start, stop - start, machine.ctypes.data, target + 4 * written
            )
            start = stop
        if behind[span] >= 0:
            store_u32(target + 4 * written, np.uint32(behind[span]))
            written += 1
        ends[span] = written
        state[POSITION] = -1
    state[WRITTEN] = written
    return np.int64(0)


@kernel
def encode_span(
    text: NDArray[np.uint8],
    marks: NDArray[np.uint64],
    size: Integer,
    machine: NDArray[np.int64],
    ids: NDArray[np.uint32],
) -> Integer:
    """Encode a text as one span; its scratch is enough. Arguments as for `encode_spans`.

    Returns:
        How many ids there are.
    """
    base = text.ctypes.data
    target = ids.ctypes.data
    written = np.int64(0)
    start = np.int64(0)
    while start < size:
        stop = next_start(marks, start, size)
        written += encode_one(base + start, stop - start, machine.ctypes.data, target + 4 * written)
        start = stop
    return written
