"""Encoding of words: by backtracking over tokens, by ranked merges, and by runs."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    ID_MASK,
    NOTHING,
    TOKEN,
    joined_at,
    joins_of,
    length_of,
    shorter_token,
    stay_together,
    token_of_pair,
)
from bpeline.tokenizer_core.kernels.encoding.token_trie import longest_token
from bpeline.tokenizer_core.kernels.encoding.word_cache import key_of
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.records import Record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, Int, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, STEP, ZERO, scrambled
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    pop,
    push,
    put_merge,
    table_of_merges,
)

# Scratch bytes per byte of a word, and in addition; `WAITING_SCRATCH` per byte with dropout.
MERGE_SCRATCH, LEAST_MERGE_SCRATCH = 32, 64
WAITING_SCRATCH = 44
UNUSED_BITS = np.uint64(11)  # of a random number: 53 remain, so probability 1 is representable
MOST_DROPPED = 1 << 53

DEAD = np.uint32(0xFFFF_FFFF)
POSITION_BITS = np.uint64(40)
POSITION_MASK = np.uint64((1 << 40) - 1)


@kernel
def record_gain(gains: Int, merge: U64, weight: I64) -> None:
    """Add ``weight`` to the gain of a merge; address 0 means that gains are not kept."""
    if gains != 0:
        at = gains + np.int64((merge >> RANK_SHIFT) << np.uint64(3))
        store_u64(at, load_u64(at) + np.uint64(weight))


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
    fired: Int,
) -> I64:
    """Merge any number of symbols in n log n; returns the number of merges applied.

    Symbols form a doubly linked list; the right one of merged symbols becomes `DEAD`. The heap
    orders candidate pairs by (rank, position). A popped candidate counts only if the pair now at
    its position has exactly that rank, so nothing is removed from inside the heap. Each merge pops
    one candidate and adds at most two, which bounds the heap by two items per symbol.

    Args:
        symbols: address of uint32.
        everywhere: if not 0, a merge is applied at all its places, left to right, before other
            ranks; if 0, only at the leftmost place. These differ if a merge creates pairs of lower
            rank: with ``everywhere`` these wait until no pair of the present rank is left.
        scratch: address of 40 bytes per symbol, or of 24 per symbol and 16 more without
            ``everywhere`` and ``dropped``. Receives for each remaining symbol the index of the next
            one, as uint32.
        gains, weight: see `merge_word`.
        dropped: if not 0, from 1 to `MOST_DROPPED`: a candidate is skipped until the next merge if
            the next number of ``stream`` is below this; not together with ``everywhere``.
        fired: address of a uint64 per symbol, or 0: receives the applied merges in order, as rank
            shifted by `POSITION_BITS`, and position.
    """
    next_links = scratch
    previous_links = scratch + 4 * count
    heap = scratch + 8 * count
    waiting = scratch + 24 * count
    size = np.int64(0)
    waiting_count = np.int64(0)
    present_rank = NO_MERGE
    number = np.int64(0)
    for i in range(count):
        store_u32(next_links + 4 * i, np.uint32(i + 1))
        store_u32(previous_links + 4 * i, np.uint32(max(i - 1, 0)))
    for i in range(count - 1):
        item = candidate(symbols, np.int64(i), np.int64(i + 1), pairs)
        if item != NO_MERGE:
            push(heap, size, item)
            size += 1
    while size > 0 or (waiting_count > 0 and everywhere != 0):
        if (
            everywhere != 0
            and waiting_count > 0
            and (size == 0 or load_u64(heap) >> POSITION_BITS != present_rank)
        ):
            for i in range(waiting_count):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            waiting_count = np.int64(0)
        item = pop(heap, size)
        size -= 1
        at = np.int64(item & POSITION_MASK)
        follower = np.int64(load_u32(next_links + 4 * at))
        symbol = load_u32(symbols + 4 * at)
        if symbol == DEAD or follower == count:
            continue
        merge = find_merge(pairs, symbol, load_u32(symbols + 4 * follower))
        if merge == NO_MERGE or (merge >> RANK_SHIFT) != (item >> POSITION_BITS):
            continue
        if dropped != ZERO:
            stream += STEP
            if scrambled(stream) >> UNUSED_BITS < dropped:
                store_u64(waiting + 8 * waiting_count, item)
                waiting_count += 1
                continue
        record_gain(gains, merge, weight)
        if fired != 0:
            store_u64(fired + 8 * number, item)
        number += 1
        if everywhere != 0:
            present_rank = item >> POSITION_BITS
        store_u32(symbols + 4 * at, np.uint32(merge & LOW_32))
        store_u32(symbols + 4 * follower, DEAD)
        follower = np.int64(load_u32(next_links + 4 * follower))
        store_u32(next_links + 4 * at, np.uint32(follower))
        if follower < count:
            store_u32(previous_links + 4 * follower, np.uint32(at))
            item = candidate(symbols, at, follower, pairs)
            if item != NO_MERGE:
                store_u64(waiting + 8 * waiting_count, item)
                waiting_count += 1
        if at > 0:
            item = candidate(symbols, np.int64(load_u32(previous_links + 4 * at)), at, pairs)
            if item != NO_MERGE:
                store_u64(waiting + 8 * waiting_count, item)
                waiting_count += 1
        if everywhere == 0:
            for i in range(waiting_count):
                push(heap, size, load_u64(waiting + 8 * i))
                size += 1
            waiting_count = np.int64(0)
    return number


@kernel
def merge_symbols(
    symbols: Int,
    ends: Int,
    count: I64,
    pairs: PairTable,
    everywhere: I64,
    scratch: Int,
    gains: Int,
    weight: I64,
    dropped: U64,
    stream: U64,
) -> I64:
    """Merge symbols in place; returns how many are left. See `merge_linked`.

    ``ends`` is 0 or the address of uint32: where each symbol ends in the word; updated.
    """
    silent = np.int64(0)
    merge_linked(symbols, count, pairs, everywhere, scratch, gains, weight, dropped, stream, silent)
    remaining = np.int64(0)
    for i in range(count):
        symbol = load_u32(symbols + 4 * i)
        if symbol != DEAD:
            store_u32(symbols + 4 * remaining, symbol)
            if ends != 0:
                last = np.int64(load_u32(scratch + 4 * i)) - 1  # last of the merged symbols
                store_u32(ends + 4 * remaining, load_u32(ends + 4 * last))
            remaining += 1
    return remaining


@kernel
def merge_word(
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
    """Write the token ids of a word to ``scratch``, as uint32; returns their number.

    Of pairs of equal rank the leftmost is merged first. Tests compare this with
    `tokenizer_core.reference.merge_word`.

    Args:
        word, length: address and number of bytes, from 1 to 2³² − 2.
        byte_ids: address of uint32 ``[256]``: the id of each byte.
        scratch: address of `MERGE_SCRATCH` bytes per byte and `LEAST_MERGE_SCRATCH` more, or
            `WAITING_SCRATCH` per byte with dropout.
        gains: address of int64 ``[n_merges]``, or 0; ``weight`` is added for each merge applied.
        dropped, stream: see `merge_linked`.
    """
    for i in range(length):
        store_u32(scratch + 4 * i, load_u32(byte_ids + 4 * np.int64(load_u8(word + i))))
    links, once = scratch + 4 * length, np.int64(0)
    return merge_symbols(scratch, once, length, pairs, once, links, gains, weight, dropped, stream)


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
    """Find the merge that creates each token; ids are ranks.

    (tiktoken's files have tokens and ranks but no merges.) A token is encoded with the merges of
    all shorter ones; if two symbols remain, they are its merge. Returns the number of tokens
    without a merge.

    Args:
        words: uint8, the tokens joined, shorter ones first. ends: int64 ``[n]``.
        results: int64 ``[n]``: the id of each.
        table, hash_key: see `table_of_merges`; filled.
        left, right: int64 ``[n]``: receive the parts, or −1 twice.
    """
    pairs = table_of_merges(table, hash_key)
    parts, ids = scratch.ctypes.data, byte_ids.ctypes.data
    nothing = np.int64(0)
    begin = unmade = np.int64(0)
    for i in range(len(ends)):
        word, length = words.ctypes.data + begin, ends[i] - begin
        count = merge_word(word, length, ids, pairs, parts, nothing, nothing, ZERO, ZERO)
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
    """Merge every word and add its count to the gain of each merge applied.

    ``begins`` and ``ends`` are non-empty byte ranges of ``words``.
    """
    table = table_of_merges(pairs, hash_key)
    ids, free, total = byte_ids.ctypes.data, scratch.ctypes.data, gains.ctypes.data
    for i in range(len(begins)):
        word = words.ctypes.data + begins[i]
        merge_word(word, ends[i] - begins[i], ids, table, free, total, counts[i], ZERO, ZERO)


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
    """Encode words with BPE-dropout: each candidate merge may be skipped at each step.

    Args:
        text: uint8. begins, stops: int64 ``[n]``: byte ranges of words.
        streams: uint64 ``[n]``: start of the random numbers of each word.
        dropped: the probability to be skipped, times `MOST_DROPPED`.
        scratch: uint64, `WAITING_SCRATCH` bytes per byte of the longest word.
        ids: uint32, room for one id per byte.
        ends: int64 ``[n]``: receives the number of ids up to the end of each word.
    """
    pairs = table_of_merges(table, hash_key)
    symbols, free = byte_ids.ctypes.data, scratch.ctypes.data
    nothing, total = np.int64(0), np.int64(0)
    for i in range(len(streams)):
        word, length = text.ctypes.data + begins[i], stops[i] - begins[i]
        count = merge_word(
            word, length, symbols, pairs, free, nothing, nothing, dropped, streams[i]
        )
        for k in range(count):
            ids[total + k] = load_u32(free + 4 * k)
        total += count
        ends[i] = total


@entry_kernel
def trace_merges(
    word: U8s, size: I64, byte_ids: U32s, table: U64s, hash_key: U64s, scratch: U64s, fired: U64s
) -> I64:
    """Record the merges of a word in ``fired``, see `merge_linked`; returns how many."""
    symbols, ids, nothing = scratch.ctypes.data, byte_ids.ctypes.data, np.int64(0)
    for i in range(size):
        store_u32(symbols + 4 * i, load_u32(ids + 4 * np.int64(word[i])))
    links, pairs = symbols + 4 * size, table_of_merges(table, hash_key)
    at = fired.ctypes.data
    return merge_linked(symbols, size, pairs, nothing, links, nothing, nothing, ZERO, ZERO, at)


LEAST_BYTES = 16  # shortest word that is encoded by runs
BYTES_OF_A_RUN = 8  # least average length of runs
MOST_RUNS = 32  # at any time; words with more are encoded by backtracking
REPEATS = 8  # offset in a run, in bytes; the index of the token is at 0
RUN = 16  # bytes
RUN_SCRATCH = 2 * (MOST_RUNS + 2) * RUN  # bytes


@kernel
def add_run(runs: I64, number: I64, token: I64, repeats: I64) -> I64:
    """Append equal tokens to runs, maybe to the last; returns the number of runs."""
    if repeats == 0:
        return number
    last = runs + RUN * (number - 1)
    if number > 0 and np.int64(load_u64(last)) == token:
        store_u64(last + REPEATS, load_u64(last + REPEATS) + np.uint64(repeats))
        return number
    store_u64(last + RUN, np.uint64(token))
    store_u64(last + RUN + REPEATS, np.uint64(repeats))
    return number + 1


@kernel
def runs_of_word(word: I64, length: I64, most: I64, runs: I64) -> I64:
    """Write the runs of equal bytes; returns their number, or 0 if above ``most``."""
    number, begin = np.int64(0), np.int64(0)
    for at in range(1, length + 1):
        byte = load_u8(word + begin)
        if at < length and load_u8(word + at) == byte:
            continue
        if number == most:
            return np.int64(0)
        number = add_run(runs, number, np.int64(byte), at - begin)
        begin = np.int64(at)
    return number


@kernel
def merge_pair_in_runs(
    runs: I64, number: I64, left: I64, right: I64, merged: I64, result: I64
) -> I64:
    """Apply a merge at all its places, left to right; writes new runs to ``result``.

    Returns the number of runs, or 0 if it is above `MOST_RUNS`.
    """
    written, consumed = np.int64(0), np.int64(0)  # consumed: tokens at the start of the next run
    for i in range(number):
        run = runs + RUN * i
        token = np.int64(load_u64(run))
        repeats = np.int64(load_u64(run + REPEATS)) - consumed
        consumed = np.int64(0)
        if token == left and left == right:
            written = add_run(result, written, merged, repeats >> 1)
            written = add_run(result, written, token, repeats & 1)
        elif (
            token == left
            and repeats > 0
            and i + 1 < number
            and np.int64(load_u64(run + RUN)) == right
        ):
            written = add_run(result, written, token, repeats - 1)
            written = add_run(result, written, merged, np.int64(1))
            consumed = np.int64(1)
        else:
            written = add_run(result, written, token, repeats)
        if written > MOST_RUNS:
            return np.int64(0)
    return written


@kernel
def encode_runs(word: I64, length: I64, workspace: Record, target: I64) -> I64:
    """Write the token ids of a word of few runs, as uint32; returns their number.

    Returns 0 if there are too many runs. Merges must be proper (see `keep_merges`): a merge creates
    no pairs of lower rank, so the merge of lowest rank is finished after it was applied at all its
    places, left to right.

    Args:
        word, length: address and number of bytes, at least 1.
        workspace: a `WORKSPACE` with `RUN_SCRATCH` bytes of scratch.
        target: address with room for ``length`` ids.
    """
    runs = workspace.scratch
    other = runs + (RUN_SCRATCH >> 1)
    number = runs_of_word(word, length, min(MOST_RUNS, length // BYTES_OF_A_RUN), runs)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    while number > 0:
        best = left = right = np.int64(NOTHING)
        for i in range(number):
            run = runs + RUN * i
            token = np.int64(load_u64(run))
            if load_u64(run + REPEATS) > 1:
                merged = token_of_pair(pairs, token, token)
                if merged < best:
                    best, left, right = merged, token, token
            if i + 1 < number:
                following = np.int64(load_u64(run + RUN))
                merged = token_of_pair(pairs, token, following)
                if merged < best:
                    best, left, right = merged, token, following
        if best == NOTHING:
            break
        number = merge_pair_in_runs(runs, number, left, right, best, other)
        runs, other = other, runs
    count = np.int64(0)
    for i in range(number):
        run = runs + RUN * i
        id_ = np.uint32(load_u64(workspace.tokens + TOKEN * np.int64(load_u64(run))) & ID_MASK)
        for _ in range(np.int64(load_u64(run + REPEATS))):
            store_u32(target + 4 * count, id_)
            count += 1
    return count


@kernel
def is_marked(bits: I64, at: I64) -> bool:
    return (load_u64(bits + 8 * (at >> 6)) >> np.uint64(at & 63)) & ONE != ZERO


@kernel
def mark(bits: I64, at: I64) -> None:
    block = bits + 8 * (at >> 6)
    store_u64(block, load_u64(block) | (ONE << np.uint64(at & 63)))


@kernel
def encode_by_backtracking(word: I64, length: I64, workspace: Record, target: I64) -> I64:
    """Write the token ids of a word, as uint32: longest token, with backtracking.

    Arguments and result are those of `encode_runs`; scratch is a bit per byte and one more.
    """
    tokens, trie = workspace.tokens, workspace.trie
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    dead = workspace.scratch  # places from which the end of the word cannot be reached
    any_dead = False
    end = word + length
    count = np.int64(0)
    at, before, joins = word, np.int64(NOTHING), ZERO
    token_end = at
    while token_end < end:
        token, token_end = longest_token(at, end, trie, tokens)
        while True:
            fits = not any_dead or not is_marked(dead, token_end - word)
            if fits and joins & joined_at(tokens, token) != ZERO:
                fits = stay_together(pairs, tokens, before, token)
            if fits:
                break
            token = shorter_token(tokens, token)
            while token == NOTHING:
                if not any_dead:
                    for i in range((length >> 6) + 1):
                        store_u64(dead + 8 * i, ZERO)
                    any_dead = True
                mark(dead, at - word)
                count -= 1
                token = np.int64(load_u32(target + 4 * count))
                at -= length_of(tokens, token)
                token = shorter_token(tokens, token)
                joins = ZERO
                if count > 0:
                    before = np.int64(load_u32(target + 4 * count - 4))
                    joins = joins_of(tokens, before)
            token_end = at + length_of(tokens, token)
        store_u32(target + 4 * count, np.uint32(token))
        count += 1
        at, before, joins = token_end, token, joins_of(tokens, token)
    for i in range(count):
        index = np.int64(load_u32(target + 4 * i))
        store_u32(target + 4 * i, np.uint32(load_u64(tokens + TOKEN * index) & ID_MASK))
    return count
