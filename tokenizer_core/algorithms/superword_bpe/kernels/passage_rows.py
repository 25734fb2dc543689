"""Words of passages get numbers, and rows of numbers become runs of symbols; never allocates."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.counting.word_table import (
    AHEAD,
    Used,
    expect,
    put_word,
    seek_word,
    table_of,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, trailing_zeros
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    I32s,
    I64Rows,
    I64s,
    Int,
    U8s,
    U32s,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import (
    ONE,
    ZERO,
    HashKey,
    key_in,
    mix,
    shift_for,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import pair_key
from bpeline.tokenizer_core.kernels.tables.word_keys import HIGH, VALUE, word_key

COUNT, POSITION = 0, 1  # columns of what is known of each word


@entry_kernel
def list_marks(bitmap: U64s, places: I64s) -> I64:
    """Write where the marks of a bitmap are, ascending; returns how many there are."""
    found = np.int64(0)
    for block in range(bitmap.size):
        mask = bitmap[block]
        while mask != ZERO:
            places[found] = (block << 6) + trailing_zeros(mask)
            found += 1
            mask &= mask - ONE
    return found


@entry_kernel
def number_rows(text: U8s, edges: I64s, table: U64s, arena: U8s, used: Used, numbers: U32s) -> None:
    """Number words in the order in which they are met first, each once.

    Args:
        text: uint8 with 16 readable bytes behind the last word.
        edges: int64 ``[n + 1]``: where each word begins, and the last one ends.
        table, arena, used: see `word_table`; the value of an entry is the number of its word, and
            so is its position. There is room for all words.
        numbers: uint32 ``[n]``.
    """
    source = np.int64(text.ctypes.data)
    words = table_of(table, arena, used)
    for index in range(len(numbers)):
        if index + AHEAD < len(numbers):
            begin, end = edges[index + AHEAD], edges[index + AHEAD + 1]
            low, high = word_key(source + begin, end - begin, words.key)
            expect(words, low, high)
        address = source + edges[index]
        low, high = word_key(address, edges[index + 1] - edges[index], words.key)
        entry = seek_word(words, low, high, address)
        if load_u64(entry + HIGH) == ZERO:
            number = used[0].words
            put_word(words, entry, low, high, address, np.uint64(number), number)
        numbers[index] = np.uint32(load_u64(entry + VALUE))


@entry_kernel
def find_rows(text: U8s, edges: I64s, table: U64s, arena: U8s, used: Used, numbers: I64s) -> None:
    """Find the numbers that words have; −1 for those that have none. Arguments as `number_rows`."""
    source = np.int64(text.ctypes.data)
    words = table_of(table, arena, used)
    for index in range(len(numbers)):
        address = source + edges[index]
        low, high = word_key(address, edges[index + 1] - edges[index], words.key)
        entry = seek_word(words, low, high, address)
        known = load_u64(entry + HIGH) != ZERO
        numbers[index] = np.int64(load_u64(entry + VALUE)) if known else np.int64(-1)


@entry_kernel
def add_occurrences(
    numbers: U32s,
    edges: I64s,
    offsets: I64s,
    counts: I64s,
    first_positions: I64s,
    words: I64Rows,
    ends: I64s,
) -> None:
    """Add the words of passages up.

    Args:
        numbers: uint32 ``[n]``: of the words, passage after passage.
        edges: int64 ``[n + 1]``: where each begins.
        offsets, counts, first_positions: int64 ``[m + 1]``, ``[m]``, ``[m]``: of the passages.
        words: int64 ``[words, 2]``: how often each word occurs, and where first.
        ends: int64 ``[m]``: receives how many words there are up to the end of each passage.
    """
    at = np.int64(0)
    for passage in range(len(counts)):
        begin, end = offsets[passage], offsets[passage + 1]
        while at < len(numbers) and edges[at] < end:
            number = numbers[at]
            position = first_positions[passage] + edges[at] - begin
            words[number, COUNT] += counts[passage]
            words[number, POSITION] = min(words[number, POSITION], position)
            at += 1
        ends[passage] = at


@kernel
def bucket_of(left: Int, right: Int, buckets: I64s, key: HashKey) -> I64:
    return np.int64(mix(pair_key(left, right), ZERO, key) >> shift_for(buckets.size))


@entry_kernel
def add_pairs(
    numbers: U32s, ends: I64s, counts: I64s, symbols: I32s, buckets: I64s, hash_key: U64s
) -> None:
    """Add up, in the bucket of each pair of adjacent symbols, how often it occurs.

    Args:
        numbers, ends, counts: of passages, see `add_occurrences`.
        symbols: int32, by number of a word: its symbol, or −1.
        buckets: int64 ``[2^b]``. A bucket is that of many pairs: it holds their sum.
        hash_key: uint64 ``[2]``.
    """
    key = key_in(hash_key)
    at = np.int64(0)
    for passage in range(len(ends)):
        left = np.int64(-1)
        while at < ends[passage]:
            right = np.int64(symbols[numbers[at]])
            if left >= 0 and right >= 0:
                buckets[bucket_of(left, right, buckets, key)] += counts[passage]
            left = right
            at += 1


@entry_kernel
def cut_runs(
    numbers: U32s,
    ends: I64s,
    counts: I64s,
    symbols: I32s,
    buckets: I64s,
    least: I64,
    hash_key: U64s,
    content: I32s,
    run_ends: I64s,
    run_counts: I64s,
) -> I64:
    """Write the runs of two symbols or more all of whose pairs may be frequent; returns how many.

    Args:
        numbers, ends, counts, symbols, buckets, hash_key: as for `add_pairs`, which has added up
            all passages.
        least: what the bucket of a pair must hold.
        content: int32, room for as many symbols as there are words.
        run_ends, run_counts: int64, room for half as many: symbols up to the end of each run; how
            often it occurs.
    """
    key = key_in(hash_key)
    at, written, runs = np.int64(0), np.int64(0), np.int64(0)
    for passage in range(len(ends)):
        left = np.int64(-1)
        begun = written
        while at < ends[passage]:
            right = np.int64(symbols[numbers[at]])
            joins = left >= 0 and right >= 0
            if joins:
                joins = buckets[bucket_of(left, right, buckets, key)] >= least
            if joins:
                if begun == written:
                    content[written] = left
                    written += 1
                content[written] = right
                written += 1
            elif begun < written:
                run_ends[runs], run_counts[runs] = written, counts[passage]
                runs += 1
                begun = written
            left = right
            at += 1
        if begun < written:
            run_ends[runs], run_counts[runs] = written, counts[passage]
            runs += 1
    return runs
