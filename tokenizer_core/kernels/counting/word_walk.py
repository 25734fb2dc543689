"""Counting the pre-tokens of a text into a table of words. No files, no allocation.

`count_marked` walks the bitmap of pre-token starts and counts each pre-token. Nine of ten
pre-tokens of natural text are a few thousand frequent words; they are counted in a small
direct-mapped *front* table that stays in the processor's nearest caches. A word that must leave
it, because another one needs the place, waits in a short *queue*, which is added to the main table
all at once: so its entries are on the way from memory long before they are needed.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.counting.word_table import (
    AHEAD,
    Table,
    Used,
    add_to,
    arena_size,
    expect,
    put_word,
    seek_word,
    table_of,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64, trailing_zeros
from bpeline.tokenizer_core.kernels.memory.bitmaps import is_marked
from bpeline.tokenizer_core.kernels.memory.records import one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    ENTRY_BITS,
    HIGH,
    INLINE,
    LOW,
    PLACE,
    VALUE,
    copy_entry,
    long_word_key,
    put_entry,
    short_word_key,
    table_shift,
)

# Where `count_marked` stopped.
WALK = np.dtype(
    [
        ("span", np.int64),
        ("word", np.int64),  # of the bitmap, or `FRESH`
        ("begin", np.int64),  # of the pre-token that goes on there
        ("waiting", np.int64),  # entries in the queue
        ("waiting_bytes", np.int64),  # that their long words want of the arena
    ]
)
Walk = Annotated[NDArray[Any], one_record(WALK)]
FRESH = -1  # the span has not been begun
NOWHERE = np.uint64(1 << 62)  # a place behind all texts: its word is known from before
QUEUE = 256  # entries; 64 bytes of text can add 64 of them

MINUS_TWO = np.uint64(0xFFFFFFFFFFFFFFFE)
LOW_SIX = np.int64(63)


@kernel
def position_of(place: I64, anchors: I64Rows, origin: I64) -> I64:
    """Where byte ``place`` of a text stands in the corpus; see `count_marked`."""
    first, last = 0, len(anchors) - 1
    while first < last:
        middle = (first + last + 1) >> 1
        if anchors[middle, 0] <= place:
            first = middle
        else:
            last = middle - 1
    return origin + place + anchors[first, 1] - anchors[first, 0]


@kernel
def add_entries(
    entries: I64, number: I64, text: I64, anchors: I64Rows, origin: I64, table: Table
) -> None:
    """Add entries of front or queue to a table that has room for them; their counts become 0.

    They may stay where they are. A word enters the table when it first occurred in the corpus, so
    only then its position is looked for: that of a word that is there is smaller.
    """
    for index in range(min(number, AHEAD)):
        ahead = entries + (index << 5)
        expect(table, load_u64(ahead + LOW), load_u64(ahead + HIGH))
    entry = entries
    for index in range(number):
        if index + AHEAD < number:
            ahead = entry + (AHEAD << 5)
            expect(table, load_u64(ahead + LOW), load_u64(ahead + HIGH))
        count = load_u64(entry + VALUE)
        if count != ZERO:
            place = np.int64(load_u64(entry + PLACE))
            low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
            found = seek_word(table, low, high, text + place)
            if load_u64(found + HIGH) != ZERO:
                add_to(found, count)
            else:
                position = position_of(place, anchors, origin)
                put_word(table, found, low, high, text + place, count, position)
            store_u64(entry + VALUE, ZERO)
            store_u64(entry + PLACE, NOWHERE)
        entry += ENTRY


@kernel
def starts_between(starts: U64s, word: I64, begin: I64, end: I64) -> U64:
    """Bits of ``starts[word]`` behind ``begin``, with ``end`` as one more start."""
    bits = starts[word]
    if word == begin >> 6:
        bits &= MINUS_TWO << np.uint64(begin & LOW_SIX)
    if word == end >> 6:
        stop = ONE << np.uint64(end & LOW_SIX)
        bits = (bits & (stop - ONE)) | stop
    return bits


@entry_kernel
def count_marked(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    anchors: I64Rows,
    origin: I64,
    front: U64s,
    queue: U64s,
    state: Walk,
    table: U64s,
    arena: U8s,
    used: Used,
    limit: I64,
) -> bool:
    """Count the pre-tokens of all spans; False when table or arena could become too small.

    After False the caller makes room for what waits in the queue and calls again, or calls
    `add_waiting`. At the end front and queue still hold counts, which `add_waiting` adds to the
    table.

    Args:
        text: uint8, with PADDING bytes behind.
        starts: uint64 bitmap of pre-token starts, at least ``size // 64 + 1`` words.
        dropped: bitmap of those starts that begin no pre-token; size 0 when there are none.
        spans: int64 ``[n, 2]``, half-open byte ranges, ascending.
        anchors: int64 ``[m, 2]``, m ≥ 1: byte ``anchors[i, 0]`` of the text and those behind it,
            up to the next anchor, stand at ``origin + anchors[i, 1]`` and behind.
        origin: below 2⁶².
        front: uint64 ``[4 · 2^b]``, zeroed before the first text; between texts all its counts
            are 0, and its words are in the table.
        queue: uint64 ``[4 · QUEUE]``.
        state: one: see `WALK`; before each text zeros, and `FRESH` as word.
        table, arena, used: see `word_table`; the arena is uint8.
        limit: most words of the table, more than QUEUE.
    """
    walk = state[0]
    address = np.int64(text.ctypes.data)
    words = table_of(table, arena, used)
    near, near_shift = np.int64(front.ctypes.data), table_shift(front)
    waiting = np.int64(queue.ctypes.data)
    tail = waiting + (walk.waiting << 5)
    wanted = walk.waiting_bytes
    threshold = waiting + ((QUEUE - 64) << 5)
    drops = dropped.size > 0
    for span in range(walk.span, len(spans)):
        first, end = spans[span, 0], spans[span, 1]
        if first >= end:
            continue
        begin = first
        word = first >> 6
        if walk.word != FRESH:
            begin = walk.begin
            word = walk.word
            walk.word = FRESH
        while word <= end >> 6:
            if tail > threshold:
                number = (tail - waiting) >> 5
                held = used[0]
                if held.words + number > limit or held.arena_bytes + wanted > len(arena):
                    walk.span, walk.word, walk.begin = span, word, begin
                    walk.waiting, walk.waiting_bytes = number, wanted
                    return False
                add_entries(waiting, number, address, anchors, origin, words)
                tail = waiting
                wanted = np.int64(0)
            bits = starts_between(starts, word, first, end)
            while bits != ZERO:
                stop = (word << 6) + trailing_zeros(bits)
                bits &= bits - ONE
                if drops and is_marked(dropped, begin):
                    begin = stop
                    continue
                length = stop - begin
                if length > INLINE:  # the front would have to compare the text
                    low, high = long_word_key(address + begin, length, words.key)
                    put_entry(tail, low, high, ONE, np.uint64(begin))
                    tail += ENTRY
                    wanted += arena_size(length)
                else:
                    low, high = short_word_key(address + begin, length)
                    hot = near + np.int64((mix(low, high, words.key) >> near_shift) << ENTRY_BITS)
                    if load_u64(hot + HIGH) == high and load_u64(hot + LOW) == low:
                        add_to(hot, ONE)
                    else:
                        copy_entry(hot, tail)
                        tail += ENTRY
                        put_entry(hot, low, high, ONE, np.uint64(begin))
                begin = stop
            word += 1
    walk.span = len(spans)
    walk.waiting, walk.waiting_bytes = (tail - waiting) >> 5, wanted
    return True


@entry_kernel
def add_waiting(
    text: U8s,
    anchors: I64Rows,
    origin: I64,
    front: U64s,
    queue: U64s,
    state: Walk,
    table: U64s,
    arena: U8s,
    used: Used,
) -> None:
    """Add what waits in the queue and what the front counted to the table, which has room for it.

    The queue is empty afterwards. The front keeps its words, with counts of 0.
    """
    walk = state[0]
    words = table_of(table, arena, used)
    address = np.int64(text.ctypes.data)
    waiting, near = np.int64(queue.ctypes.data), np.int64(front.ctypes.data)
    add_entries(waiting, walk.waiting, address, anchors, origin, words)
    walk.waiting = walk.waiting_bytes = 0
    add_entries(near, front.size >> 2, address, anchors, origin, words)
