"""Words in, pieces out, by merges over characters. Knows nothing of text or of strings."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import DEAD, merge_linked
from bpeline.tokenizer_core.kernels.encoding.symbol_tables import END, INSIDE, LAST, UNKNOWN
from bpeline.tokenizer_core.kernels.memory.addresses import load_u32, load_u64, store_u32, store_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import decode
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    table_of_merges,
)

# How the end of a word is marked.
UNMARKED, OWN_SYMBOL, JOINED = 0, 1, 2

SHORT = 48  # symbols up to which a scan over the pairs is quicker than a heap
SCRATCH_PER_SYMBOL = 40  # bytes


@kernel
def symbols_of_word(
    word: I64, length: I64, marking: I64, table: PairTable, symbols: I64, ends: I64
) -> I64:
    """Write a word's symbols and where in it each ends (uint32 both); returns how many."""
    at = np.int64(0)
    count = np.int64(0)
    while at < length:
        character, size = decode(word + at)
        at += size
        kind = LAST if marking == JOINED and at == length else INSIDE
        entry = find_merge(table, kind, character)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + character)
        store_u32(symbols + 4 * count, np.uint32(symbol))
        store_u32(ends + 4 * count, np.uint32(at))
        count += 1
    if marking == OWN_SYMBOL:
        entry = find_merge(table, INSIDE, END)
        symbol = entry & LOW_32 if entry != NO_MERGE else np.uint64(UNKNOWN + END)
        store_u32(symbols + 4 * count, np.uint32(symbol))
        store_u32(ends + 4 * count, np.uint32(length))
        count += 1
    return count


@kernel
def write_merge(
    symbols: I64, ends: I64, merges: U64, count: I64, best: U64, everywhere: I64
) -> I64:
    """Write a merge over the first of its places in ``merges``, or all; returns what remains."""
    read = np.int64(0)
    written = np.int64(0)
    wanted = True
    while read < count:
        if wanted and read + 1 < count and load_u64(merges + 8 * read) == best:
            store_u32(symbols + 4 * written, np.uint32(best & LOW_32))
            wanted = everywhere != 0
            read += 1
        else:
            store_u32(symbols + 4 * written, load_u32(symbols + 4 * read))
            store_u64(merges + 8 * written, load_u64(merges + 8 * read))
        store_u32(ends + 4 * written, load_u32(ends + 4 * read))
        read += 1
        written += 1
    return written


@kernel
def merge_few(
    symbols: I64, ends: I64, count: I64, table: PairTable, everywhere: I64, merges: U64
) -> I64:
    """Merge up to `SHORT` symbols in place; returns how many remain. See `merge_linked`."""
    for i in range(count - 1):
        left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
        store_u64(merges + 8 * i, find_merge(table, left, right))
    while count > 1:
        best = NO_MERGE
        for i in range(count - 1):
            merge = load_u64(merges + 8 * i)
            if merge >> RANK_SHIFT < best >> RANK_SHIFT:
                best = merge
        if best == NO_MERGE:
            break
        count = write_merge(symbols, ends, merges, count, best, everywhere)
        result = np.uint32(best & LOW_32)
        for i in range(count - 1):
            left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
            if left == result or right == result:
                store_u64(merges + 8 * i, find_merge(table, left, right))
    return count


@kernel
def merge_many(
    symbols: I64, ends: I64, count: I64, table: PairTable, everywhere: I64, scratch: U64
) -> I64:
    """Merge any number of symbols in place; returns how many remain. See `merge_linked`."""
    nothing = np.int64(0)
    merge_linked(symbols, count, table, everywhere, scratch, nothing, nothing, ZERO, ZERO)
    remaining = np.int64(0)
    for i in range(count):
        symbol = load_u32(symbols + 4 * i)
        if symbol != DEAD:
            last = np.int64(load_u32(scratch + 4 * i)) - 1  # of those that became this one
            store_u32(symbols + 4 * remaining, symbol)
            store_u32(ends + 4 * remaining, load_u32(ends + 4 * last))
            remaining += 1
    return remaining


@entry_kernel
def merge_characters(
    text: U8s,
    places: I64s,
    lengths: I64s,
    marking: I64,
    everywhere: I64,
    table: U64s,
    hash_key: U64s,
    unknown: I64,
    scratch: U64s,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> None:
    """Encode words, each by itself.

    Args:
        text: uint8, valid UTF-8 within the words, `PADDING` readable bytes behind.
        places, lengths: int64 ``[n]``: where each word begins and its bytes.
        marking: `UNMARKED`, `OWN_SYMBOL` or `JOINED`.
        everywhere: see `merge_linked`.
        table, hash_key: of `fill_merges`.
        unknown: the id of symbols without one.
        scratch: uint64, `SCRATCH_PER_SYMBOL` bytes for each byte of the longest word, and 1 more.
        ids, ends: uint32, room for the bytes of all words and ``n`` more: receive the pieces of
            each word, as token ids and as where in the word they end.
        edges: int64 ``[n + 1]``: receives where the pieces of each word begin.
    """
    base = text.ctypes.data
    pairs = table_of_merges(table, hash_key)
    free = scratch.ctypes.data
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        symbols = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = symbols_of_word(base + places[word], lengths[word], marking, pairs, symbols, stops)
        if count <= SHORT:
            count = merge_few(symbols, stops, count, pairs, everywhere, free)
        else:
            count = merge_many(symbols, stops, count, pairs, everywhere, free)
        for i in range(count):
            if load_u32(symbols + 4 * i) >= np.uint32(UNKNOWN):
                store_u32(symbols + 4 * i, np.uint32(unknown))
        total += count
        edges[word + 1] = total
