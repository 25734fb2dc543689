"""Hash tables of word counts, and the loop that counts the words of a text."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    is_marked,
    let_others_run,
    load_acquire,
    load_u64,
    prefetch,
    store_release,
    store_u64,
    take_if_zero,
)
from bpeline.tokenizer_core.kernels.memory.records import Record, one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables import word_keys
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, HashKey, key_in, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.word_queue import (
    ENTRIES,
    HIGHS,
    LOWS,
    MOST_QUEUED,
    WORDS,
    Sought,
    queue_words,
)

# State of a table. Words keep the hash key when the table grows.
USED = np.dtype(
    [
        ("held", np.int64),  # 1 while a thread has locked the table, see `lock`
        ("words", np.int64),
        ("word_bytes", np.int64),  # of all of them
        ("arena_bytes", np.int64),  # in use
        ("limit", np.int64),  # words that fit without growing
        ("entries", np.int64),  # address
        ("slots", np.int64),  # number of entries
        ("arena", np.int64),  # address
        ("arena_size", np.int64),
        ("hash_key", np.uint64, (2,)),  # see `HashKey`
        ("apart", np.int64, (5,)),  # padding: tables of two threads share no cache line
    ]
)
Used = Annotated[NDArray[Any], one_record(USED)]
USED_BYTES = USED.itemsize
PATIENCE = 1 << 18  # polls of a locked table before yielding, less than a millisecond
POSITION_BYTES = 8  # of a long word's first position, before its bytes
AHEAD = 32  # entries that are prefetched at a time


class Table(NamedTuple):
    """A table of words: addresses, and its record ``used[number]``, see `USED`."""

    entries: I64
    shift: U64
    key: HashKey
    arena: I64
    used: Used
    number: I64


@kernel
def table_of(entries: U64s, arena: U8s, used: Used) -> Table:
    first, arena_first = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    return Table(
        first, word_keys.table_shift(entries), key_of(used), arena_first, used, np.int64(0)
    )


@kernel
def key_of(used: Used) -> HashKey:
    return HashKey(used[0].hash_key[0], used[0].hash_key[1])


@kernel
def table_at(used: Used, number: I64) -> Table:
    """The table of a record, which this thread has locked."""
    record: Record = used[number]
    return Table(record.entries, shift_for(record.slots), key_of(used), record.arena, used, number)


@kernel
def lock(used: Used, number: I64) -> None:
    """Lock a table. Other threads lock it for microseconds, or while it grows."""
    lock = np.int64(used.ctypes.data) + number * USED_BYTES
    looks = 0
    while not take_if_zero(lock, ONE):
        while load_acquire(lock) != ZERO:
            looks += 1
            if looks % PATIENCE == 0:
                let_others_run()


@kernel
def unlock(used: Used, number: I64) -> None:
    store_release(np.int64(used.ctypes.data) + number * USED_BYTES, ZERO)


@entry_kernel
def lock_table(used: Used, number: I64) -> None:
    lock(used, number)


@entry_kernel
def unlock_table(used: Used, number: I64) -> None:
    unlock(used, number)


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + word_keys.VALUE, load_u64(entry + word_keys.VALUE) + amount)


@kernel
def expect(table: Table, low: U64, high: U64) -> None:
    """Prefetch the first entry of a key."""
    prefetch(
        table.entries + np.int64((mix(low, high, table.key) >> table.shift) << word_keys.ENTRY_BITS)
    )


@kernel
def copy_eights(source: I64, target: I64, length: I64) -> None:
    """Copy ``length`` bytes, rounded up to a multiple of eight."""
    for done in range(0, length, 8):
        store_u64(target + done, load_u64(source + done))


@kernel
def arena_size(length: I64) -> I64:
    return ((length + 7) & ~7) + POSITION_BYTES


@kernel
def seek_word(table: Table, low: U64, high: U64, address: I64) -> I64:
    """The entry of a word, or the empty one where it belongs.

    ``address`` is that of the word, read only if it is long.
    """
    mixed = mix(low, high, table.key)
    long_words = table.arena + POSITION_BYTES
    return word_keys.find_entry(table.entries, table.shift, low, high, mixed, long_words, address)


@kernel
def put_word(
    table: Table, entry: I64, low: U64, high: U64, address: I64, count: U64, position: I64
) -> None:
    """Write a new word to an empty entry; table and arena have room for it.

    ``entry`` is from `seek_word`. Of the word, followed by seven readable bytes, ``address`` is
    read only if it is long.
    """
    used: Record = table.used[table.number]
    length = word_keys.key_length(high)
    place = position
    if high >= word_keys.LONG:
        place = used.arena_bytes
        used.arena_bytes = place + arena_size(length)
        store_u64(table.arena + place, np.uint64(position))
        copy_eights(address, table.arena + place + POSITION_BYTES, length)
    word_keys.put_entry(entry, low, high, count, np.uint64(place))
    used.words += 1
    used.word_bytes += length


@kernel
def first_position(table: Table, entry: I64, high: U64) -> I64:
    """Address of the first position of a word; ``high`` is the high part of its key."""
    return (
        entry + word_keys.PLACE
        if high < word_keys.LONG
        else table.arena + np.int64(load_u64(entry + word_keys.PLACE))
    )


@kernel
def add_word(table: Table, low: U64, high: U64, address: I64, count: U64, position: I64) -> None:
    """Add a count to a word, new or not, and lower its first position. See `put_word`."""
    entry = seek_word(table, low, high, address)
    if load_u64(entry + word_keys.HIGH) == ZERO:
        put_word(table, entry, low, high, address, count, position)
        return
    add_to(entry, count)
    first = first_position(table, entry, high)
    if np.int64(load_u64(first)) > position:
        store_u64(first, np.uint64(position))


# State of `count_marked`.
WALK = np.dtype(
    [
        ("span", np.int64),
        ("begin", np.int64),  # of the next pre-token, or `FRESH`
    ]
)
Walk = Annotated[NDArray[Any], one_record(WALK)]
FRESH = -1  # the span has not been started
NOWHERE = 1 << 62  # a place after all texts: the word was counted before
QUEUE = 512  # entries
CROWDED = QUEUE - MOST_QUEUED
ALL_COUNTED = -1  # no part


@kernel
def position_of(place: I64, anchors: I64Rows, origin: I64) -> I64:
    """Position in the corpus of byte ``place`` of a text; see `count_marked`."""
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
    """Add entries of the front or the queue to a table with room; resets their counts.

    The entries keep their words. A word's position is computed only if the word is new to the
    table, or if another thread met it in a later text.

    Args:
        entries, number, apart: address of the first entry, their number and distance in bytes.
        text: its address. anchors, origin, behind: see `count_marked`.
    """
    for index in range(min(number, AHEAD)):
        ahead = entries + index * apart
        expect(table, load_u64(ahead + word_keys.LOW), load_u64(ahead + word_keys.HIGH))
    entry = entries
    for index in range(number):
        if index + AHEAD < number:
            ahead = entry + AHEAD * apart
            expect(table, load_u64(ahead + word_keys.LOW), load_u64(ahead + word_keys.HIGH))
        count = load_u64(entry + word_keys.VALUE)
        if count != ZERO:
            place = np.int64(load_u64(entry + word_keys.PLACE))
            low, high = load_u64(entry + word_keys.LOW), load_u64(entry + word_keys.HIGH)
            target = seek_word(table, low, high, text + place)
            if load_u64(target + word_keys.HIGH) != ZERO:
                add_to(target, count)
                first = first_position(table, target, high)
                if np.int64(load_u64(first)) >= behind:
                    position = position_of(place, anchors, origin)
                    store_u64(first, min(load_u64(first), np.uint64(position)))
            else:
                position = position_of(place, anchors, origin)
                put_word(table, target, low, high, text + place, count, position)
            store_u64(entry + word_keys.VALUE, ZERO)
            store_u64(entry + word_keys.PLACE, np.uint64(NOWHERE))
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
    """Add a part's queue and front entries to its table; returns False without room.

    ``hot``, ``hot_entries`` and ``apart`` are front entries as in `add_entries`.
    """
    words = waiting[number, 0]
    for index in range(hot_entries):
        words += np.int64(load_u64(hot + index * apart + word_keys.VALUE) != ZERO)
    lock(parts, number)
    part: Record = parts[number]
    has_room = (
        part.words + words <= part.limit
        and part.arena_bytes + waiting[number, 1] <= part.arena_size
    )
    if has_room:
        first = np.int64(queue.ctypes.data) + ((number * QUEUE) << 5)
        table = table_at(parts, number)
        add_entries(
            first, waiting[number, 0], word_keys.ENTRY, text, anchors, origin, behind, table
        )
        add_entries(hot, hot_entries, apart, text, anchors, origin, behind, table)
        waiting[number, 0] = waiting[number, 1] = 0
    unlock(parts, number)
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
    """Count the pre-tokens of all spans.

    Returns a part to grow before the next call of this or `add_waiting`, or `ALL_COUNTED`. Then the
    front and the queues still hold counts; `add_waiting` adds them to the parts.

    Args:
        text: uint8, followed by PADDING bytes.
        starts: uint64 bitmap of pre-token starts, at least ``size // 64 + 1`` words.
        dropped: bitmap of starts whose pre-tokens are not counted; size 0 if there are none.
        spans: int64 ``[n, 2]``, half-open byte ranges, ascending.
        anchors: int64 ``[m, 2]``, m ≥ 1: from byte ``anchors[i, 0]`` of the text up to the next
            anchor, corpus positions are consecutive from ``origin + anchors[i, 1]``.
        origin: below 2⁶².
        behind: corpus position after this text.
        front: uint64 ``[4 · 2^b]``, a direct-mapped cache; zeroed before the first text. Between
            texts its counts are 0 and its words are in the parts.
        queue: uint64 ``[4 · QUEUE · p]``.
        waiting: int64 ``[p, 2]``: per part the number of queued entries and the bytes of arena that
            their long words need; zeros before each text.
        ahead: uint64 ``[QUEUE_BYTES / 8]``, zeros at first: see `word_queue`.
        state: one `WALK`; before each text zeros, with `FRESH` as begin.
        parts: p = 2^c ≤ 2^b records `USED`, each with room for more than QUEUE words.
    """
    walk = state[0]
    address = np.int64(text.ctypes.data)
    near, of_part = np.int64(front.ctypes.data), np.int64(len(parts) - 1)
    slots, any_length = np.uint64(word_keys.ENTRY * ((front.size >> 2) - 1)), np.int64(NOWHERE)
    first, key = np.int64(ahead.ctypes.data), key_of(parts)
    sought = Sought(first, near, slots, near, slots, key, any_length, any_length)
    queues = np.int64(queue.ctypes.data)
    most = np.int64(QUEUE) if walk.begin != FRESH else np.int64(0)  # longest queue of a part
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
                if load_u64(hot + word_keys.HIGH) == high and load_u64(hot + word_keys.LOW) == low:
                    add_to(hot, ONE)
                    continue
                part = ((hot - near) >> np.int64(word_keys.ENTRY_BITS)) & of_part
                tail = queues + ((part * QUEUE + waiting[part, 0]) << 5)
                waiting[part, 0] += 1
                most = max(most, waiting[part, 0])
                if high >= word_keys.LONG:  # the front would have to compare the text
                    word_keys.put_entry(tail, low, high, ONE, np.uint64(place))
                    waiting[part, 1] += arena_size(word_keys.key_length(high))
                else:  # evict a word of the same part
                    word_keys.copy_entry(hot, tail)
                    word_keys.put_entry(hot, low, high, ONE, np.uint64(place))
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
    """Add queues and front counts to the parts, from part ``begin`` on.

    Returns a part that must grow, or `ALL_COUNTED`: then the queues are empty, and the front keeps
    its words with counts of 0.
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


_ANY_LENGTH = 1 << 62


@kernel
def seek_near(
    entry: I64, first: I64, behind: I64, low: U64, high: U64, text: I64, place: I64
) -> I64:
    """The entry of a word, or the empty one where it belongs, from ``entry`` on.

    ``first`` and ``behind`` bound the table; ``place`` is the offset of the word in ``text``.
    """
    while True:
        entry_high = load_u64(entry + word_keys.HIGH)
        if entry_high == high and load_u64(entry + word_keys.LOW) == low:
            if high < word_keys.LONG:
                return entry
            other = text + np.int64(load_u64(entry + word_keys.PLACE))
            if word_keys.same_bytes(other, text + place, word_keys.key_length(high)):
                return entry
        elif entry_high == ZERO:
            return entry
        entry += word_keys.ENTRY
        if entry == behind:
            entry = first


@entry_kernel
def count_apart(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    texts: I64Rows,
    table: U64s,
    ahead: U64s,
    hash_key: U64s,
    rows: I64Rows,
    ends: I64s,
) -> None:
    """Count the words of each text as separate rows, by first occurrence.

    Args:
        text, starts, dropped, spans: as in `count_marked`.
        texts: int64 ``[n, 3]``: half-open range of spans of each text, and the number of entries to
            use: a power of two above the number of its distinct words.
        table: uint64 ``[4 · m]``, m at least the most entries of a text; empty before and after.
        ahead, hash_key: see `count_marked` and `HASH_KEY`.
        rows: int64 ``[m, 3]``, one more than there are pre-tokens: receives the first position,
            length and count of each word.
        ends: int64 ``[n]``: receives the number of rows up to the end of each text.
    """
    address, first = np.int64(text.ctypes.data), np.int64(table.ctypes.data)
    queue, key = np.int64(ahead.ctypes.data), key_in(hash_key)
    drops, any_length = dropped.size > 0, np.int64(_ANY_LENGTH)
    row = np.int64(0)
    for number in range(len(texts)):
        first_span, end_span = texts[number, 0], texts[number, 1]
        bytes_ = texts[number, 2] * word_keys.ENTRY
        slots, table_end = np.uint64(bytes_ - word_keys.ENTRY), first + bytes_
        sought = Sought(queue, first, slots, first, slots, key, any_length, any_length)
        first_row = row
        for span in range(first_span, end_span):
            begin, end = spans[span, 0], spans[span, 1]
            while begin < end:
                words, begin = queue_words(address, starts, begin, end, sought)
                for word in range(queue, queue + 8 * words, 8):
                    place = np.int64(load_u64(word + WORDS)) - address
                    if drops and is_marked(dropped, place):
                        continue
                    low, high = load_u64(word + LOWS), load_u64(word + HIGHS)
                    entry = np.int64(load_u64(word + ENTRIES))
                    entry = seek_near(entry, first, table_end, low, high, address, place)
                    if load_u64(entry + word_keys.HIGH) != ZERO:
                        add_to(entry, ONE)
                        continue
                    word_keys.put_entry(entry, low, high, ONE, np.uint64(place))
                    rows[row, 0] = entry
                    row += 1
        for done in range(first_row, row):
            entry = rows[done, 0]
            rows[done, 0] = np.int64(load_u64(entry + word_keys.PLACE))
            rows[done, 1] = word_keys.key_length(load_u64(entry + word_keys.HIGH))
            rows[done, 2] = np.int64(load_u64(entry + word_keys.VALUE))
            store_u64(entry + word_keys.HIGH, ZERO)
        ends[number] = row


@entry_kernel
def copy_words(text: U8s, rows: I64Rows, offsets: I64s, word_bytes: U8s) -> None:
    """Copy the words of rows, see `count_apart`, one after the other.

    ``offsets`` [n + 1] are the bounds of words; ``word_bytes`` has eight bytes more than they need.
    """
    source, target = np.int64(text.ctypes.data), np.int64(word_bytes.ctypes.data)
    for row in range(len(offsets) - 1):
        copy_eights(source + rows[row, 0], target + offsets[row], rows[row, 1])
