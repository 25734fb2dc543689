"""Word counts as rows, into tables of words and out of them; never allocates."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.counting.word_table import (
    AHEAD,
    POSITION_BYTES,
    Used,
    add_word,
    copy_eights,
    expect,
    seek_word,
    table_of,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u8, load_u64, prefetch, store_u64
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
def take_entries(
    entries: U64s, arena: U8s, target: U64s, shift: I64, positions: I64s, lengths: I64s
) -> None:
    """Copy the entries in use one after the other, and tell what rows are ordered and placed by.

    Args:
        entries, arena: of a table of n words.
        target: uint64 ``[4 · n]``.
        shift: what to add to the places of long words.
        positions, lengths: int64 ``[n]``: first positions, and bytes of each word.
    """
    entry, bytes_ = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    to, row = np.int64(target.ctypes.data), np.int64(0)
    for _ in range(entries.size >> 2):
        high = load_u64(entry + HIGH)
        if high != ZERO:
            copy_entry(entry, to)
            place = np.int64(load_u64(entry + PLACE))
            positions[row], lengths[row] = place, key_length(high)
            if high >= LONG:
                positions[row] = np.int64(load_u64(bytes_ + place))
                store_u64(to + PLACE, np.uint64(place + shift))
            to += ENTRY
            row += 1
        entry += ENTRY


@entry_kernel
def keys_between(
    positions: I64s, lengths: I64s, first: I64, behind: I64, bits: I64, keys: I64s
) -> tuple[I64, I64]:
    """List rows whose positions are in a range, as ``position << bits | row``.

    Args:
        positions, lengths: int64 ``[n]``, see `take_entries`.
        first, behind: the range, half-open.
        keys: int64 ``[n + 1]``, receives them, and rubbish behind.

    Returns:
        How many there are, and bytes of their words.
    """
    listed, size = np.int64(0), np.int64(0)
    for row in range(len(positions)):  # no branch: nobody could predict it
        position = positions[row]
        is_between = np.int64((position >= first) & (position < behind))
        keys[listed] = position << bits | row
        listed += is_between
        size += lengths[row] * is_between
    return listed, size


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
    table: U64s,
    arena: U8s,
    entries: I64s,
    word_bytes: U8s,
    offsets: I64s,
    counts: I64s,
    begin: I64,
    end: I64,
) -> None:
    """Write the words of a table out, in the order of ``entries``.

    Args:
        table, arena: see `word_table`.
        entries: int64 ``[words]``, numbers of entries in use.
        word_bytes: uint8.
        offsets: int64 ``[words + 1]``. counts: int64 ``[words]``.
        begin: where in ``word_bytes`` the first word is written.
        end: what is behind stays as it is. That is quicker for words which end `ROOM` bytes before.
    """
    main, bytes_ = np.int64(table.ctypes.data), np.int64(arena.ctypes.data)
    target = np.int64(word_bytes.ctypes.data)
    offset = begin
    offsets[0] = begin
    for row in range(len(entries)):
        if row + AHEAD < len(entries):
            prefetch(main + (entries[row + AHEAD] << 5))
        entry = main + (entries[row] << 5)
        high = load_u64(entry + HIGH)
        length = key_length(high)
        source = entry + LOW
        if high >= LONG:
            source = bytes_ + np.int64(load_u64(entry + PLACE)) + POSITION_BYTES
        if offset + length + ROOM > end:
            for index in range(length):
                word_bytes[offset + index] = load_u8(source + index)
        elif high < LONG:
            store_u64(target + offset, load_u64(entry + LOW))
            store_u64(target + offset + 8, high & NO_LENGTH)
        else:
            copy_eights(source, target + offset, length)
        offset += length
        counts[row] = np.int64(load_u64(entry + VALUE))
        offsets[row + 1] = offset
