"""Counting of pre-tokens into a table of words: walk, grow, gather. No files, no allocation.

`count_marked` walks the bitmap of pre-token starts and counts each pre-token in a table (see
`word_keys`). Nine of ten pre-tokens of natural text are a few thousand frequent words; they are
counted in a small direct-mapped *front* table that stays in the processor's nearest caches and
is written back to the main table when another word needs the place.
"""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import (
    load_u8,
    load_u64,
    store_u8,
    store_u64,
    trailing_zeros,
)
from tokenizer_core.kernels.word_keys import (
    ALL,
    HIGH,
    I64,
    INLINE,
    LOW,
    ONE,
    PLACE,
    U64,
    VALUE,
    find_entry,
    key_length,
    mix,
    table_shift,
    word_key,
)

# What `count_marked` remembers between calls: int64 [5].
SPAN, WORD, BEGIN, USED, DISTINCT_BYTES = range(5)
STATE = 5
FRESH = -1  # state[WORD] when the span has not been begun

ZERO = np.uint64(0)
MINUS_TWO = np.uint64(0xFFFFFFFFFFFFFFFE)
SIX, FIVE, LOW_SIX = np.uint64(6), np.uint64(5), np.int64(63)


@kernel
def enter_word(entry: I64, low: U64, high: U64, place: I64, state: np.ndarray) -> None:
    """Fill an empty entry with a new word whose count is still zero."""
    store_u64(entry + LOW, low)
    store_u64(entry + HIGH, high)
    store_u64(entry + VALUE, ZERO)
    store_u64(entry + PLACE, np.uint64(place))
    state[USED] += 1
    state[DISTINCT_BYTES] += key_length(high)


@kernel
def entry_of(
    table: I64,
    shift: U64,
    text: I64,
    place: I64,
    low: U64,
    high: U64,
    mixed: U64,
    state: np.ndarray,
) -> I64:
    """Address of a word's entry in the main table; a new word is entered with count zero."""
    entry = find_entry(table, shift, low, high, mixed, text, text + place)
    if load_u64(entry + HIGH) == ZERO:
        enter_word(entry, low, high, place, state)
    return entry


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + VALUE, load_u64(entry + VALUE) + amount)


@kernel
def starts_between(starts: np.ndarray, word: I64, begin: I64, end: I64) -> U64:
    """Bits of ``starts[word]`` behind ``begin``, with ``end`` as one more start."""
    bits = starts[word]
    if word == begin >> 6:
        bits &= MINUS_TWO << np.uint64(begin & LOW_SIX)
    if word == end >> 6:
        stop = ONE << np.uint64(end & LOW_SIX)
        bits = (bits & (stop - ONE)) | stop
    return bits


@kernel
def count_marked(
    text: np.ndarray,
    starts: np.ndarray,
    spans: np.ndarray,
    table: np.ndarray,
    front: np.ndarray,
    state: np.ndarray,
    limit: I64,
) -> bool:
    """Count the pre-tokens of all spans; False when the table holds ``limit`` words or more.

    After False the caller writes the front back (`write_back`), grows the table (`move_words`)
    and calls again with the same state.

    Args:
        text: uint8, with PADDING bytes behind.
        starts: uint64 bitmap of pre-token starts, at least ``size // 64 + 1`` words.
        spans: int64 ``[n, 2]``, half-open byte ranges, ascending.
        table, front: uint64 ``[4 · 2^b]``, zeroed before the first call.
        state: int64 ``[STATE]``; ``[0, FRESH, 0, 0, 0]`` before the first call.
        limit: words; at least 64 entries must remain above it, because it is checked once for
            every 64 bytes of text.
    """
    address = text.ctypes.data
    main, shift = table.ctypes.data, table_shift(table)
    near, near_shift = front.ctypes.data, table_shift(front)
    for span in range(state[SPAN], len(spans)):
        first, end = spans[span, 0], spans[span, 1]
        if first >= end:
            continue
        begin = first
        word = first >> 6
        if state[WORD] != FRESH:
            begin = state[BEGIN]
            word = state[WORD]
            state[WORD] = FRESH
        while word <= end >> 6:
            if state[USED] >= limit:
                state[SPAN], state[WORD], state[BEGIN] = span, word, begin
                return False
            bits = starts_between(starts, word, first, end)
            while bits != ZERO:
                stop = (word << 6) + trailing_zeros(bits)
                bits &= bits - ONE
                low, high = word_key(address + begin, stop - begin)
                mixed = mix(low, high)
                hot = near + np.int64((mixed >> near_shift) << FIVE)
                if load_u64(hot + HIGH) == high and load_u64(hot + LOW) == low:
                    add_to(hot, ONE)
                else:
                    entry = entry_of(main, shift, address, begin, low, high, mixed, state)
                    if stop - begin > INLINE:
                        add_to(entry, ONE)  # the front would have to compare the text
                    else:
                        if load_u64(hot + HIGH) != ZERO:
                            add_to(np.int64(load_u64(hot + PLACE)), load_u64(hot + VALUE))
                        store_u64(hot + LOW, low)
                        store_u64(hot + HIGH, high)
                        store_u64(hot + VALUE, ONE)
                        store_u64(hot + PLACE, np.uint64(entry))
                begin = stop
            word += 1
    state[SPAN] = len(spans)
    return True


@kernel
def write_back(front: np.ndarray) -> None:
    """Add the counts of the front table to the main table and empty it.

    The front keeps addresses of main entries: the main table must not have moved.
    """
    hot = front.ctypes.data
    for _ in range(front.size >> 2):
        if load_u64(hot + HIGH) != ZERO:
            add_to(np.int64(load_u64(hot + PLACE)), load_u64(hot + VALUE))
            store_u64(hot + HIGH, ZERO)
        hot += 32


@kernel
def move_words(table: np.ndarray, larger: np.ndarray) -> None:
    """Enter every word of a table into a larger, zeroed one."""
    entry = table.ctypes.data
    target, shift = larger.ctypes.data, table_shift(larger)
    mask = ALL >> shift
    for _ in range(table.size >> 2):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            slot = mix(low, high) >> shift
            while load_u64(target + np.int64(slot << FIVE) + HIGH) != ZERO:
                slot = (slot + ONE) & mask
            place = target + np.int64(slot << FIVE)
            store_u64(place + LOW, low)
            store_u64(place + HIGH, high)
            store_u64(place + VALUE, load_u64(entry + VALUE))
            store_u64(place + PLACE, load_u64(entry + PLACE))
        entry += 32


@kernel
def copy_bytes(source: I64, target: I64, length: I64) -> None:
    done = 0
    while done + 8 <= length:
        store_u64(target + done, load_u64(source + done))
        done += 8
    while done < length:
        store_u8(target + done, load_u8(source + done))
        done += 1


@kernel
def gather_table(
    text: np.ndarray,
    table: np.ndarray,
    word_bytes: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    first_positions: np.ndarray,
) -> None:
    """Write the words of a table out, in the order of its entries.

    Args:
        text: the text that was counted.
        word_bytes: uint8 ``[state[DISTINCT_BYTES]]``.
        offsets: int64 ``[state[USED] + 1]``; counts, first_positions: int64 ``[state[USED]]``.
    """
    entry = table.ctypes.data
    source, target = text.ctypes.data, word_bytes.ctypes.data
    row = 0
    offset = 0
    offsets[0] = 0
    for _ in range(table.size >> 2):
        high = load_u64(entry + HIGH)
        if high != ZERO:
            length = key_length(high)
            place = np.int64(load_u64(entry + PLACE))
            copy_bytes(source + place, target + offset, length)
            offset += length
            counts[row] = np.int64(load_u64(entry + VALUE))
            first_positions[row] = place
            row += 1
            offsets[row] = offset
        entry += 32
