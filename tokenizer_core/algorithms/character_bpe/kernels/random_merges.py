"""Merges that are left out at random (BPE-dropout), drawn as Python's ``random`` draws.

Mersenne Twister MT19937 and its doubles of 53 bits: Matsumoto & Nishimura 1998, their reference
``genrand_res53``. A state is what ``random.Random(seed).getstate()[1]`` holds.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.character_merges import symbols_of_word, write_merge
from bpeline.tokenizer_core.kernels.memory.addresses import load_u32, store_u64
from bpeline.tokenizer_core.kernels.memory.types import (
    F64,
    I64,
    Flags,
    I64s,
    Int,
    U8s,
    U32s,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    NO_MERGE,
    RANK_SHIFT,
    find_merge,
    table_of_merges,
)

WORDS, SHIFTED = 624, 397
STATE = WORDS + 1  # the last entry is the position
SCRATCH_PER_SYMBOL = 8  # bytes


@kernel
def twist(state: U32s) -> None:
    """The next 624 numbers."""
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
    """32 random bits as uint32."""
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
    """A number in [0, 1) as ``random.random()`` gives it."""
    high = np.int64(next_number(state) >> np.uint32(5))
    low = np.int64(next_number(state) >> np.uint32(6))
    return (np.float64(high) * 67108864.0 + np.float64(low)) / 9007199254740992.0


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
    """Encode words; before each step every pair of neighbours is left out with a probability.

    The step applies the best merge of the pairs that are left, at all its places that are left;
    no pair left ends the word. ``subword-nmt`` draws the same numbers in the same order.

    Args:
        single: bool ``[n]``: words of one character, which take no number.
        dropout: the probability. state: uint32 ``[STATE]``; goes on from call to call.
        scratch: uint64, `SCRATCH_PER_SYMBOL` bytes for each byte of the longest word, and 1 more.
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
            count = write_merge(symbols, stops, merges, count, best, np.int64(1))
        total += count
        edges[word + 1] = total
