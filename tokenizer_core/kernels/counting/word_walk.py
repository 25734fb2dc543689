"""Counting the pre-tokens of a text into a table of words. No files, no allocation.

`count_marked` walks the bitmap of pre-token starts and counts each pre-token. Nine of ten
pre-tokens of natural text are a few thousand frequent words; they are counted in a small
direct-mapped *front* table that stays in the processor's nearest caches. A word that must leave
it, because another one needs the place, waits in a short *queue*, which is added to the main table
all at once: so its entries are on the way from memory long before they are needed.

Main tables are one or several *parts*: the lowest bits of a word's place in the front number the
part that has it. Threads share all of them, and each has a front and a queue for each part of its
own.
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
    first_position,
    hold,
    key_of,
    let_go,
    put_word,
    seek_word,
    table_at,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.bitmaps import is_marked
from bpeline.tokenizer_core.kernels.memory.records import Record, one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    ENTRY_BITS,
    HIGH,
    LONG,
    LOW,
    PLACE,
    VALUE,
    copy_entry,
    key_length,
    put_entry,
)
from bpeline.tokenizer_core.kernels.tables.word_queue import (
    ENTRIES,
    HIGHS,
    LOWS,
    MOST_QUEUED,
    WORDS,
    Sought,
    queue_words,
)

# Where `count_marked` stopped.
WALK = np.dtype(
    [
        ("span", np.int64),
        ("begin", np.int64),  # of the next pre-token, or `FRESH`
    ]
)
Walk = Annotated[NDArray[Any], one_record(WALK)]
FRESH = -1  # the span has not been begun
NOWHERE = 1 << 62  # a place behind all texts: its word is known from before
QUEUE = 512  # entries
CROWDED = QUEUE - MOST_QUEUED
ALL_COUNTED = -1  # no part


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
    entries: I64,
    number: I64,
    apart: I64,
    text: I64,
    anchors: I64Rows,
    origin: I64,
    behind: I64,
    table: Table,
) -> None:
    """Add entries of front or queue to a table that has room for them; their counts become 0.

    They may stay where they are. A word of this text enters the table when it first occurred there,
    so its position is looked for only then, or when another thread met the word in a later text.

    Args:
        entries: the address of the first of them.
        number: how many.
        apart: bytes from one to the next.
        text: its address. anchors, origin: see `count_marked`.
        behind: positions in this text are below, those in later ones are not.
    """
    for index in range(min(number, AHEAD)):
        ahead = entries + index * apart
        expect(table, load_u64(ahead + LOW), load_u64(ahead + HIGH))
    entry = entries
    for index in range(number):
        if index + AHEAD < number:
            ahead = entry + AHEAD * apart
            expect(table, load_u64(ahead + LOW), load_u64(ahead + HIGH))
        count = load_u64(entry + VALUE)
        if count != ZERO:
            place = np.int64(load_u64(entry + PLACE))
            low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
            found = seek_word(table, low, high, text + place)
            if load_u64(found + HIGH) != ZERO:
                add_to(found, count)
                first = first_position(table, found, high)
                if np.int64(load_u64(first)) >= behind:
                    position = position_of(place, anchors, origin)
                    store_u64(first, min(load_u64(first), np.uint64(position)))
            else:
                position = position_of(place, anchors, origin)
                put_word(table, found, low, high, text + place, count, position)
            store_u64(entry + VALUE, ZERO)
            store_u64(entry + PLACE, np.uint64(NOWHERE))
        entry += apart


@kernel
def add_to_part(
    number: I64,
    text: I64,
    anchors: I64Rows,
    origin: I64,
    behind: I64,
    hot: I64,
    hot_entries: I64,
    apart: I64,
    queue: U64s,
    waiting: I64Rows,
    parts: Used,
) -> bool:
    """Add what waits for a part, and entries of the front; False where it has no room for all.

    Args:
        hot, hot_entries, apart: of the front, as for `add_entries`.
    """
    words = waiting[number, 0]
    for index in range(hot_entries):
        words += np.int64(load_u64(hot + index * apart + VALUE) != ZERO)
    hold(parts, number)
    part: Record = parts[number]
    has_room = (
        part.words + words <= part.limit
        and part.arena_bytes + waiting[number, 1] <= part.arena_size
    )
    if has_room:
        first = np.int64(queue.ctypes.data) + ((number * QUEUE) << 5)
        table = table_at(parts, number)
        add_entries(first, waiting[number, 0], ENTRY, text, anchors, origin, behind, table)
        add_entries(hot, hot_entries, apart, text, anchors, origin, behind, table)
        waiting[number, 0] = waiting[number, 1] = 0
    let_go(parts, number)
    return has_room


@entry_kernel
def count_marked(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    anchors: I64Rows,
    origin: I64,
    behind: I64,
    front: U64s,
    queue: U64s,
    waiting: I64Rows,
    ahead: U64s,
    state: Walk,
    parts: Used,
) -> I64:
    """Count the pre-tokens of all spans, or tell which part needs room for what waits for it.

    The caller makes room then and calls again, or calls `add_waiting`. At the end, which is
    `ALL_COUNTED`, front and queues still hold counts, which `add_waiting` adds to the parts.

    Args:
        text: uint8, with PADDING bytes behind.
        starts: uint64 bitmap of pre-token starts, at least ``size // 64 + 1`` words.
        dropped: bitmap of those starts that begin no pre-token; size 0 when there are none.
        spans: int64 ``[n, 2]``, half-open byte ranges, ascending.
        anchors: int64 ``[m, 2]``, m ≥ 1: byte ``anchors[i, 0]`` of the text and those behind it,
            up to the next anchor, stand at ``origin + anchors[i, 1]`` and behind.
        origin: below 2⁶².
        behind: positions in this text are below, those in later ones are not.
        front: uint64 ``[4 · 2^b]``, zeroed before the first text; between texts all its counts
            are 0, and its words are in the parts.
        queue: uint64 ``[4 · QUEUE · p]``.
        waiting: int64 ``[p, 2]``, entries in the queue of each part, and bytes that their long
            words want of its arena; zeros before each text.
        ahead: uint64 ``[QUEUE_BYTES / 8]``, zeros at first: see `word_queue`.
        state: one: see `WALK`; before each text zeros, and `FRESH` as begin.
        parts: p = 2^c ≤ 2^b records of tables, see `word_table`, each with room for more than
            QUEUE words.
    """
    walk = state[0]
    address = np.int64(text.ctypes.data)
    near, of_part = np.int64(front.ctypes.data), np.int64(len(parts) - 1)
    slots, any_length = np.uint64(ENTRY * ((front.size >> 2) - 1)), np.int64(NOWHERE)
    first, key = np.int64(ahead.ctypes.data), key_of(parts)
    sought = Sought(first, near, slots, near, slots, key, any_length, any_length)
    queues = np.int64(queue.ctypes.data)
    most = np.int64(QUEUE) if walk.begin != FRESH else np.int64(0)  # that wait for one part
    drops = dropped.size > 0
    for span in range(walk.span, len(spans)):
        begin, end = spans[span, 0], spans[span, 1]
        if walk.begin != FRESH:
            begin = walk.begin
            walk.begin = FRESH
        while begin < end:
            if most > CROWDED:
                for number in range(len(parts)):
                    if waiting[number, 0] > CROWDED and not add_to_part(
                        number, address, anchors, origin, behind, near, 0, 0, queue, waiting, parts
                    ):
                        walk.span, walk.begin = span, begin
                        return np.int64(number)
                most = np.int64(0)
            words, begin = queue_words(address, starts, begin, end, sought)
            for word in range(sought.queue, sought.queue + 8 * words, 8):
                place = np.int64(load_u64(word + WORDS)) - address
                if drops and is_marked(dropped, place):
                    continue
                low, high = load_u64(word + LOWS), load_u64(word + HIGHS)
                hot = np.int64(load_u64(word + ENTRIES))
                if load_u64(hot + HIGH) == high and load_u64(hot + LOW) == low:
                    add_to(hot, ONE)
                    continue
                part = ((hot - near) >> np.int64(ENTRY_BITS)) & of_part
                tail = queues + ((part * QUEUE + waiting[part, 0]) << 5)
                waiting[part, 0] += 1
                most = max(most, waiting[part, 0])
                if high >= LONG:  # the front would have to compare the text
                    put_entry(tail, low, high, ONE, np.uint64(place))
                    waiting[part, 1] += arena_size(key_length(high))
                else:  # a word of the same part goes
                    copy_entry(hot, tail)
                    put_entry(hot, low, high, ONE, np.uint64(place))
    walk.span = len(spans)
    return np.int64(ALL_COUNTED)


@entry_kernel
def add_waiting(
    text: U8s,
    anchors: I64Rows,
    origin: I64,
    behind: I64,
    front: U64s,
    queue: U64s,
    waiting: I64Rows,
    parts: Used,
    begin: I64,
) -> I64:
    """Add what waits in the queues and what the front counted to the parts, from one part on.

    Returns the part that has no room for what belongs there, or `ALL_COUNTED`: then the queues are
    empty, and the front keeps its words, with counts of 0.
    """
    address, near = np.int64(text.ctypes.data), np.int64(front.ctypes.data)
    entries, apart = (front.size >> 2) // len(parts), len(parts) << 5
    for number in range(begin, len(parts)):
        hot = near + (number << 5)
        if not add_to_part(
            number, address, anchors, origin, behind, hot, entries, apart, queue, waiting, parts
        ):
            return np.int64(number)
    return np.int64(ALL_COUNTED)
