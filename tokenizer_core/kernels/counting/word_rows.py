"""Word counts as rows, into tables of words and out of them; never allocates."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.counting.word_table import (
    AHEAD,
    POSITION_BYTES,
    Used,
    add_to,
    add_word,
    copy_eights,
    expect,
    seek_word,
    table_of,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, prefetch, store_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ZERO
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    HIGH,
    LONG,
    LOW,
    PLACE,
    VALUE,
    copy_entry,
    key_length,
    word_key,
)

NO_LENGTH = ALL >> np.uint64(8)  # of the key's upper half: all but the length
DIGIT_BITS = 11  # 2,048 places to write to stay in the nearest cache
ROOM = 16  # bytes that may be written behind the last word


@entry_kernel
def add_rows(
    word_bytes: U8s,
    offsets: I64s,
    counts: I64s,
    first_positions: I64s,
    table: U64s,
    arena: U8s,
    used: Used,
) -> None:
    """Add rows to a table that has room for all of them.

    Args:
        word_bytes: uint8 with 16 readable bytes behind the last word.
        offsets, counts, first_positions: int64 ``[n + 1]``, ``[n]``, ``[n]``.
        table, arena, used: see `word_table`.
    """
    source = np.int64(word_bytes.ctypes.data)
    words = table_of(table, arena, used)
    for index in range(len(counts)):
        if index + AHEAD < len(counts):
            begin, end = offsets[index + AHEAD], offsets[index + AHEAD + 1]
            low, high = word_key(source + begin, end - begin, words.key)
            expect(words, low, high)
        address = source + offsets[index]
        low, high = word_key(address, offsets[index + 1] - offsets[index], words.key)
        count, position = np.uint64(counts[index]), first_positions[index]
        add_word(words, low, high, address, count, position)


@entry_kernel
def take_counts(
    word_bytes: U8s, offsets: I64s, counts: I64s, table: U64s, arena: U8s, used: Used
) -> None:
    """Move the counts of words that a table holds to the rows of the same words.

    Args:
        word_bytes, offsets: as for `add_rows`; each word has one row.
        counts: int64 ``[n]``; what the table counted is added, and 0 is left there.
        table, arena, used: see `word_table`.
    """
    source = np.int64(word_bytes.ctypes.data)
    words = table_of(table, arena, used)
    for index in range(len(counts)):
        if index + AHEAD < len(counts):
            begin, end = offsets[index + AHEAD], offsets[index + AHEAD + 1]
            low, high = word_key(source + begin, end - begin, words.key)
            expect(words, low, high)
        address = source + offsets[index]
        low, high = word_key(address, offsets[index + 1] - offsets[index], words.key)
        entry = seek_word(words, low, high, address)
        if load_u64(entry + HIGH) != ZERO:
            counts[index] += np.int64(load_u64(entry + VALUE))
            store_u64(entry + VALUE, ZERO)


@entry_kernel
def list_words(table: U64s, arena: U8s, entries: I64s, positions: I64s) -> None:
    """List what a table holds.

    Args:
        table, arena: see `word_table`.
        entries: int64 ``[words + 1]``, receives the numbers of the entries in use, and rubbish.
        positions: int64 ``[words]``, receives their first positions.
    """
    main, bytes_ = np.int64(table.ctypes.data), np.int64(arena.ctypes.data)
    listed = np.int64(0)
    for number in range(table.size >> 2):  # no branch: nobody could predict it
        entries[listed] = number
        listed += np.int64(load_u64(main + (number << 5) + HIGH) != ZERO)
    for row in range(len(positions)):
        if row + AHEAD < len(positions):
            prefetch(bytes_ + _arena_place(main + (entries[row + AHEAD] << 5)))
        entry = main + (entries[row] << 5)
        place = np.int64(load_u64(entry + PLACE))
        long = load_u64(entry + HIGH) >= LONG
        positions[row] = np.int64(load_u64(bytes_ + place)) if long else place


@entry_kernel
def join_counts(entries: U64s, arena: U8s, other: U64s, other_arena: U8s, used: Used) -> None:
    """Move the counts of words that another table of the same key holds as well to this one.

    Their count is 0 in the other one afterwards. Both tables are in the order of the same hash, so
    both are walked through, not jumped about in.

    Args:
        entries, arena: of this table.
        other, other_arena, used: of the other one.
    """
    others = table_of(other, other_arena, used)
    entry, bytes_ = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    for _ in range(entries.size >> 2):
        low, high = load_u64(entry + LOW), load_u64(entry + HIGH)
        if high != ZERO:
            place = bytes_ + np.int64(load_u64(entry + PLACE))
            found = seek_word(others, low, high, place + POSITION_BYTES)
            if load_u64(found + HIGH) != ZERO:
                add_to(entry, load_u64(found + VALUE))
                store_u64(found + VALUE, ZERO)
                mine, theirs = entry + PLACE, found + PLACE
                if high >= LONG:
                    mine, theirs = place, others.arena + np.int64(load_u64(theirs))
                if load_u64(theirs) < load_u64(mine):
                    store_u64(mine, load_u64(theirs))
        entry += ENTRY


@entry_kernel
def take_entries(entries: U64s, target: U64s, row: I64, shift: I64) -> tuple[I64, I64]:
    """Copy the entries that count something one after the other, from a row of ``target`` on.

    Args:
        entries: of a table.
        target: uint64 ``[4 · rows]``, with room for all of them.
        row: the first to write to.
        shift: what to add to the places of long words.

    Returns:
        The row after the last one; bytes of the words that were copied.
    """
    entry, first = np.int64(entries.ctypes.data), np.int64(target.ctypes.data)
    to, size = first + (row << 5), np.int64(0)
    for _ in range(entries.size >> 2):
        if load_u64(entry + VALUE) != ZERO:
            copy_entry(entry, to)
            size += key_length(load_u64(to + HIGH))
            if load_u64(to + HIGH) >= LONG:
                store_u64(to + PLACE, load_u64(to + PLACE) + np.uint64(shift))
            to += ENTRY
        entry += ENTRY
    return (to - first) >> 5, size


@kernel
def _arena_place(entry: I64) -> I64:
    """Where the arena holds a long word; 0 for short ones."""
    return np.int64(load_u64(entry + PLACE)) if load_u64(entry + HIGH) >= LONG else np.int64(0)


@entry_kernel
def sort_by_digit(numbers: I64s, target: I64s, shift: I64, places: I64s) -> None:
    """One pass of a radix sort, stable: order by the `DIGIT_BITS` bits from ``shift`` upwards.

    Args:
        numbers, target: int64 ``[n]``, not negative. places: int64 ``[2^DIGIT_BITS]``.
    """
    mask = np.int64(places.size - 1)
    for digit in range(places.size):
        places[digit] = 0
    for index in range(numbers.size):
        places[(numbers[index] >> shift) & mask] += 1
    begin = np.int64(0)
    for digit in range(places.size):
        begin, places[digit] = begin + places[digit], begin
    for index in range(numbers.size):
        digit = (numbers[index] >> shift) & mask
        target[places[digit]] = numbers[index]
        places[digit] += 1


@entry_kernel
def gather_rows(
    table: U64s, arena: U8s, entries: I64s, word_bytes: U8s, offsets: I64s, counts: I64s
) -> None:
    """Write the words of a table out, in the order of ``entries``.

    Args:
        table, arena: see `word_table`.
        entries: int64 ``[words]``, numbers of entries in use.
        word_bytes: uint8 with `ROOM` bytes behind the last word.
        offsets: int64 ``[words + 1]``. counts: int64 ``[words]``.
    """
    main, bytes_ = np.int64(table.ctypes.data), np.int64(arena.ctypes.data)
    target = np.int64(word_bytes.ctypes.data)
    offset = 0
    offsets[0] = 0
    for row in range(len(entries)):
        if row + AHEAD < len(entries):
            prefetch(main + (entries[row + AHEAD] << 5))
        entry = main + (entries[row] << 5)
        high = load_u64(entry + HIGH)
        length = key_length(high)
        if high < LONG:
            store_u64(target + offset, load_u64(entry + LOW))
            store_u64(target + offset + 8, high & NO_LENGTH)
        else:
            place = np.int64(load_u64(entry + PLACE)) + POSITION_BYTES
            copy_eights(bytes_ + place, target + offset, length)
        offset += length
        counts[row] = np.int64(load_u64(entry + VALUE))
        offsets[row + 1] = offset
