"""One word in, its token ids out: merges applied by rank. Knows nothing of text or of caches.

Tables and scratch are addresses, so that one block of memory serves words of every length.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, Int, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO
from bpeline.tokenizer_core.kernels.tables.number_heap import pop, push
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    put_merge,
    table_of_merges,
)
from bpeline.tokenizer_core.kernels.tables.random_numbers import STEP, scrambled

# Up to here a scan over the pairs is quicker than a heap (measured: LOG.md).
SHORT_WORD = 64
SHORT_SCRATCH = 16 * SHORT_WORD  # bytes: 4 per symbol, 8 per pair, and some to read beyond
LONG_SCRATCH = 32  # bytes of scratch per byte of a long word; behind SHORT_SCRATCH
DROPOUT_SCRATCH = 44  # the same where merges are dropped
UNUSED_BITS = np.uint64(11)  # of a random number, so that a probability of 1 is a number as well
MOST_DROPPED = 1 << 53

DEAD = np.uint32(0xFFFF_FFFF)
POSITION_BITS = np.uint64(40)
POSITION_MASK = np.uint64((1 << 40) - 1)


@kernel
def record_gain(gains: Int, merge: U64, weight: I64) -> None:
    """Add ``weight`` to the gain of the merge that fired; no gains are kept at address 0."""
    if gains != 0:
        at = gains + np.int64((merge >> RANK_SHIFT) << np.uint64(3))
        store_u64(at, load_u64(at) + np.uint64(weight))


@kernel
def merge_short(
    word: I64, length: I64, byte_ids: Int, pairs: PairTable, scratch: Int, gains: Int, weight: I64
) -> I64:
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
            store_u64(merges + 8 * i - 8, find_merge(pairs, before, symbol))
    count = length
    while count > 1:
        best = NO_MERGE
        at = np.int64(0)
        for i in range(count - 1):
            merge = load_u64(merges + 8 * i)
            if merge >> RANK_SHIFT < best >> RANK_SHIFT:
                best = merge
                at = np.int64(i)
        if best == NO_MERGE:
            break
        record_gain(gains, best, weight)
        count -= 1
        for i in range(at + 1, count):
            store_u32(scratch + 4 * i, load_u32(scratch + 4 * i + 4))
            store_u64(merges + 8 * i, load_u64(merges + 8 * i + 8))
        symbol = np.uint32(best & LOW_32)
        store_u32(scratch + 4 * at, symbol)
        if at > 0:
            before = load_u32(scratch + 4 * at - 4)
            store_u64(merges + 8 * at - 8, find_merge(pairs, before, symbol))
        if at + 1 < count:
            behind = load_u32(scratch + 4 * at + 4)
            store_u64(merges + 8 * at, find_merge(pairs, symbol, behind))
    return count


@kernel
def candidate(symbols: Int, at: I64, follower: I64, pairs: PairTable) -> U64:
    """(rank, position) of the pair at a position, or `NO_MERGE`."""
    merge = find_merge(pairs, load_u32(symbols + 4 * at), load_u32(symbols + 4 * follower))
    if merge == NO_MERGE:
        return NO_MERGE
    return ((merge >> RANK_SHIFT) << POSITION_BITS) | np.uint64(at)


@kernel
def merge_linked(
    symbols: Int,
    count: I64,
    pairs: PairTable,
    everywhere: I64,
    scratch: Int,
    gains: Int,
    weight: I64,
    dropped: U64,
    stream: U64,
) -> None:
    """Merge any number of symbols in n log n; where two became one the second is `DEAD`.

    Symbols form a doubly linked list; the heap orders candidate pairs by (rank, position). A
    popped candidate counts only if the pair now at its position has that very rank, so nothing
    is ever removed from inside the heap. Each merge pops one candidate and adds at most two,
    which bounds the heap by two items per symbol.

    Args:
        symbols: address of uint32.
        everywhere: not 0: a merge is applied at all its places, from left to right, before ranks
            are looked at again; 0: at its leftmost place alone. They differ when a merge makes
            neighbours of lower rank: with ``everywhere`` these wait in a list until no pair of
            the present rank is left.
        scratch: address of 40 bytes per symbol, or 24 and 16 more if not ``everywhere``. Receives
            as uint32, for each symbol that is left, the index of the one behind it.
        gains, weight: see `merge_word`.
        dropped: not 0: the place that is next is left out, until something was merged, where the
            next number of ``stream`` is below this, from 1 to `MOST_DROPPED`; not together with
            ``everywhere``.
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
        item = candidate(symbols, np.int64(i), np.int64(i + 1), pairs)
        if item != NO_MERGE:
            push(heap, size, item)
            size += 1
    while size > 0 or (held > 0 and everywhere != 0):
        if (
            everywhere != 0
            and held > 0
            and (size == 0 or load_u64(heap) >> POSITION_BITS != present)
        ):
            for i in range(held):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            held = np.int64(0)
        item = pop(heap, size)
        size -= 1
        at = np.int64(item & POSITION_MASK)
        follower = np.int64(load_u32(behind + 4 * at))
        symbol = load_u32(symbols + 4 * at)
        if symbol == DEAD or follower == count:
            continue
        merge = find_merge(pairs, symbol, load_u32(symbols + 4 * follower))
        if merge == NO_MERGE or (merge >> RANK_SHIFT) != (item >> POSITION_BITS):
            continue
        if dropped != ZERO:
            stream += STEP
            if scrambled(stream) >> UNUSED_BITS < dropped:
                store_u64(waiting + 8 * held, item)
                held += 1
                continue
        record_gain(gains, merge, weight)
        if everywhere != 0:
            present = item >> POSITION_BITS
        store_u32(symbols + 4 * at, np.uint32(merge & LOW_32))
        store_u32(symbols + 4 * follower, DEAD)
        follower = np.int64(load_u32(behind + 4 * follower))
        store_u32(behind + 4 * at, np.uint32(follower))
        if follower < count:
            store_u32(before + 4 * follower, np.uint32(at))
            item = candidate(symbols, at, follower, pairs)
            if item != NO_MERGE:
                store_u64(waiting + 8 * held, item)
                held += 1
        if at > 0:
            item = candidate(symbols, np.int64(load_u32(before + 4 * at)), at, pairs)
            if item != NO_MERGE:
                store_u64(waiting + 8 * held, item)
                held += 1
        if everywhere == 0:
            for i in range(held):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            held = np.int64(0)


@kernel
def merge_word(
    word: I64, length: I64, byte_ids: Int, pairs: PairTable, scratch: Int, gains: Int, weight: I64
) -> I64:
    """Token ids of one word, as uint32 at ``scratch``. Ties of rank go to the leftmost pair.

    Args:
        word: address of the bytes.
        length: at least 1 byte, at most 2³² − 2.
        byte_ids: address of uint32 ``[256]``: the id of each byte.
        scratch: address of `SHORT_SCRATCH` bytes and `LONG_SCRATCH` for each byte.
        gains: address of int64 ``[n_merges]``, or 0; each merge that fires adds ``weight``.

    Returns:
        How many ids there are. Twin: `tokenizer_core.reference.merge_word`.
    """
    if length <= SHORT_WORD:
        return merge_short(word, length, byte_ids, pairs, scratch, gains, weight)
    return merge_long(word, length, byte_ids, pairs, scratch, gains, weight, ZERO, ZERO)


@kernel
def merge_long(
    word: I64,
    length: I64,
    byte_ids: Int,
    pairs: PairTable,
    scratch: Int,
    gains: Int,
    weight: I64,
    dropped: U64,
    stream: U64,
) -> I64:
    """`merge_word` of any length, with dropout if asked for: see `merge_linked`."""
    for i in range(length):
        store_u32(scratch + 4 * i, load_u32(byte_ids + 4 * np.int64(load_u8(word + i))))
    links, once = scratch + 4 * length, np.int64(0)
    merge_linked(scratch, length, pairs, once, links, gains, weight, dropped, stream)
    count = np.int64(0)
    for i in range(length):
        symbol = load_u32(scratch + 4 * i)
        if symbol != DEAD:
            store_u32(scratch + 4 * count, symbol)
            count += 1
    return count


@entry_kernel
def derive_merges(
    words: U8s,
    ends: I64s,
    results: I64s,
    byte_ids: U32s,
    table: U64s,
    hash_key: U64s,
    scratch: U64s,
    left: I64s,
    right: I64s,
) -> I64:
    """Find the merge that makes each token; ids are ranks.

    A token is encoded with the merges of all shorter ones; if two symbols remain, they are its
    merge. (tiktoken's files hold tokens and ranks but no merges.)

    Args:
        words: uint8, the tokens joined, shorter ones first. ends: int64 ``[n]``: where each ends.
        results: int64 ``[n]``: the id of each.
        byte_ids: uint32 ``[256]``.
        table, hash_key: see `table_of_merges`; filled on the way.
        scratch: uint64, enough for the longest token.
        left, right: int64 ``[n]``: receive the parts, or −1 twice.

    Returns:
        How many tokens no merge makes.
    """
    pairs = table_of_merges(table, hash_key)
    parts, ids = scratch.ctypes.data, byte_ids.ctypes.data
    nothing = np.int64(0)
    begin = unmade = np.int64(0)
    for i in range(len(ends)):
        word, length = words.ctypes.data + begin, ends[i] - begin
        count = merge_word(word, length, ids, pairs, parts, nothing, nothing)
        begin = ends[i]
        left[i] = right[i] = np.int64(-1)
        if count == 2:
            left[i] = load_u32(parts)
            right[i] = load_u32(parts + 4)
            put_merge(pairs, left[i], right[i], results[i], results[i])
        else:
            unmade += 1
    return unmade


@entry_kernel
def add_gains(
    words: U8s,
    begins: I64s,
    ends: I64s,
    counts: I64s,
    byte_ids: U32s,
    pairs: U64s,
    hash_key: U64s,
    scratch: U64s,
    gains: I64s,
) -> None:
    """Merge every word and add its count to each merge that fires.

    Args:
        words: uint8. begins, ends: int64 ``[n]``: non-empty byte ranges in it.
        counts: int64 ``[n]``.
        byte_ids: uint32 ``[256]``. pairs, hash_key: see `table_of_merges`.
        scratch: uint64, enough for the longest word.
        gains: int64 ``[n_merges]``, added to.
    """
    table = table_of_merges(pairs, hash_key)
    ids, free, total = byte_ids.ctypes.data, scratch.ctypes.data, gains.ctypes.data
    for i in range(len(begins)):
        word = words.ctypes.data + begins[i]
        merge_word(word, ends[i] - begins[i], ids, table, free, total, counts[i])


@entry_kernel
def merge_with_dropout(
    text: U8s,
    begins: I64s,
    stops: I64s,
    streams: U64s,
    dropped: U64,
    byte_ids: U32s,
    table: U64s,
    hash_key: U64s,
    scratch: U64s,
    ids: U32s,
    ends: I64s,
) -> None:
    """Merge words in the order of their ranks, where each place may be left out at each step.

    Args:
        text: uint8. begins, stops: int64 ``[n]``: where words lie in it.
        streams: uint64 ``[n]``: where the random numbers of each word begin.
        dropped: the probability to be left out, times `MOST_DROPPED`.
        byte_ids: uint32 ``[256]``. table, hash_key: see `table_of_merges`.
        scratch: uint64, `DROPOUT_SCRATCH` bytes for each byte of the longest word.
        ids: uint32, room for every byte: receives the ids.
        ends: int64 ``[n]``: receives how many ids there are up to the end of each word.
    """
    pairs = table_of_merges(table, hash_key)
    symbols, free = byte_ids.ctypes.data, scratch.ctypes.data
    nothing, total = np.int64(0), np.int64(0)
    for i in range(len(streams)):
        word, length = text.ctypes.data + begins[i], stops[i] - begins[i]
        count = merge_long(
            word, length, symbols, pairs, free, nothing, nothing, dropped, streams[i]
        )
        for k in range(count):
            ids[total + k] = load_u32(free + 4 * k)
        total += count
        ends[i] = total
