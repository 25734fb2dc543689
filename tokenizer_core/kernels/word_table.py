"""Counting of pre-tokens into a table of words: walk, grow, gather. No files, no allocation.

`count_marked` walks the bitmap of pre-token starts and counts each pre-token in a table (see
`word_keys`). Nine of ten pre-tokens of natural text are a few thousand frequent words; they are
counted in a small direct-mapped *front* table that stays in the processor's nearest caches. A word
that must leave it, because another one needs the place, waits in a short *queue* while its entry of
the main table is on the way from memory; the queue is drained first in, first out, so the place
that an entry of the main table gets is that of the word's first occurrence.
"""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import (
    load_u8,
    load_u64,
    prefetch,
    store_u8,
    store_u64,
    trailing_zeros,
)
from tokenizer_core.kernels.word_keys import (
    ALL,
    HIGH,
    I64,
    LONG,
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

# What `count_marked` remembers between calls: int64 [STATE].
SPAN, WORD, BEGIN, USED, DISTINCT_BYTES, WAITING = range(6)
STATE = 6
FRESH = -1  # state[WORD] when the span has not been begun
QUEUE = 256  # entries; 64 bytes of text can add 64 of them

AHEAD = 16  # rows whose entries are on the way from memory

ZERO = np.uint64(0)
MINUS_TWO = np.uint64(0xFFFFFFFFFFFFFFFE)
SIX, FIVE, LOW_SIX = np.uint64(6), np.uint64(5), np.int64(63)


@kernel
def put_entry(entry: I64, low: U64, high: U64, value: U64, place: U64) -> None:
    store_u64(entry + LOW, low)
    store_u64(entry + HIGH, high)
    store_u64(entry + VALUE, value)
    store_u64(entry + PLACE, place)


@kernel
def copy_entry(source: I64, target: I64) -> None:
    put_entry(
        target,
        load_u64(source + LOW),
        load_u64(source + HIGH),
        load_u64(source + VALUE),
        load_u64(source + PLACE),
    )


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + VALUE, load_u64(entry + VALUE) + amount)


@kernel
def drain(entries: I64, number: I64, table: I64, shift: U64, text: I64, state: np.ndarray) -> None:
    """Add entries, whose values are counts, to a table that has room for all of them."""
    entry = entries
    for _ in range(number):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            address = text + np.int64(load_u64(entry + PLACE))
            found = find_entry(table, shift, low, high, mix(low, high), text, address)
            if load_u64(found + HIGH) == ZERO:
                copy_entry(entry, found)
                state[USED] += 1
                state[DISTINCT_BYTES] += key_length(high)
            else:
                add_to(found, load_u64(entry + VALUE))
        entry += 32


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
def is_marked(bitmap: np.ndarray, place: I64) -> bool:
    return (bitmap[place >> 6] >> np.uint64(place & LOW_SIX)) & ONE != ZERO


@kernel
def count_marked(
    text: np.ndarray,
    starts: np.ndarray,
    dropped: np.ndarray,
    spans: np.ndarray,
    table: np.ndarray,
    front: np.ndarray,
    queue: np.ndarray,
    state: np.ndarray,
    limit: I64,
) -> bool:
    """Count the pre-tokens of all spans; False when the table could come to hold ``limit`` words.

    After False the caller makes room (`move_words` into a larger table, or `empty_front` and
    `gather_rows`) and calls again with the same state. At the end the front and the queue still
    hold counts: see `empty_front`.

    Args:
        text: uint8, with PADDING bytes behind.
        starts: uint64 bitmap of pre-token starts, at least ``size // 64 + 1`` words.
        dropped: bitmap of those starts that begin no pre-token; size 0 when there are none.
        spans: int64 ``[n, 2]``, half-open byte ranges, ascending.
        table, front: uint64 ``[4 · 2^b]``, zeroed before the first call.
        queue: uint64 ``[4 · QUEUE]``.
        state: int64 ``[STATE]``; zeros and ``state[WORD] = FRESH`` before the first call.
        limit: words, more than QUEUE.
    """
    address = text.ctypes.data
    main, shift = table.ctypes.data, table_shift(table)
    near, near_shift = np.int64(front.ctypes.data), table_shift(front)
    waiting = np.int64(queue.ctypes.data)
    tail = waiting + (state[WAITING] << 5)
    threshold = waiting + ((QUEUE - 64) << 5)
    drops = dropped.size > 0
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
            if tail > threshold:
                number = (tail - waiting) >> 5
                if state[USED] + number > limit:
                    state[SPAN], state[WORD], state[BEGIN] = span, word, begin
                    state[WAITING] = number
                    return False
                drain(waiting, number, main, shift, address, state)
                tail = waiting
            bits = starts_between(starts, word, first, end)
            while bits != ZERO:
                stop = (word << 6) + trailing_zeros(bits)
                bits &= bits - ONE
                if drops and is_marked(dropped, begin):
                    begin = stop
                    continue
                low, high = word_key(address + begin, stop - begin)
                mixed = mix(low, high)
                hot = near + np.int64((mixed >> near_shift) << FIVE)
                held = load_u64(hot + HIGH)
                if held == high and load_u64(hot + LOW) == low:
                    add_to(hot, ONE)
                elif high >= LONG:  # the front would have to compare the text
                    put_entry(tail, low, high, ONE, np.uint64(begin))
                    prefetch(main + np.int64((mixed >> shift) << FIVE))
                    tail += 32
                else:
                    if held != ZERO:
                        copy_entry(hot, tail)
                        leaving = mix(load_u64(hot + LOW), held)
                        prefetch(main + np.int64((leaving >> shift) << FIVE))
                        tail += 32
                    put_entry(hot, low, high, ONE, np.uint64(begin))
                begin = stop
            word += 1
    state[SPAN] = len(spans)
    state[WAITING] = (tail - waiting) >> 5
    return True


@kernel
def empty_front(
    text: np.ndarray, front: np.ndarray, queue: np.ndarray, table: np.ndarray, state: np.ndarray
) -> None:
    """Add what waits in the queue and in the front to the main table, and empty both.

    The main table must have room for all of it.
    """
    main, shift = table.ctypes.data, table_shift(table)
    drain(queue.ctypes.data, state[WAITING], main, shift, text.ctypes.data, state)
    state[WAITING] = 0
    drain(front.ctypes.data, front.size >> 2, main, shift, text.ctypes.data, state)
    for index in range(front.size):
        front[index] = ZERO


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
            copy_entry(entry, target + np.int64(slot << FIVE))
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
def list_entries(table: np.ndarray, entries: np.ndarray, places: np.ndarray) -> None:
    """The numbers of the entries in use and the places of their words, both int64 ``[words]``."""
    address = table.ctypes.data
    row = 0
    for entry in range(table.size >> 2):
        if load_u64(address + (entry << 5) + HIGH) != ZERO:
            entries[row] = entry
            places[row] = np.int64(load_u64(address + (entry << 5) + PLACE))
            row += 1


@kernel
def gather_rows(
    text: np.ndarray,
    table: np.ndarray,
    entries: np.ndarray,
    word_bytes: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    first_positions: np.ndarray,
) -> None:
    """Write the words of a table out, in the order of ``entries``.

    Args:
        text: the text that was counted.
        entries: int64 ``[words]``, numbers of entries in use.
        word_bytes: uint8 ``[state[DISTINCT_BYTES]]``.
        offsets: int64 ``[words + 1]``; counts, first_positions: int64 ``[words]``.
    """
    address = table.ctypes.data
    source, target = text.ctypes.data, word_bytes.ctypes.data
    offset = 0
    offsets[0] = 0
    for row in range(len(entries)):
        if row + AHEAD < len(entries):
            prefetch(address + (entries[row + AHEAD] << 5))
        entry = address + (entries[row] << 5)
        length = key_length(load_u64(entry + HIGH))
        place = np.int64(load_u64(entry + PLACE))
        copy_bytes(source + place, target + offset, length)
        offset += length
        counts[row] = np.int64(load_u64(entry + VALUE))
        first_positions[row] = place
        offsets[row + 1] = offset
