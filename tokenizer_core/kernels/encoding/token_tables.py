"""Tables of tokens and their merges; merges that cannot be used are dropped."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u64,
    store_u8,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I32s, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, key_in, mix
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable, packed_entry

INSIDE = 0xFFFF_FFFE  # left of (INSIDE, character) → its token
LAST = 0xFFFF_FFFD  # left of (LAST, character) → its token at the end of a word
END = 0x11_0000  # the end of a word, as a character beyond Unicode
UNKNOWN = 0x8000_0000  # added to a character without a token
ROOT, INNER_ROOT = 0, 1  # nodes of a trie: start of a word, and continuation inside a word
NO_TOKEN = 0xFFFF_FFFF  # rank of a trie node where no token ends


BYTES = 256  # lower indices are bytes
NOTHING = (1 << 20) - 1  # no token; indices are lower
MAX_TOKENS = NOTHING

THREE, SEVEN = np.uint64(3), np.uint64(7)
INDEX_BITS, INDEX_MASK = np.uint64(20), np.uint64(NOTHING)
HALF, LOWER_HALF = np.uint64(32), np.uint64(0xFFFF_FFFF)
# 2⁶⁴ / φ for Fibonacci hashing; the highest six bits select a bit of a set.
GOLDEN, TOP_SIX = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(58)

# A token is four uint64 in one cache line.
TOKEN = 32  # bytes
INFO = 0  # id (24 bits), length (20), the next shorter token that it begins with (20)
PARTS = 8  # the left part above the right one
JOINS, JOINED = 16, 24  # bit sets: tokens that may be joined to its end, and at its beginning
ID_MASK = np.uint64((1 << 24) - 1)
LENGTH_SHIFT, SHORTER_SHIFT = np.uint64(24), np.uint64(44)


@kernel
def place_in_filter(pairs: PairTable, mixed: U64) -> tuple[I64, U64]:
    """Address of a pair's byte in the filter after the slots, and its bit."""
    filter_begin = pairs.address + (np.int64(8) << (np.int64(64) - np.int64(pairs.shift)))
    return filter_begin + np.int64(mixed >> pairs.shift), (mixed >> (pairs.shift - THREE)) & SEVEN


@kernel
def token_of_pair(pairs: PairTable, left: I64, right: I64) -> I64:
    """Index of the token that a pair merges to, or `NOTHING`."""
    key = (np.uint64(left) << INDEX_BITS) | np.uint64(right)
    mixed = mix(key, ZERO, pairs.key)
    byte, bit = place_in_filter(pairs, mixed)
    if (np.uint64(load_u8(byte)) >> bit) & ONE == ZERO:
        return np.int64(NOTHING)
    entry = load_u64(packed_entry(pairs, key, mixed, INDEX_BITS))
    if entry == ZERO:  # checked first, because the key of two zero bytes is zero
        return np.int64(NOTHING)
    return np.int64(entry & INDEX_MASK)


@kernel
def bit_of(token: I64) -> U64:
    return ONE << ((np.uint64(token) * GOLDEN) >> TOP_SIX)


@kernel
def add_token(tokens: I64, token: I64, left: I64, right: I64) -> None:
    """Write the parts of the newest token and update the sets.

    After this merge its parts are gone, so the token inherits their sets as of before. Only if both
    parts are equal, `JOINED` includes this merge: of overlapping pairs the left is merged first.
    """
    row, of_left, of_right = tokens + TOKEN * token, tokens + TOKEN * left, tokens + TOKEN * right
    store_u64(row + PARTS, (np.uint64(left) << HALF) | np.uint64(right))
    store_u64(row + JOINS, load_u64(of_right + JOINS))
    store_u64(of_right + JOINED, load_u64(of_right + JOINED) | bit_of(right))
    store_u64(row + JOINED, load_u64(of_left + JOINED))
    store_u64(of_left + JOINS, load_u64(of_left + JOINS) | bit_of(right))


@kernel
def shorter_token(tokens: I64, token: I64) -> I64:
    """The next shorter token that a token begins with, or `NOTHING`."""
    return np.int64(load_u64(tokens + TOKEN * token + INFO) >> SHORTER_SHIFT)


@kernel
def length_of(tokens: I64, token: I64) -> I64:
    return np.int64((load_u64(tokens + TOKEN * token + INFO) >> LENGTH_SHIFT) & INDEX_MASK)


@kernel
def joins_of(tokens: I64, token: I64) -> U64:
    return load_u64(tokens + TOKEN * token + JOINS)


@kernel
def joined_at(tokens: I64, token: I64) -> U64:
    return load_u64(tokens + TOKEN * token + JOINED)


@kernel
def is_valid_pair(pairs: PairTable, tokens: I64, left: I64, right: I64) -> bool:
    """Whether merging leaves two stable tokens as they are."""
    sets = joins_of(tokens, left) & joined_at(tokens, right)
    return sets == ZERO or stay_together(pairs, tokens, left, right)


@kernel
def stay_together(pairs: PairTable, tokens: I64, left: I64, right: I64) -> bool:
    """`is_valid_pair`, by undoing merges.

    Each round considers the time before the later of the two tokens was created. Of equal tokens
    and of equal pairs the left one comes first: so a merge at the seam is harmless if it is as late
    as the left token, but not if it is as late as the right one.
    """
    limit = np.int64(NOTHING)
    while True:
        # Load both: a branch would be mispredicted half the time.
        of_left = np.int64(load_u64(tokens + TOKEN * left + PARTS) & LOWER_HALF)
        of_right = np.int64(load_u64(tokens + TOKEN * right + PARTS) >> HALF)
        if token_of_pair(pairs, left, right) < limit:
            return False
        later = left > right
        limit = left if later else right + 1
        if max(left, right) < BYTES:
            return True
        left = of_left if later else left
        right = right if later else of_right


@kernel
def rank_of(kept: I32s, index: I64) -> I64:
    """The rank of the merge that creates a token; −1 for a byte."""
    return np.int64(-1) if index < BYTES else np.int64(kept[index - BYTES])


@entry_kernel
def keep_merges(
    byte_ids: I64s,
    left: I64s,
    right: I64s,
    results: I64s,
    shift: U64,
    hash_key: U64s,
    indices: I32s,
    kept: I32s,
    pairs: U64s,
    tokens: U64s,
) -> I64:
    """Drop merges that are never used; the others are a proper list of stable tokens.

    A merge can be used only if earlier merges turn its token's bytes into its parts: while nothing
    crosses the ends of the token, the bytes in between are merged as if they stood alone. So a
    merge is kept if both parts were created before, stand together, and no other merge has created
    its token. A merge with a part that is created later may be used when that part appears, unless
    the token itself is created before: then the bytes in between are already the token. If it may
    be used, ranks may fall while a word is merged. Returns the number of kept merges, or −1 if
    ranks may fall.

    Args:
        left, right, results: int64 ``[n]``: ids of the parts and of the result, by rank.
        shift: 64 minus the base-2 logarithm of the number of slots.
        indices: int32 by id, −1: receives the index of each token.
        kept: int32, one per distinct result: receives the ranks of kept merges.
        pairs: uint64 ``[slots + slots / 8]``, zero, to be at most half full: receives left, right
            and result, 20 bits each; then a filter with one bit of a byte per slot, small enough
            for the cache, which rejects most pairs that do not merge.
        tokens: uint64 ``[4 · (256 + …)]``, zero, for bytes and distinct results: receives the parts
            and sets of each token.
    """
    table = PairTable(pairs.ctypes.data, shift, key_in(hash_key))
    rows = np.int64(tokens.ctypes.data)
    for byte in range(BYTES):
        indices[byte_ids[byte]] = byte
    number = np.int64(0)
    for rank in range(len(left)):
        first, second = np.int64(indices[left[rank]]), np.int64(indices[right[rank]])
        if first < 0 or second < 0 or indices[results[rank]] >= 0:
            continue
        if not is_valid_pair(table, rows, first, second):
            continue
        token = BYTES + number
        key = (np.uint64(first) << INDEX_BITS) | np.uint64(second)
        mixed = mix(key, ZERO, table.key)
        byte_address, bit = place_in_filter(table, mixed)
        store_u8(byte_address, np.uint8(np.uint64(load_u8(byte_address)) | (ONE << bit)))
        entry = packed_entry(table, key, mixed, INDEX_BITS)
        store_u64(entry, (key << INDEX_BITS) | np.uint64(token))
        add_token(rows, np.int64(token), first, second)
        indices[results[rank]] = token
        kept[number] = rank
        number += 1
    for rank in range(len(left)):
        first, second = np.int64(indices[left[rank]]), np.int64(indices[right[rank]])
        if first >= 0 and second >= 0:
            later = max(rank_of(kept, first), rank_of(kept, second))
            token = np.int64(indices[results[rank]])
            if later > rank and (token < 0 or rank_of(kept, token) > later):
                return np.int64(-1)
    return number


@entry_kernel
def measure_tokens(left: I64s, right: I64s, ends: I64s) -> None:
    """Write where each token ends in the text of `spell_tokens`: int64 ``[256 + n]``."""
    for byte in range(BYTES):
        ends[byte] = byte + 1
    for rank in range(len(left)):
        token = BYTES + rank
        length = np.int64(0)
        for part in (left[rank], right[rank]):
            length += ends[part] - (ends[part - 1] if part > 0 else 0)
        ends[token] = ends[token - 1] + length


@entry_kernel
def spell_tokens(left: I64s, right: I64s, ends: I64s, text: U8s) -> None:
    """Join all tokens in order of index: uint8 ``[ends[-1]]``."""
    for byte in range(BYTES):
        text[byte] = byte
    at = ends[BYTES - 1]
    for rank in range(len(left)):
        for part in (left[rank], right[rank]):
            begin = ends[part - 1] if part > 0 else np.int64(0)
            for place in range(begin, ends[part]):
                text[at] = text[place]
                at += 1
