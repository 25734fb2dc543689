"""Kernels that encode words: BPE-dropout, greedy encoding, WordPiece.

Random numbers equal those of Python's ``random`` (Mersenne Twister MT19937, 53-bit doubles by
``genrand_res53``, Matsumoto & Nishimura 1998). A state is ``random.Random(seed).getstate()[1]``.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import POSITION_BITS, POSITION_MASK
from bpeline.tokenizer_core.kernels.encoding.superword_merges import symbols_of_word
from bpeline.tokenizer_core.kernels.encoding.token_tables import END, INNER_ROOT, NO_TOKEN, ROOT
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import (
    F64,
    I64,
    U64,
    Flags,
    I64s,
    Int,
    U8s,
    U32s,
    U64s,
)
from bpeline.tokenizer_core.kernels.scanning.characters import decode
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    LOW_32,
    NO_MERGE,
    RANK_SHIFT,
    PairTable,
    find_merge,
    pop,
    push,
    table_of_merges,
)

WORDS, SHIFTED = 624, 397
STATE = WORDS + 1  # the last entry is the position
SCRATCH_OF_RANDOM, SCRATCH_OF_ANYWHERE = 8, 24  # bytes per symbol


@kernel
def twist(state: U32s) -> None:
    for i in range(WORDS):
        mixed = (state[i] & np.uint32(0x80000000)) | (
            state[(i + 1) % WORDS] & np.uint32(0x7FFFFFFF)
        )
        turned = mixed >> np.uint32(1)
        if mixed & np.uint32(1):
            turned ^= np.uint32(0x9908B0DF)
        state[i] = state[(i + SHIFTED) % WORDS] ^ turned
    state[WORDS] = np.uint32(0)


@kernel
def next_number(state: U32s) -> Int:
    if state[WORDS] >= np.uint32(WORDS):
        twist(state)
    number = state[np.int64(state[WORDS])]
    state[WORDS] += np.uint32(1)
    number ^= number >> np.uint32(11)
    number ^= (number << np.uint32(7)) & np.uint32(0x9D2C5680)
    number ^= (number << np.uint32(15)) & np.uint32(0xEFC60000)
    return np.uint32(number ^ (number >> np.uint32(18)))


@kernel
def next_double(state: U32s) -> float:
    """The next number in [0, 1), as from ``random.random()``."""
    high = np.int64(next_number(state) >> np.uint32(5))
    low = np.int64(next_number(state) >> np.uint32(6))
    return (np.float64(high) * 67108864.0 + np.float64(low)) / 9007199254740992.0


@kernel
def _write_merge(symbols: I64, ends: I64, merges: U64, count: I64, best: U64) -> I64:
    """Apply a merge at all its places; return the number of symbols left."""
    read, written = np.int64(0), np.int64(0)
    while read < count:
        if read + 1 < count and load_u64(merges + 8 * read) == best:
            store_u32(symbols + 4 * written, np.uint32(best & LOW_32))
            read += 1
        else:
            store_u32(symbols + 4 * written, load_u32(symbols + 4 * read))
            store_u64(merges + 8 * written, load_u64(merges + 8 * read))
        store_u32(ends + 4 * written, load_u32(ends + 4 * read))
        read += 1
        written += 1
    return written


@entry_kernel
def merge_at_random(
    text: U8s,
    places: I64s,
    lengths: I64s,
    single: Flags,
    dropout: F64,
    state: U32s,
    marking: I64,
    table: U64s,
    hash_key: U64s,
    scratch: U64s,
    ids: U32s,
    ends: U32s,
    edges: I64s,
) -> None:
    """Encode words with BPE-dropout: each step skips every pair with a probability.

    The step applies the best of the remaining merges at all its remaining places; if none remains,
    the word is done. Draws the same numbers in the same order as ``subword-nmt``.

    Args:
        single: bool ``[n]``, words of one character, which draw no number.
        state: uint32 ``[STATE]``, updated.
        scratch: uint64, `SCRATCH_OF_RANDOM` bytes for each byte of the longest word, plus 1.
        others: as for `merge_characters`; ids of unknown characters are not those of a token.
    """
    pairs = table_of_merges(table, hash_key)
    merges = scratch.ctypes.data
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        symbols = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        begin = text.ctypes.data + places[word]
        count = symbols_of_word(begin, lengths[word], marking, pairs, symbols, stops)
        while count > 1 and not single[word]:
            best = NO_MERGE
            for i in range(count - 1):
                merge = NO_MERGE
                if next_double(state) > dropout:
                    left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
                    merge = find_merge(pairs, left, right)
                store_u64(merges + 8 * i, merge)
                if merge >> RANK_SHIFT < best >> RANK_SHIFT:
                    best = merge
            if best == NO_MERGE:
                break
            count = _write_merge(symbols, stops, merges, count, best)
        total += count
        edges[word + 1] = total


@kernel
def best_token_at(
    symbols: U64, taken: I64, begin: I64, count: I64, table: PairTable
) -> tuple[U64, I64]:
    """Rank and end of the best token at a place, up to what is taken; or `NO_TOKEN`."""
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
    """Encode words greedily: the best-ranked token that occurs anywhere comes first.

    Equals the recursion "find it, then do the same left and right of it": candidates (rank, place)
    are accepted in order unless they overlap accepted ones. Each place has one candidate; if it
    overlaps, the best one that fits replaces it.

    Args:
        unknown: the id of each stretch that no token covers.
        scratch: uint64, `SCRATCH_OF_ANYWHERE` bytes for each byte of the longest word, plus 2.
        others: as for `merge_characters`.
    """
    trie = table_of_merges(table, hash_key)
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        begin = text.ctypes.data + places[word]
        length = lengths[word]
        symbols = scratch.ctypes.data
        stops = symbols + 4 * (length + 2)
        taken = symbols + 8 * (length + 2)  # 0, or the end of the token that covers the symbol
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


@kernel
def count_characters(word: I64, length: I64) -> I64:
    count = np.int64(0)
    for i in range(length):
        if load_u8(word + i) & 0xC0 != 0x80:
            count += 1
    return count


@kernel
def pieces_from_the_left(word: I64, length: I64, table: PairTable, ids: I64, ends: I64) -> I64:
    """Write the longest token at each place; return their number, or −1."""
    begin = np.int64(0)
    count = np.int64(0)
    while begin < length:
        node = np.uint64(ROOT if begin == 0 else INNER_ROOT)
        at = begin
        token = np.uint64(NO_TOKEN)
        end = begin
        while at < length:
            character, size = decode(word + at)
            entry = find_merge(table, node, character)
            if entry == NO_MERGE:
                break
            at += size
            node = entry & LOW_32
            if entry >> RANK_SHIFT != np.uint64(NO_TOKEN):
                token = entry >> RANK_SHIFT
                end = at
        if token == np.uint64(NO_TOKEN):
            return np.int64(-1)
        store_u32(ids + 4 * count, np.uint32(token))
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
    """Encode words by WordPiece; ranks in the trie are token ids.

    Args:
        unknown: the id of longer words, and of those that tokens cannot cover from left to right.
        others: as for `merge_characters`.
    """
    trie = table_of_merges(table, hash_key)
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        begin = text.ctypes.data + places[word]
        target = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = np.int64(-1)
        is_short = lengths[word] <= most_characters
        if is_short or count_characters(begin, lengths[word]) <= most_characters:
            count = pieces_from_the_left(begin, lengths[word], trie, target, stops)
        if count < 0:
            store_u32(target, np.uint32(unknown))
            store_u32(stops, np.uint32(lengths[word]))
            count = np.int64(1)
        total += count
        edges[word + 1] = total
