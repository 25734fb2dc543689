"""Word counts as rows: sorted, added up, numbered."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

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
    is_marked,
    load_u8,
    load_u64,
    prefetch_to_read,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.records import one_record
from bpeline.tokenizer_core.kernels.memory.types import I64, Flags, I64Rows, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables import word_keys
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, key_in, mix
from bpeline.tokenizer_core.kernels.tables.word_queue import next_start

DIGIT_BITS = 11  # 2,048 write positions fit into the L1 cache
ROOM = 32  # bytes copied of each word, so that most words need no branch


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

    ``word_bytes`` has 16 readable bytes after the last word.
    """
    source = np.int64(word_bytes.ctypes.data)
    words = table_of(table, arena, used)
    for index in range(len(counts)):
        if index + AHEAD < len(counts):
            begin, end = offsets[index + AHEAD], offsets[index + AHEAD + 1]
            low, high = word_keys.word_key(source + begin, end - begin, words.key)
            expect(words, low, high)
        address = source + offsets[index]
        low, high = word_keys.word_key(address, offsets[index + 1] - offsets[index], words.key)
        count, position = np.uint64(counts[index]), first_positions[index]
        add_word(words, low, high, address, count, position)


@entry_kernel
def list_words(table: U64s, arena: U8s, entries: I64s, positions: I64s) -> None:
    """List the used entries of a table and the first positions of their words.

    ``entries`` [words + 1] receives the indices of used entries; the last is scratch.
    """
    main, bytes_ = np.int64(table.ctypes.data), np.int64(arena.ctypes.data)
    listed = np.int64(0)
    for number in range(table.size >> 2):  # no branch: it would be unpredictable
        entries[listed] = number
        listed += np.int64(load_u64(main + (number << 5) + word_keys.HIGH) != ZERO)
    for row in range(len(positions)):
        if row + AHEAD < len(positions):
            prefetch_to_read(_position_address(main + (entries[row + AHEAD] << 5), bytes_))
        address = _position_address(main + (entries[row] << 5), bytes_)
        positions[row] = np.int64(load_u64(address))


@entry_kernel
def pack_entries(entries: U64s, arena: U8s, positions: I64s) -> None:
    """Move the n used entries to the front, in order, and list their first positions."""
    entry, bytes_ = np.int64(entries.ctypes.data), np.int64(arena.ctypes.data)
    to, row = entry, np.int64(0)
    last = entry + (entries.size - 4) * 8
    while row < len(positions):  # no branch inside: it would be unpredictable
        prefetch_to_read(_position_address(min(entry + AHEAD * word_keys.ENTRY, last), bytes_))
        position = load_u64(_position_address(entry, bytes_))
        is_used = np.int64(load_u64(entry + word_keys.HIGH) != ZERO)
        word_keys.copy_entry(entry, to)
        positions[row] = np.int64(position)
        to += word_keys.ENTRY * is_used
        row += is_used
        entry += word_keys.ENTRY


@entry_kernel
def count_shares(entries: U64s, positions: I64s, ranges: I64s, shift: I64, shares: I64Rows) -> None:
    """Count the words of a part and their bytes in each range of positions.

    Item ``p >> shift`` of ``ranges`` is the range of position p, its last item that of all larger
    positions. ``entries`` are packed; ``shares`` [k, 2] are zeros.
    """
    entry = np.int64(entries.ctypes.data)
    for row in range(len(positions)):
        number = _range_of(positions[row], ranges, shift)
        shares[number, 0] += 1
        shares[number, 1] += word_keys.key_length(load_u64(entry + word_keys.HIGH))
        entry += word_keys.ENTRY


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
    """Write the rows of a part to their ranges, next to those of other parts.

    Writes ``position << bits | row << part_bits | part`` to ``keys``, where ``shares`` [k, 2] say;
    these advance. See `count_shares` and `gather_rows`.
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
    """Address of the first position of an entry, or of a 0 if it is empty; branchless."""
    place = arena + np.int64(load_u64(entry + word_keys.PLACE)) - (entry + word_keys.PLACE)
    return (
        entry
        + word_keys.PLACE
        + place * np.int64(load_u64(entry + word_keys.HIGH) >= word_keys.LONG)
    )


@entry_kernel
def sort_by_digit(numbers: I64s, target: I64s, least: I64, shift: I64, places: I64s) -> None:
    """One stable pass of a radix sort, by the b bits from ``shift`` on.

    ``least``, at most the smallest number, is subtracted first; ``places`` is scratch ``[2^b]``.
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
    """Addresses of the entry and the arena of a key of `gather_rows`."""
    part = key & ((1 << part_bits) - 1)
    row = (key & ((1 << bits) - 1)) >> part_bits
    return tables[part, 0] + row * word_keys.ENTRY, tables[part, 1]


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
    """Write the words of tables in the order of ``keys``.

    Args:
        tables: int64 ``[2^part_bits, 2]``, addresses of the entries and the arena of each.
        keys: int64 ``[words]``: table in the lowest ``part_bits``, entry in the rest of the lowest
            ``bits``.
        offsets, counts: int64 ``[words + 1]`` and ``[words]``.
        begin: offset of the first word in ``word_bytes``.
        end: bytes from here on stay unchanged; words that end `ROOM` bytes before are faster.
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
        high = load_u64(entry + word_keys.HIGH)
        length = word_keys.key_length(high)
        source = entry + word_keys.LOW
        if high >= word_keys.LONG:
            source = arena + np.int64(load_u64(entry + word_keys.PLACE)) + POSITION_BYTES
        if offset + length + ROOM > end:
            for index in range(length):
                word_bytes[offset + index] = load_u8(source + index)
        else:  # the next words overwrite the excess
            for done in range(0, ROOM, 8):
                store_u64(target + offset + done, load_u64(source + done))
            if length > ROOM:
                copy_eights(source + ROOM, target + offset + ROOM, length - ROOM)
        offset += length
        counts[row] = np.int64(load_u64(entry + word_keys.VALUE))
        offsets[row + 1] = offset


LEAST, MOST, SUM = range(3)


@entry_kernel
def join_values(ids: U32s, ends: I64s, values: I64s, how: I64, found: I64s) -> None:
    """Join the values of all rows that contain a token, once per occurrence, by id.

    ``ends`` are the ends of rows in ``ids``; ``how`` is `LEAST`, `MOST` or `SUM`; ``found`` is
    updated.
    """
    at = np.int64(0)
    for row in range(len(ends)):
        value = values[row]
        while at < ends[row]:
            id_ = ids[at]
            if how == SUM:
                found[id_] += value
            elif how == LEAST:
                found[id_] = min(found[id_], value)
            else:
                found[id_] = max(found[id_], value)
            at += 1


@entry_kernel
def mark_rows(ids: U32s, ends: I64s, tokens: Flags, rows: Flags) -> None:
    """Mark rows that contain any of ``tokens`` (bool by id); see `join_values`."""
    at = np.int64(0)
    for row in range(len(ends)):
        holds = False
        while at < ends[row]:
            holds |= tokens[ids[at]]
            at += 1
        rows[row] = holds


# State of `number_words`.
PROGRESS = np.dtype(
    [
        ("span", np.int64),
        ("position", np.int64),  # in the span; −1: its start
        ("pre_tokens", np.int64),  # numbered so far
        ("words", np.int64),  # distinct words among them
    ]
)
Progress = Annotated[NDArray[Any], one_record(PROGRESS)]


@entry_kernel
def number_words(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    table: U64s,
    hash_key: U64s,
    limit: I64,
    state: Progress,
    numbers: U32s,
    begins: I64s,
    places: I64s,
    lengths: I64s,
    ends: I64s,
) -> bool:
    """Number words by first occurrence; returns False if the table must grow first.

    Args:
        text, starts, dropped, spans: as in `count_marked`.
        table: uint64 ``[4 · 2^b]``, see `word_keys`; zeroed before the first call.
        state: one `PROGRESS`; before the first call zeros, with −1 as position.
        numbers, begins: receive the word and the position of each pre-token.
        places, lengths: receive the first position and the bytes of each word.
        ends: int64 ``[n]``: receives the number of pre-tokens up to the end of each span.
    """
    progress = state[0]
    base = text.ctypes.data
    entries, shift = table.ctypes.data, word_keys.table_shift(table)
    key = key_in(hash_key)
    seen = progress.pre_tokens
    words = progress.words
    for span in range(progress.span, len(spans)):
        start = progress.position
        if start < 0:
            start = spans[span, 0]
        end = spans[span, 1]
        while start < end:
            if words >= limit:
                progress.span, progress.position = span, start
                progress.pre_tokens, progress.words = seen, words
                return False
            stop = next_start(starts, start, end)
            if dropped.size == 0 or not is_marked(dropped, start):
                low, high = word_keys.word_key(base + start, stop - start, key)
                mixed = mix(low, high, key)
                entry = word_keys.find_entry(entries, shift, low, high, mixed, base, base + start)
                if load_u64(entry + word_keys.HIGH) == np.uint64(0):
                    word_keys.put_entry(entry, low, high, np.uint64(words), np.uint64(start))
                    places[words] = start
                    lengths[words] = stop - start
                    words += 1
                numbers[seen] = np.uint32(load_u64(entry + word_keys.VALUE))
                begins[seen] = start
                seen += 1
            start = stop
        ends[span] = seen
        progress.position = -1
    progress.pre_tokens, progress.words = seen, words
    return True


@entry_kernel
def copy_pieces(
    numbers: U32s,
    pre_token_ends: I64s,
    before: I64s,
    behind: I64s,
    pieces: U32s,
    edges: I64s,
    ids: U32s,
    ends: I64s,
) -> None:
    """Write the pieces of each pre-token's word one after the other.

    Args:
        numbers: uint32: the word of each pre-token.
        pre_token_ends: int64 ``[n]``: number of pre-tokens up to the end of each span.
        before, behind: int64 ``[n]``: an id before and after each span, or −1 for none.
        pieces, edges: of each word, see `merge_characters`.
        ends: int64 ``[n]``: receives the number of ids up to the end of each span.
    """
    written = np.int64(0)
    pre_token = np.int64(0)
    for span in range(len(pre_token_ends)):
        if before[span] >= 0:
            ids[written] = np.uint32(before[span])
            written += 1
        while pre_token < pre_token_ends[span]:
            word = np.int64(numbers[pre_token])
            for piece in range(edges[word], edges[word + 1]):
                ids[written] = pieces[piece]
                written += 1
            pre_token += 1
        if behind[span] >= 0:
            ids[written] = np.uint32(behind[span])
            written += 1
        ends[span] = written


@entry_kernel
def copy_words(
    text: U8s,
    size: I64,
    numbers: U32s,
    begins: I64s,
    lengths: I64s,
    content: U8s,
    edges: I64s,
    target: U8s,
) -> I64:
    """Replace the words of a text; returns the number of bytes written.

    The first and last gap and gaps with a line break are kept; any other gap becomes one space.

    Args:
        numbers, begins: of each pre-token, see `number_words`.
        lengths: int64: bytes of each word in the text.
        content, edges: uint8 and int64 ``[n_words + 1]``: the replacement of each word.
    """
    written = np.int64(0)
    gap_begin = np.int64(0)
    for i in range(len(numbers) + 1):
        begin = begins[i] if i < len(numbers) else size
        is_kept = i == 0 or i == len(numbers)
        for at in range(gap_begin, begin):
            is_kept = is_kept or text[at] == 10
        if is_kept:
            for at in range(gap_begin, begin):
                target[written] = text[at]
                written += 1
        elif gap_begin < begin:
            target[written] = 32
            written += 1
        if i < len(numbers):
            word = np.int64(numbers[i])
            for at in range(edges[word], edges[word + 1]):
                target[written] = content[at]
                written += 1
            gap_begin = begin + lengths[word]
    return written
