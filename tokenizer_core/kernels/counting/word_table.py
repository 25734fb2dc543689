"""Words counted: the walk over a text, the table that it fills, and small files apart."""

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

# What a table holds, where, and the key of its hashes, which words keep when it grows.
USED = np.dtype(
    [
        ("held", np.int64),  # not 0 while a thread has it for itself, see `hold`
        ("words", np.int64),
        ("word_bytes", np.int64),  # of all of them
        ("arena_bytes", np.int64),  # in use
        ("limit", np.int64),  # words that it may hold without growing
        ("entries", np.int64),  # their address
        ("slots", np.int64),  # how many there are
        ("arena", np.int64),  # its address
        ("arena_size", np.int64),
        ("hash_key", np.uint64, (2,)),  # see `HashKey`
        ("apart", np.int64, (5,)),  # so that tables of two threads share no cache line
    ]
)
Used = Annotated[NDArray[Any], one_record(USED)]
USED_BYTES = USED.itemsize
PATIENCE = 1 << 18  # looks at what another thread has, less than a millisecond
POSITION_BYTES = 8  # of a long word's first position, before its bytes
AHEAD = 32  # entries that are on the way from memory while one is looked at


class Table(NamedTuple):
    """A table of words at addresses: entries, their `table_shift`, arena; and what is `USED`.

    That is the record of this number.
    """

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
    """The table that a record tells of, which this thread holds."""
    one: Record = used[number]
    return Table(one.entries, shift_for(one.slots), key_of(used), one.arena, used, number)


@kernel
def hold(used: Used, number: I64) -> None:
    """Wait until no other thread has a table, and have it: nobody else reads or writes it then.

    Others have it for microseconds, or while it grows.
    """
    held = np.int64(used.ctypes.data) + number * USED_BYTES
    looks = 0
    while not take_if_zero(held, ONE):
        while load_acquire(held) != ZERO:
            looks += 1
            if looks % PATIENCE == 0:
                let_others_run()


@kernel
def let_go(used: Used, number: I64) -> None:
    store_release(np.int64(used.ctypes.data) + number * USED_BYTES, ZERO)


@entry_kernel
def hold_table(used: Used, number: I64) -> None:
    """`hold`, for Python."""
    hold(used, number)


@entry_kernel
def let_table_go(used: Used, number: I64) -> None:
    """`let_go`, for Python."""
    let_go(used, number)


@kernel
def add_to(entry: I64, amount: U64) -> None:
    store_u64(entry + word_keys.VALUE, load_u64(entry + word_keys.VALUE) + amount)


@kernel
def expect(table: Table, low: U64, high: U64) -> None:
    """Start loading what a table holds where a key belongs."""
    prefetch(
        table.entries + np.int64((mix(low, high, table.key) >> table.shift) << word_keys.ENTRY_BITS)
    )


@kernel
def copy_eights(source: I64, target: I64, length: I64) -> None:
    """Copy ``length`` bytes and up to seven more."""
    for done in range(0, length, 8):
        store_u64(target + done, load_u64(source + done))


@kernel
def arena_size(length: I64) -> I64:
    """Bytes that a long word takes in the arena."""
    return ((length + 7) & ~7) + POSITION_BYTES


@kernel
def seek_word(table: Table, low: U64, high: U64, address: I64) -> I64:
    """The entry of a word, or the empty one where it belongs.

    Args:
        low, high: the word's key.
        address: the word itself; read only when it is long.
    """
    mixed = mix(low, high, table.key)
    long_words = table.arena + POSITION_BYTES
    return word_keys.find_entry(table.entries, table.shift, low, high, mixed, long_words, address)


@kernel
def put_word(
    table: Table, entry: I64, low: U64, high: U64, address: I64, count: U64, position: I64
) -> None:
    """Write a new word to the empty entry where it belongs; table and arena have room for it.

    Args:
        entry: from `seek_word`.
        address: the word itself, with seven readable bytes behind; read only when it is long.
        count, position: how often it occurred, and where first.
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
    """Where the first position of a word that ends its key in ``high`` is held: an address."""
    return (
        entry + word_keys.PLACE
        if high < word_keys.LONG
        else table.arena + np.int64(load_u64(entry + word_keys.PLACE))
    )


@kernel
def add_word(table: Table, low: U64, high: U64, address: I64, count: U64, position: I64) -> None:
    """Add a count to a word, new or not; its first position is the smaller one from now on.

    Args: see `put_word`.
    """
    entry = seek_word(table, low, high, address)
    if load_u64(entry + word_keys.HIGH) == ZERO:
        put_word(table, entry, low, high, address, count, position)
        return
    add_to(entry, count)
    held = first_position(table, entry, high)
    if np.int64(load_u64(held)) > position:
        store_u64(held, np.uint64(position))


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
            found = seek_word(table, low, high, text + place)
            if load_u64(found + word_keys.HIGH) != ZERO:
                add_to(found, count)
                first = first_position(table, found, high)
                if np.int64(load_u64(first)) >= behind:
                    position = position_of(place, anchors, origin)
                    store_u64(first, min(load_u64(first), np.uint64(position)))
            else:
                position = position_of(place, anchors, origin)
                put_word(table, found, low, high, text + place, count, position)
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
    """Add what waits for a part, and entries of the front; False where it has no room for all.

    Args:
        hot, hot_entries, apart: of the front, as for `add_entries`.
    """
    words = waiting[number, 0]
    for index in range(hot_entries):
        words += np.int64(load_u64(hot + index * apart + word_keys.VALUE) != ZERO)
    hold(parts, number)
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
    slots, any_length = np.uint64(word_keys.ENTRY * ((front.size >> 2) - 1)), np.int64(NOWHERE)
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
                else:  # a word of the same part goes
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


_ANY_LENGTH = 1 << 62


@kernel
def seek_near(
    entry: I64, first: I64, behind: I64, low: U64, high: U64, text: I64, place: I64
) -> I64:
    """The entry of a word, or the empty one where it belongs, from one entry on.

    Args:
        first, behind: addresses of the first entry, and behind the last one.
        text, place: its address, and where the word stands in it.
    """
    while True:
        found = load_u64(entry + word_keys.HIGH)
        if found == high and load_u64(entry + word_keys.LOW) == low:
            if high < word_keys.LONG:
                return entry
            other = text + np.int64(load_u64(entry + word_keys.PLACE))
            if word_keys.same_bytes(other, text + place, word_keys.key_length(high)):
                return entry
        elif found == ZERO:
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
    """Count the pre-tokens of each text, whose words become rows in the order of first sight.

    Args:
        text, starts, dropped, spans: as for `count_marked`.
        texts: int64 ``[n, 3]``: which spans each text has, half-open, and how many entries: a power
            of two, more than it can have distinct words.
        table: uint64 ``[4 · m]``, m at least the most entries of a text; no entry is in use, and
            none afterwards.
        ahead: uint64 ``[QUEUE_BYTES / 8]``, zeros at first: see `word_queue`.
        hash_key: `HASH_KEY`.
        rows: int64 ``[m, 3]``, one more than there are pre-tokens: receives of each word where it
            stands first, its length, and how often it occurs.
        ends: int64 ``[n]``: receives how many rows there are up to the end of each text.
    """
    address, first = np.int64(text.ctypes.data), np.int64(table.ctypes.data)
    queue, key = np.int64(ahead.ctypes.data), key_in(hash_key)
    drops, any_length = dropped.size > 0, np.int64(_ANY_LENGTH)
    row = np.int64(0)
    for number in range(len(texts)):
        first_span, behind_span = texts[number, 0], texts[number, 1]
        bytes_ = texts[number, 2] * word_keys.ENTRY
        slots, behind = np.uint64(bytes_ - word_keys.ENTRY), first + bytes_
        sought = Sought(queue, first, slots, first, slots, key, any_length, any_length)
        first_row = row
        for span in range(first_span, behind_span):
            begin, end = spans[span, 0], spans[span, 1]
            while begin < end:
                words, begin = queue_words(address, starts, begin, end, sought)
                for word in range(queue, queue + 8 * words, 8):
                    place = np.int64(load_u64(word + WORDS)) - address
                    if drops and is_marked(dropped, place):
                        continue
                    low, high = load_u64(word + LOWS), load_u64(word + HIGHS)
                    entry = np.int64(load_u64(word + ENTRIES))
                    entry = seek_near(entry, first, behind, low, high, address, place)
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
    """Copy the words of rows one after the other.

    Args:
        text, rows: as `count_apart` had and left them.
        offsets: int64 ``[n + 1]``: where each word begins, and the last one ends.
        word_bytes: uint8, with eight more bytes than the words have.
    """
    source, target = np.int64(text.ctypes.data), np.int64(word_bytes.ctypes.data)
    for row in range(len(offsets) - 1):
        copy_eights(source + rows[row, 0], target + offsets[row], rows[row, 1])
