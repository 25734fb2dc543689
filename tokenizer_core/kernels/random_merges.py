"""Merges that are left out at random (BPE-dropout), drawn as Python's ``random`` draws.

Mersenne Twister MT19937 and its doubles of 53 bits: Matsumoto & Nishimura 1998, their reference
``genrand_res53``. A state is what ``random.Random(seed).getstate()[1]`` holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.character_merges import symbols_of_word
from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.encode_word import NO_MERGE, RANK_SHIFT, Integer, find_merge
from bpeline.tokenizer_core.kernels.memory import load_u32, load_u64, store_u32, store_u64
from bpeline.tokenizer_core.kernels.symbol_tables import LOW_32

WORDS, SHIFTED = 624, 397
STATE = WORDS + 1  # the last entry is the position
SCRATCH_PER_SYMBOL = 8  # bytes


@kernel
def twist(state: NDArray[np.uint32]) -> None:
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
def next_number(state: NDArray[np.uint32]) -> Integer:
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
def next_double(state: NDArray[np.uint32]) -> float:
    """A number in [0, 1) as ``random.random()`` gives it."""
    high = np.int64(next_number(state) >> np.uint32(5))
    low = np.int64(next_number(state) >> np.uint32(6))
    return (np.float64(high) * 67108864.0 + np.float64(low)) / 9007199254740992.0


@kernel
def merge_at_random(
    text: NDArray[np.uint8],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
    single: NDArray[np.bool_],
    dropout: float,
    state: NDArray[np.uint32],
    marking: Integer,
    shift: Integer,
    table: NDArray[np.uint64],
    scratch: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    edges: NDArray[np.int64],
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
    pairs = table.ctypes.data
    merges = scratch.ctypes.data
    total = np.int64(0)
    edges[0] = 0
    for word in range(len(places)):
        symbols = ids.ctypes.data + 4 * total
        stops = ends.ctypes.data + 4 * total
        count = symbols_of_word(
            text.ctypes.data + places[word], lengths[word], marking, pairs, shift, symbols, stops
        )
        while count > 1 and not single[word]:
            best = NO_MERGE
            for i in range(count - 1):
                merge = NO_MERGE
                if next_double(state) > dropout:
                    left, right = load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4)
                    merge = find_merge(pairs, shift, left, right)
                store_u64(merges + 8 * i, merge)
                if merge >> RANK_SHIFT < best >> RANK_SHIFT:
                    best = merge
            if best == NO_MERGE:
                break
            read = np.int64(0)
            written = np.int64(0)
            while read < count:
                if read + 1 < count and load_u64(merges + 8 * read) == best:
                    store_u32(symbols + 4 * written, np.uint32(best & LOW_32))
                    read += 1
                else:
                    store_u32(symbols + 4 * written, load_u32(symbols + 4 * read))
                store_u32(stops + 4 * written, load_u32(stops + 4 * read))
                read += 1
                written += 1
            count = written
        total += count
        edges[word + 1] = total
