"""Words in, pieces out, by merges over characters. Knows nothing of text or of strings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.encode_word import (
    DEAD,
    NO_MERGE,
    POSITION_BITS,
    POSITION_MASK,
    RANK_SHIFT,
    Integer,
    find_merge,
    pop,
    push,
)
from bpeline.tokenizer_core.kernels.memory import load_u8, load_u32, load_u64, store_u32, store_u64
from bpeline.tokenizer_core.kernels.symbol_tables import (
    END,
    INSIDE,
    LAST,
    LOW_32,
    UNKNOWN,
    character_at,
    character_size,
)

# How the end of a word is marked.
UNMARKED, OWN_SYMBOL, JOINED = 0, 1, 2

SHORT = 48  # symbols up to which a scan over the pairs is quicker than a heap
SCRATCH_PER_SYMBOL = 40  # bytes


@kernel
def symbols_of_word(
    word: Integer,
    length: Integer,
    marking: Integer,
    table: Integer,
    shift: Integer,
    symbols: Integer,
    ends: Integer,
) -> Integer:
    """Write a word's symbols and where in it each ends (uint32 both); returns how many."""
    at = np.int64(0)
    count = np.int64(0)
    while at < length:
        character = character_at(word + at)
        at += character_size(load_u8(word + at))
        kind = LAST if marking == JOINED and at == length else INSIDE
        entry = find_merge(table, shift, kind, character)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + character)
        store_u32(symbols + 4 * count, np.uint32(symbol))
        store_u32(ends + 4 * count, np.uint32(at))
        count += 1
    if marking == OWN_SYMBOL:
        entry = find_merge(table, shift, INSIDE, END)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + END)
        store_u32(symbols + 4 * count, np.uint32(symbol))
        store_u32(ends + 4 * count, np.uint32(length))
        count += 1
    return count


@kernel
def merge_few(
    symbols: Integer,
    ends: Integer,
    count: Integer,
    table: Integer,
    shift: Integer,
    everywhere: Integer,
    merges: Integer,
) -> Integer:
    """Merge up to `SHORT` symbols in place; returns how many remain. See `merge_many`."""
    for i in range(count - 1):
        left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
        store_u64(merges + 8 * i, find_merge(table, shift, left, right))
    while count > 1:
        best = NO_MERGE
        for i in range(count - 1):
            merge = load_u64(merges + 8 * i)
            if merge >> RANK_SHIFT < best >> RANK_SHIFT:
                best = merge
        if best == NO_MERGE:
            break
        result = np.uint32(best & LOW_32)
        read = np.int64(0)
        written = np.int64(0)
        wanted = True
        while read < count:
            if wanted and read + 1 < count and load_u64(merges + 8 * read) == best:
                store_u32(symbols + 4 * written, result)
                wanted = everywhere != 0
                read += 1
            else:
                store_u32(symbols + 4 * written, load_u32(symbols + 4 * read))
                store_u64(merges + 8 * written, load_u64(merges + 8 * read))
            store_u32(ends + 4 * written, load_u32(ends + 4 * read))
            read += 1
            written += 1
        count = written
        for i in range(count - 1):
            left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
            if left == result or right == result:
                store_u64(merges + 8 * i, find_merge(table, shift, left, right))
    return count


@kernel
def candidate(
    symbols: Integer, at: Integer, follower: Integer, table: Integer, shift: Integer
) -> Integer:
    """(rank, position) of the pair at a position, or `NO_MERGE`."""
    left, right = load_u32(symbols + 4 * at), load_u32(symbols + 4 * follower)
    merge = find_merge(table, shift, left, right)
    if merge == NO_MERGE:
        return NO_MERGE
    return ((merge >> RANK_SHIFT) << POSITION_BITS) | np.uint64(at)


@kernel
def merge_many(
    symbols: Integer,
    ends: Integer,
    count: Integer,
    table: Integer,
    shift: Integer,
    everywhere: Integer,
    scratch: Integer,
) -> Integer:
    """Merge any number of symbols in place, in n log n; returns how many remain.

    Args:
        symbols, ends: addresses of uint32: each symbol and where it ends.
        everywhere: not 0: a merge is applied at all its places, from left to right, before ranks
            are looked at again; 0: at its leftmost place alone. They differ when a merge makes
            neighbours of lower rank: with ``everywhere`` these wait in a list until no pair of
            the present rank is left.
        scratch: address of 40 bytes per symbol.
    """
    behind = scratch
    before = scratch + 4 * count
    heap = scratch + 8 * count
    waiting = scratch + 24 * count
    size = np.int64(0)
    held = np.int64(0)
    present = NO_MERGE
    for i in range(count):
        store_u32(behind + 4 * i, np.uint32(i + 1))
        store_u32(before + 4 * i, np.uint32(max(i - 1, 0)))
    for i in range(count - 1):
        item = candidate(symbols, np.int64(i), np.int64(i + 1), table, shift)
        if item != NO_MERGE:
            push(heap, size, item)
            size += 1
    while size + held > 0:
        if held > 0 and (size == 0 or load_u64(heap) >> POSITION_BITS != present):
            for i in range(held):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            held = np.int64(0)
        item = pop(heap, size)
        size -= 1
        at = np.int64(item & POSITION_MASK)
        follower = np.int64(load_u32(behind + 4 * at))
        if load_u32(symbols + 4 * at) == DEAD or follower == count:
            continue
        left, right = load_u32(symbols + 4 * at), load_u32(symbols + 4 * follower)
        merge = find_merge(table, shift, left, right)
        if merge == NO_MERGE or (merge >> RANK_SHIFT) != (item >> POSITION_BITS):
            continue
        if everywhere != 0:
            present = item >> POSITION_BITS
        store_u32(symbols + 4 * at, np.uint32(merge & LOW_32))
        store_u32(ends + 4 * at, load_u32(ends + 4 * follower))
        store_u32(symbols + 4 * follower, DEAD)
        follower = np.int64(load_u32(behind + 4 * follower))
        store_u32(behind + 4 * at, np.uint32(follower))
        if follower < count:
            store_u32(before + 4 * follower, np.uint32(at))
            item = candidate(symbols, at, follower, table, shift)
            if item != NO_MERGE:
                store_u64(waiting + 8 * held, item)
                held += 1
        if at > 0:
            item = candidate(symbols, np.int64(load_u32(before + 4 * at)), at, table, shift)
            if item != NO_MERGE:
                store_u64(waiting + 8 * held, item)
                held += 1
        if everywhere == 0:
            for i in range(held):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            held = np.int64(0)
    remaining = np.int64(0)
    for i in range(count):
        if load_u32(symbols + 4 * i) != DEAD:
            store_u32(symbols + 4 * remaining, load_u32(symbols + 4 * i))
            store_u32(ends + 4 * remaining, load_u32(ends + 4 * i))
            remaining += 1
    return remaining


@kernel
def merge_characters(
    text: NDArray[np.uint8],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
    marking: Integer,
    everywhere: Integer,
    shift: Integer,
    table: NDArray[np.uint64],
    unknown: Integer,
    scratch: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    edges: NDArray[np.int64],
) -> None:
    """Encode words, each by itself.

    Args:
        text: uint8, valid UTF-8 within the words.
        places, lengths: int64 ``[n]``: where each word begins and its bytes.
        marking: `UNMARKED`, `OWN_SYMBOL` or `JOINED`.
        everywhere: see `merge_many`.
        shift, table: of `fill_symbol_table`.
        unknown: the id of symbols without one.
        scratch: uint64, `SCRATCH_PER_SYMBOL` bytes for each byte of the longest word, and 1 more.
        ids, ends: uint32, room for the bytes of all words and ``n`` more: receive the pieces of
            each word, as token ids and as where in the word they end.
        edges: int64 ``[n + 1]``: receives where the pieces of each word begin.
    """
    base = text.ctypes.data
    pairs = table.ctypes.data
    free = scratch.ctypes.data
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        symbols = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = symbols_of_word(
            base + places[word], lengths[word], marking, pairs, shift, symbols, stops
        )
        if count <= SHORT:
            count = merge_few(symbols, stops, count, pairs, shift, everywhere, free)
        else:
            count = merge_many(symbols, stops, count, pairs, shift, everywhere, free)
        for i in range(count):
            if load_u32(symbols + 4 * i) >= np.uint32(UNKNOWN):
                store_u32(symbols + 4 * i, np.uint32(unknown))
        total += count
        edges[word + 1] = total
