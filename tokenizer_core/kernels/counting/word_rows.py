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
    table_of,
)
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u64,
    prefetch_to_read,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO
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

DIGIT_BITS = 11  # 2,048 places to write to stay in the nearest cache
ROOM = 32  # bytes that are copied of each word, so that there is no branch for most


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
            prefetch_to_read(_position_address(main + (entries[row + AHEAD] << 5), bytes_))
        address = _position_address(main + (entries[row] << 5), bytes_)
        positions[row] = np.int64(load_u64(address))


@entry_kernel
def pack_entries(entries: U64s, arena: U8s, positions: I64s) -> None:
    """Move the entries in use to the front, in their order, and list their first positions.

    Args:
        entries, arena: of a table of n words.
        positions: int64 ``[n]``.
    """
    entry, bytes_ = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    to, row = entry, np.int64(0)
    last = entry + (entries.size - 4) * 8
    while row < len(positions):  # no branch within: nobody could predict it
        prefetch_to_read(_position_address(min(entry + AHEAD * ENTRY, last), bytes_))
        position = load_u64(_position_address(entry, bytes_))
        is_used = np.int64(load_u64(entry + HIGH) != ZERO)
        copy_entry(entry, to)
        positions[row] = np.int64(position)
        to += ENTRY * is_used
        row += is_used
        entry += ENTRY


@entry_kernel
def count_shares(entries: U64s, positions: I64s, ranges: I64s, shift: I64, shares: I64Rows) -> None:
    """Count the words of a part in each range of positions, and their bytes.

    Args:
        entries: packed ones, of n words.
        positions: int64 ``[n]``.
        ranges: int64, the number of the range of positions p in item ``p >> shift``, ascending; of
            larger positions in the last one.
        shares: int64 ``[k, 2]``, zeros at first.
    """
    entry = np.int64(entries.ctypes.data)
    for row in range(len(positions)):
        number = _range_of(positions[row], ranges, shift)
        shares[number, 0] += 1
        shares[number, 1] += key_length(load_u64(entry + HIGH))
        entry += ENTRY


@entry_kernel
def share_rows(
    positions: I64s,
    ranges: I64s,
    shift: I64,
    part: I64,
    part_bits: I64,
    bits: I64,
    shares: I64Rows,
    keys: I64s,
) -> None:
    """Put the rows of a part beside those of other parts in the same range, to be sorted there.

    Args:
        positions, ranges, shift: as for `count_shares`.
        part, part_bits: its number, and how many bits that takes.
        bits: see `gather_rows`.
        shares: int64 ``[k, 2]``: where in ``keys`` the first row of each range goes; they move.
        keys: int64, receives ``position << bits | row << part_bits | part``.
    """
    for row in range(len(positions)):
        position = positions[row]
        number = _range_of(position, ranges, shift)
        keys[shares[number, 0]] = position << bits | row << part_bits | part
        shares[number, 0] += 1


@kernel
def _range_of(position: I64, ranges: I64s, shift: I64) -> I64:
    return ranges[min(position >> shift, len(ranges) - 1)]


@kernel
def _position_address(entry: I64, arena: I64) -> I64:
    """Where a first position is held, or 0 in an empty entry; no branch."""
    place = arena + np.int64(load_u64(entry + PLACE)) - (entry + PLACE)
    return entry + PLACE + place * np.int64(load_u64(entry + HIGH) >= LONG)


@entry_kernel
def sort_by_digit(numbers: I64s, target: I64s, least: I64, shift: I64, places: I64s) -> None:
    """One pass of a radix sort, stable: order by some bits of what numbers are above the least.

    Args:
        numbers, target: int64 ``[n]``.
        least: no number is below.
        shift: the lowest bit.
        places: int64 ``[2^b]`` for b bits.
    """
    mask = np.int64(places.size - 1)
    for digit in range(places.size):
        places[digit] = 0
    for index in range(numbers.size):
        places[((numbers[index] - least) >> shift) & mask] += 1
    begin = np.int64(0)
    for digit in range(places.size):
        begin, places[digit] = begin + places[digit], begin
    for index in range(numbers.size):
        digit = ((numbers[index] - least) >> shift) & mask
        target[places[digit]] = numbers[index]
        places[digit] += 1


@kernel
def _entry_of(key: I64, bits: I64, part_bits: I64, tables: I64Rows) -> tuple[I64, I64]:
    """Addresses of the entry and of the arena that a key of `gather_rows` means."""
    part = key & ((1 << part_bits) - 1)
    row = (key & ((1 << bits) - 1)) >> part_bits
    return tables[part, 0] + row * ENTRY, tables[part, 1]


@entry_kernel
def gather_rows(
    tables: I64Rows,
    part_bits: I64,
    keys: I64s,
    bits: I64,
    word_bytes: U8s,
    offsets: I64s,
    counts: I64s,
    begin: I64,
    end: I64,
) -> None:
    """Write the words of tables out, in the order of ``keys``.

    Args:
        tables: int64 ``[2^part_bits, 2]``, addresses of entries and of arena of each.
        keys: int64 ``[words]``: in their lowest ``part_bits`` the number of a table, in the others
            of their lowest ``bits`` the number of an entry in use.
        word_bytes: uint8.
        offsets: int64 ``[words + 1]``. counts: int64 ``[words]``.
        begin: where in ``word_bytes`` the first word is written.
        end: what is behind stays as it is. That is quicker for words which end `ROOM` bytes before.
    """
    target = np.int64(word_bytes.ctypes.data)
    offset = begin
    offsets[0] = begin
    for row in range(len(keys)):
        if row + 2 * AHEAD < len(keys):
            entry, _ = _entry_of(keys[row + 2 * AHEAD], bits, part_bits, tables)
            prefetch_to_read(entry)
        if row + AHEAD < len(keys):
            entry, arena = _entry_of(keys[row + AHEAD], bits, part_bits, tables)
            prefetch_to_read(_position_address(entry, arena))
        entry, arena = _entry_of(keys[row], bits, part_bits, tables)
        high = load_u64(entry + HIGH)
        length = key_length(high)
        source = entry + LOW
        if high >= LONG:
            source = arena + np.int64(load_u64(entry + PLACE)) + POSITION_BYTES
        if offset + length + ROOM > end:
            for index in range(length):
                word_bytes[offset + index] = load_u8(source + index)
        else:  # what is too much, the next words are written over
            for done in range(0, ROOM, 8):
                store_u64(target + offset + done, load_u64(source + done))
            if length > ROOM:
                copy_eights(source + ROOM, target + offset + ROOM, length - ROOM)
        offset += length
        counts[row] = np.int64(load_u64(entry + VALUE))
        offsets[row + 1] = offset
