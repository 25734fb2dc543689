"""One word in, its token ids out: merges applied by rank. Knows nothing of text or of caches.

Tables and scratch are addresses, so that one block of memory serves words of every length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import load_u8, load_u32, load_u64, store_u32, store_u64

# Up to here a scan over the pairs is quicker than a heap (measured: LOG.md).
SHORT_WORD = 64
SHORT_SCRATCH = 16 * SHORT_WORD  # bytes: 4 per symbol, 8 per pair, and some to read beyond
LONG_SCRATCH = 32  # bytes of scratch per byte of a long word; behind SHORT_SCRATCH

Integer = Any  # of the width that Numba infers: NumPy's int64, uint64 or uint32

NO_MERGE = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
DEAD = np.uint32(0xFFFF_FFFF)
RANK_SHIFT = np.uint64(32)
POSITION_BITS = np.uint64(40)
POSITION_MASK = np.uint64((1 << 40) - 1)
MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
ONE = np.uint64(1)


@kernel
def put_merge(
    shift: Integer,
    table: NDArray[np.uint64],
    left: Integer,
    right: Integer,
    rank: Integer,
    result: Integer,
) -> bool:
    """Put one merge into the table of `fill_pair_table`; False if its pair is there already."""
    mask = (ONE << (np.uint64(64) - shift)) - ONE
    key = (np.uint64(left) << RANK_SHIFT) | np.uint64(right)
    slot = (key * MIX) >> shift
    while table[np.int64(slot << ONE)] != NO_MERGE:
        if table[np.int64(slot << ONE)] == key:
            return False
        slot = (slot + ONE) & mask
    table[np.int64(slot << ONE)] = key
    table[np.int64(slot << ONE) + 1] = (np.uint64(rank) << RANK_SHIFT) | np.uint64(result)
    return True


@kernel
def fill_pair_table(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    ids: NDArray[np.int64],
    shift: Integer,
    table: NDArray[np.uint64],
) -> Integer:
    """Put merges into an open-addressing table.

    Args:
        left, right, ids: int64 ``[n]``: the two parts and the result of the merge of each rank.
        shift: uint64, 64 minus the base-2 logarithm of the number of slots.
        table: uint64 ``[2 * slots]``, all ones: slot i holds key (left, right), value (rank, id).

    Returns:
        −1, or the first rank whose pair had been there before.
    """
    for rank in range(len(left)):
        if not put_merge(shift, table, left[rank], right[rank], rank, ids[rank]):
            return np.int64(rank)
    return np.int64(-1)


@kernel
def find_merge(pairs: Integer, shift: Integer, left: Integer, right: Integer) -> Integer:
    """(rank << 32 | id) of a pair of uint32 symbols, or `NO_MERGE`."""
    key = (np.uint64(left) << RANK_SHIFT) | np.uint64(right)
    slot = (key * MIX) >> shift
    mask = (ONE << (np.uint64(64) - shift)) - ONE
    while True:
        entry = pairs + np.int64(slot << np.uint64(4))
        found = load_u64(entry)
        if found == key:
            return load_u64(entry + 8)
        if found == NO_MERGE:
            return NO_MERGE
        slot = (slot + ONE) & mask


@kernel
def record_gain(gains: Integer, merge: Integer, weight: Integer) -> None:
    """Add ``weight`` to the gain of the merge that fired; no gains are kept at address 0."""
    if gains != 0:
        at = gains + np.int64((merge >> RANK_SHIFT) << np.uint64(3))
        store_u64(at, load_u64(at) + np.uint64(weight))


@kernel
def merge_short(
    word: Integer,
    length: Integer,
    byte_ids: Integer,
    pairs: Integer,
    shift: Integer,
    scratch: Integer,
    gains: Integer,
    weight: Integer,
) -> Integer:
    """Merge a word of at most `SHORT_WORD` bytes; ids land at ``scratch`` as uint32.

    Each step scans the merges of all neighbours for the lowest rank (the leftmost one wins) and
    looks up only the two pairs that changed.
    """
    merges = scratch + 4 * SHORT_WORD
    for i in range(length):
        symbol = load_u32(byte_ids + 4 * np.int64(load_u8(word + i)))
        store_u32(scratch + 4 * i, symbol)
        if i > 0:
            before = load_u32(scratch + 4 * i - 4)
            store_u64(merges + 8 * i - 8, find_merge(pairs, shift, before, symbol))
    count = length
    while count > 1:
        best = NO_MERGE
        at = np.int64(0)
        for i in range(count - 1):
            merge = load_u64(merges + 8 * i)
            if merge < best:
                best = merge
                at = np.int64(i)
        if best == NO_MERGE:
            break
        record_gain(gains, best, weight)
        count -= 1
        for i in range(at + 1, count):
            store_u32(scratch + 4 * i, load_u32(scratch + 4 * i + 4))
            store_u64(merges + 8 * i, load_u64(merges + 8 * i + 8))
        symbol = np.uint32(best & np.uint64(0xFFFF_FFFF))
        store_u32(scratch + 4 * at, symbol)
        if at > 0:
            before = load_u32(scratch + 4 * at - 4)
            store_u64(merges + 8 * at - 8, find_merge(pairs, shift, before, symbol))
        if at + 1 < count:
            behind = load_u32(scratch + 4 * at + 4)
            store_u64(merges + 8 * at, find_merge(pairs, shift, symbol, behind))
    return count


@kernel
def push(heap: Integer, size: Integer, item: Integer) -> None:
    """Add a uint64 to a binary min-heap of ``size`` items at an address."""
    at = np.int64(size)
    while at > 0:
        above = (at - 1) >> 1
        parent = load_u64(heap + 8 * above)
        if parent <= item:
            break
        store_u64(heap + 8 * at, parent)
        at = above
    store_u64(heap + 8 * at, item)


@kernel
def pop(heap: Integer, size: Integer) -> Integer:
    """Remove and return the smallest of ``size`` items; ``size - 1`` remain."""
    smallest = load_u64(heap)
    last = np.int64(size) - 1
    item = load_u64(heap + 8 * last)
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        child = load_u64(heap + 8 * below)
        if below + 1 < last:
            other = load_u64(heap + 8 * below + 8)
            if other < child:
                child = other
                below += 1
        if item <= child:
            break
        store_u64(heap + 8 * at, child)
        at = below
    store_u64(heap + 8 * at, item)
    return smallest


@kernel
def merge_long(
    word: Integer,
    length: Integer,
    byte_ids: Integer,
    pairs: Integer,
    shift: Integer,
    scratch: Integer,
    gains: Integer,
    weight: Integer,
) -> Integer:
    """Merge a word of any length in n log n; ids land at ``scratch`` as uint32.

    Symbols form a doubly linked list; the heap orders candidate pairs by (rank, position). A
    popped candidate counts only if the pair now at its position has that very rank, so nothing
    is ever removed from inside the heap. Each merge pops one candidate and pushes at most two,
    which bounds the heap by two items per byte.
    """
    behind = scratch + 4 * length
    before = scratch + 8 * length
    heap = scratch + 16 * length
    size = np.int64(0)
    for i in range(length):
        symbol = load_u32(byte_ids + 4 * np.int64(load_u8(word + i)))
        store_u32(scratch + 4 * i, symbol)
        store_u32(behind + 4 * i, np.uint32(i + 1))
        store_u32(before + 4 * i, np.uint32(i))
        if i > 0:
            store_u32(before + 4 * i, np.uint32(i - 1))
            left = load_u32(scratch + 4 * i - 4)
            merge = find_merge(pairs, shift, left, symbol)
            if merge != NO_MERGE:
                push(heap, size, ((merge >> RANK_SHIFT) << POSITION_BITS) | np.uint64(i - 1))
                size += 1
    while size > 0:
        item = pop(heap, size)
        size -= 1
        at = np.int64(item & POSITION_MASK)
        symbol = load_u32(scratch + 4 * at)
        follower = np.int64(load_u32(behind + 4 * at))
        if symbol == DEAD or follower == length:
            continue
        merge = find_merge(pairs, shift, symbol, load_u32(scratch + 4 * follower))
        if merge == NO_MERGE or (merge >> RANK_SHIFT) != (item >> POSITION_BITS):
            continue
        record_gain(gains, merge, weight)
        symbol = np.uint32(merge & np.uint64(0xFFFF_FFFF))
        store_u32(scratch + 4 * at, symbol)
        store_u32(scratch + 4 * follower, DEAD)
        follower = np.int64(load_u32(behind + 4 * follower))
        store_u32(behind + 4 * at, np.uint32(follower))
        if follower < length:
            store_u32(before + 4 * follower, np.uint32(at))
            merge = find_merge(pairs, shift, symbol, load_u32(scratch + 4 * follower))
            if merge != NO_MERGE:
                push(heap, size, ((merge >> RANK_SHIFT) << POSITION_BITS) | np.uint64(at))
                size += 1
        if at > 0:
            at = np.int64(load_u32(before + 4 * at))
            merge = find_merge(pairs, shift, load_u32(scratch + 4 * at), symbol)
            if merge != NO_MERGE:
                push(heap, size, ((merge >> RANK_SHIFT) << POSITION_BITS) | np.uint64(at))
                size += 1
    return keep_living(scratch, length)


@kernel
def keep_living(symbols: Integer, length: Integer) -> Integer:
    """Close the gaps that merging left in a list of uint32 symbols; returns how many remain."""
    count = np.int64(0)
    for i in range(length):
        symbol = load_u32(symbols + 4 * i)
        if symbol != DEAD:
            store_u32(symbols + 4 * count, symbol)
            count += 1
    return count


@kernel
def merge_word(
    word: Integer,
    length: Integer,
    byte_ids: Integer,
    pairs: Integer,
    shift: Integer,
    scratch: Integer,
    gains: Integer,
    weight: Integer,
) -> Integer:
    """Token ids of one word, as uint32 at ``scratch``. Ties of rank go to the leftmost pair.

    Args:
        word: address of the bytes.
        length: at least 1 byte, at most 2³² − 2.
        byte_ids: address of uint32 ``[256]``: the id of each byte.
        pairs: address of the table that `fill_pair_table` made, ``shift`` its shift.
        scratch: address of `scratch_bytes` (of the length) bytes.
        gains: address of int64 ``[n_merges]``, or 0; each merge that fires adds ``weight``.

    Returns:
        How many ids there are. Twin: `tokenizer_core.reference.merge_word`.
    """
    if length <= SHORT_WORD:
        return merge_short(word, length, byte_ids, pairs, shift, scratch, gains, weight)
    return merge_long(word, length, byte_ids, pairs, shift, scratch, gains, weight)


@kernel
def derive_merges(
    words: NDArray[np.uint8],
    ends: NDArray[np.int64],
    results: NDArray[np.int64],
    byte_ids: NDArray[np.uint32],
    shift: Integer,
    table: NDArray[np.uint64],
    scratch: NDArray[np.uint64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> Integer:
    """Find the merge that makes each token from tokens before it, in order of rank.

    A token of rank r is encoded with the merges of lower ranks; the two symbols that remain are
    its merge. (tiktoken's files hold tokens and ranks but no merges.)

    Args:
        words: uint8, the tokens joined. ends: int64 ``[n]``: where each ends.
        results: int64 ``[n]``: the id of each.
        byte_ids: uint32 ``[256]``. shift, table: as for `fill_pair_table`; filled on the way.
        scratch: uint64, enough for the longest token.
        left, right: int64 ``[n]``: receive the parts.

    Returns:
        −1, or the first rank whose token is not the merge of two.
    """
    begin = np.int64(0)
    for rank in range(len(ends)):
        count = merge_word(
            words.ctypes.data + begin,
            ends[rank] - begin,
            byte_ids.ctypes.data,
            table.ctypes.data,
            shift,
            scratch.ctypes.data,
            np.int64(0),
            np.int64(0),
        )
        if count != 2:
            return np.int64(rank)
        left[rank] = load_u32(scratch.ctypes.data)
        right[rank] = load_u32(scratch.ctypes.data + 4)
        put_merge(shift, table, left[rank], right[rank], rank, results[rank])
        begin = ends[rank]
    return np.int64(-1)
