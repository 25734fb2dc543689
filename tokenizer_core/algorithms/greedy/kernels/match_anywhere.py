"""Words in, pieces out, by the token of lowest rank anywhere in a word."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import POSITION_BITS, POSITION_MASK
from bpeline.tokenizer_core.kernels.encoding.symbol_tables import END, NO_TOKEN, ROOT
from bpeline.tokenizer_core.kernels.memory.addresses import load_u32, store_u32
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import decode
from bpeline.tokenizer_core.kernels.tables.number_heap import pop, push
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    table_of_merges,
)

SCRATCH_PER_SYMBOL = 24  # bytes


@kernel
def best_token_at(
    symbols: U64, taken: I64, begin: I64, count: I64, table: PairTable
) -> tuple[U64, I64]:
    """Rank and end of the token of lowest rank at a place, before what is taken; or `NO_TOKEN`."""
    node = np.uint64(ROOT)
    best = np.uint64(NO_TOKEN)
    end = begin
    at = begin
    while at < count and load_u32(taken + 4 * at) == 0:
        entry = find_merge(table, node, load_u32(symbols + 4 * at))
        if entry == NO_MERGE:
            break
        at += 1
        node = entry & LOW_32
        if entry >> RANK_SHIFT < best:
            best = entry >> RANK_SHIFT
            end = at
    return best, end


@entry_kernel
def match_anywhere(
    text: U8s,
    places: I64s,
    lengths: I64s,
    id_of_rank: U32s,
    table: U64s,
    hash_key: U64s,
    unknown: I64,
    scratch: U64s,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> None:
    """Encode words, each by itself: the token of lowest rank that occurs anywhere comes first.

    That is the recursion "find it, then the same left and right of all its places" without
    recursion: candidates (rank, place) are taken in order unless they overlap what is taken. Each
    place has one candidate at a time; one that overlaps is replaced by the best one that fits.

    Args:
        id_of_rank: uint32: token ids by rank.
        unknown: the id of each stretch that no token covers.
        scratch: uint64, `SCRATCH_PER_SYMBOL` bytes for each byte of the longest word and 2 more.
        text, places, lengths, table, hash_key, ids, ends, edges: as for `merge_characters`.
    """
    trie = table_of_merges(table, hash_key)
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        begin = text.ctypes.data + places[word]
        length = lengths[word]
        symbols = scratch.ctypes.data
        stops = symbols + 4 * (length + 2)
        taken = symbols + 8 * (length + 2)  # 0, or at its first symbol a token's end and rank
        ranks = symbols + 12 * (length + 2)
        heap = symbols + 16 * (length + 2)
        count = np.int64(0)
        at = np.int64(0)
        while at < length:
            character, character_size = decode(begin + at)
            store_u32(symbols + 4 * count, np.uint32(character))
            at += character_size
            store_u32(stops + 4 * count, np.uint32(at))
            count += 1
        store_u32(symbols + 4 * count, np.uint32(END))
        store_u32(stops + 4 * count, np.uint32(length))
        count += 1
        for i in range(count):
            store_u32(taken + 4 * i, np.uint32(0))
        size = np.int64(0)
        for i in range(count):
            rank, end = best_token_at(symbols, taken, np.int64(i), count, trie)
            if rank != np.uint64(NO_TOKEN):
                push(heap, size, (rank << POSITION_BITS) | np.uint64(i))
                size += 1
        while size > 0:
            item = pop(heap, size)
            size -= 1
            at = np.int64(item & POSITION_MASK)
            rank, end = best_token_at(symbols, taken, at, count, trie)
            if rank == item >> POSITION_BITS:
                for i in range(at, end):
                    store_u32(taken + 4 * i, np.uint32(end))
                store_u32(ranks + 4 * at, np.uint32(rank))
            elif rank != np.uint64(NO_TOKEN):
                push(heap, size, (rank << POSITION_BITS) | np.uint64(at))
                size += 1
        at = np.int64(0)
        while at < count:
            end = np.int64(load_u32(taken + 4 * at))
            if end > 0:
                piece = id_of_rank[np.int64(load_u32(ranks + 4 * at))]
            else:
                piece = np.uint32(unknown)
                end = at + 1
                while end < count and load_u32(taken + 4 * end) == 0:
                    end += 1
            ids[total] = piece
            ends[total] = load_u32(stops + 4 * (end - 1))
            total += 1
            at = end
        edges[word + 1] = total
