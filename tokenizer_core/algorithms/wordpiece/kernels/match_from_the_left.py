"""Words in, pieces out, by the longest token at each place, from left to right."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.symbol_tables import INNER_ROOT, NO_TOKEN, ROOT
from bpeline.tokenizer_core.kernels.memory.addresses import load_u8, store_u32
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import decode
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    table_of_merges,
)


@kernel
def count_characters(word: I64, length: I64) -> I64:
    """Characters of a word: bytes that begin one."""
    count = np.int64(0)
    for i in range(length):
        if load_u8(word + i) & 0xC0 != 0x80:
            count += 1
    return count


@kernel
def pieces_from_the_left(word: I64, length: I64, table: PairTable, ids: I64, ends: I64) -> I64:
    """Write the longest token at each place, left to right; returns how many, −1 if one lacks."""
    begin = np.int64(0)
    count = np.int64(0)
    while begin < length:
        node = np.uint64(ROOT if begin == 0 else INNER_ROOT)
        at = begin
        found = np.uint64(NO_TOKEN)
        end = begin
        while at < length:
            character, size = decode(word + at)
            entry = find_merge(table, node, character)
            if entry == NO_MERGE:
                break
            at += size
            node = entry & LOW_32
            if entry >> RANK_SHIFT != np.uint64(NO_TOKEN):
                found = entry >> RANK_SHIFT
                end = at
        if found == np.uint64(NO_TOKEN):
            return np.int64(-1)
        store_u32(ids + 4 * count, np.uint32(found))
        store_u32(ends + 4 * count, np.uint32(end))
        count += 1
        begin = end
    return count


@entry_kernel
def match_from_the_left(
    text: U8s,
    places: I64s,
    lengths: I64s,
    most_characters: I64,
    table: U64s,
    hash_key: U64s,
    unknown: I64,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> None:
    """WordPiece: encode words, each by itself; ranks of the trie are token ids.

    Args:
        most_characters: words of more are unknown.
        unknown: the id of a word that cannot be covered from left to right.
        text, places, lengths, table, hash_key, ids, ends, edges: as for `merge_characters`.
    """
    trie = table_of_merges(table, hash_key)
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        begin = text.ctypes.data + places[word]
        target = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = np.int64(-1)
        short = lengths[word] <= most_characters
        if short or count_characters(begin, lengths[word]) <= most_characters:
            count = pieces_from_the_left(begin, lengths[word], trie, target, stops)
        if count < 0:
            store_u32(target, np.uint32(unknown))
            store_u32(stops, np.uint32(lengths[word]))
            count = np.int64(1)
        total += count
        edges[word + 1] = total
