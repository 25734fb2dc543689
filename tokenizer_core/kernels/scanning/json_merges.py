"""Merges of a tokenizer.json or merges.txt read where they stand; knows no vocab and no ids.

A third of a tokenizer.json are 100,000 pairs of short strings, which as Python's values take longer
than all the rest. Read is what nearly every file holds: names in GPT-2's printable characters,
written as themselves. All else is left to a parser that knows all of JSON, and so is what is no
JSON at all.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, ReadOnlyU8s, U8s, U16s

QUOTE, ESCAPE, SLASH, COMMA, COLON, SPACE = (np.uint8(ord(sign)) for sign in '"\\/,: ')
OPENED, CLOSED, BEGUN, ENDED = (np.uint8(ord(sign)) for sign in "[]{}")
TAB, LINE_FEED, RETURN = np.uint8(0x09), np.uint8(0x0A), np.uint8(0x0D)
MODEL = np.frombuffer(b'"model"', np.uint8)
MERGES = np.frombuffer(b'"merges"', np.uint8)
NO_BYTE = 256
BEGIN, END = 0, 1  # in `place`
_IN_DOCUMENT, _IN_MODEL = 1, 2  # depths


@kernel
def behind_space(text: ReadOnlyU8s, at: I64) -> I64:
    """The next place without white space; all behind the text is none."""
    while at < len(text):
        byte = text[at]
        if byte != SPACE and byte != LINE_FEED and byte != TAB and byte != RETURN:
            break
        at += 1
    return np.int64(at)


@kernel
def is_at(text: ReadOnlyU8s, at: I64, sign: I64) -> bool:
    return at < len(text) and text[at] == sign


@kernel
def behind_string(text: ReadOnlyU8s, at: I64) -> I64:
    """The place behind a string whose first quote stands at a place."""
    at += 1
    while at < len(text) and text[at] != QUOTE:
        at += 2 if text[at] == ESCAPE else 1
    return np.int64(at + 1)


@kernel
def is_string(text: ReadOnlyU8s, begin: I64, end: I64, wanted: U8s) -> bool:
    if end - begin != len(wanted) or end > len(text):
        return False
    same = True
    for i in range(len(wanted)):
        same &= text[begin + i] == wanted[i]
    return same


@kernel
def find_in_model(text: ReadOnlyU8s, name: U8s, sign: I64) -> I64:
    """Where a value that begins with a sign stands in the object ``model``; −1 where there is none.

    Args:
        name: of the value, in quotes.
    """
    at, depth = np.int64(0), np.int64(0)
    in_model = False
    while at < len(text):
        byte = text[at]
        if byte == QUOTE:
            begin = at
            at = behind_string(text, at)
            if depth == _IN_DOCUMENT or (depth == _IN_MODEL and in_model):
                after = behind_space(text, at)
                if is_at(text, after, COLON):
                    if depth == _IN_DOCUMENT:
                        in_model = is_string(text, begin, at, MODEL)
                    elif is_string(text, begin, at, name):
                        after = behind_space(text, after + 1)
                        return after if is_at(text, after, sign) else np.int64(-1)
            continue
        if byte in (BEGUN, OPENED):
            depth += 1
        elif byte in (ENDED, CLOSED):
            depth -= 1
        at += 1
    return np.int64(-1)


@kernel
def read_names(
    text: ReadOnlyU8s,
    at: I64,
    bytes_of: U16s,
    names: U8s,
    written: I64,
    lengths: I64s,
    number: I64,
) -> tuple[I64, I64]:
    """Read a string of one name, or of two with a space between.

    Args:
        at: of the first quote.
        written: bytes of ``names`` in use. number: of names before.

    Returns:
        The place behind it, or −1 where it is another string; and how many names there are now.
    """
    failed = np.int64(-1), number
    at += 1
    begin = written
    while at < len(text):
        byte = text[at]
        if byte in (QUOTE, SPACE):
            if written == begin or number == len(lengths):
                return failed
            lengths[number] = written - begin
            number += 1
            at += 1
            if byte == QUOTE:
                return at, number
            begin = written
            continue
        point = np.int64(byte)
        if byte == ESCAPE:
            at += 1
            if at == len(text) or (text[at] != QUOTE and text[at] != ESCAPE and text[at] != SLASH):
                return failed
            point = np.int64(text[at])
        elif byte >= 0x80:
            at += 1
            if not 0xC2 <= byte < 0xE0 or at == len(text) or text[at] & 0xC0 != 0x80:
                return failed
            point = (point & 0x1F) << 6 | np.int64(text[at] & 0x3F)
        if point >= len(bytes_of) or bytes_of[point] == NO_BYTE:
            return failed
        names[written] = bytes_of[point]
        written += 1
        at += 1
    return failed


@kernel
def read_merge(
    text: ReadOnlyU8s,
    at: I64,
    bytes_of: U16s,
    names: U8s,
    written: I64,
    lengths: I64s,
    number: I64,
) -> tuple[I64, I64]:
    """Read a merge, ``"a b"`` or ``["a", "b"]``; arguments and results of `read_names`."""
    failed = np.int64(-1), number
    first = number
    is_pair = is_at(text, at, OPENED)
    for part in range(2 if is_pair else 1):
        if is_pair:
            if part == 1 and not is_at(text, at, COMMA):
                return failed
            at = behind_space(text, at + 1)
        if not is_at(text, at, QUOTE):
            return failed
        at, number = read_names(text, at, bytes_of, names, written, lengths, number)
        if at < 0 or number != first + (part + 1 if is_pair else 2):
            return failed
        if is_pair:
            written += lengths[first + part]
            at = behind_space(text, at)
    if is_pair:
        if not is_at(text, at, CLOSED):
            return failed
        at += 1
    return behind_space(text, at), number


@entry_kernel
def spell_merge_lines(
    text: ReadOnlyU8s, begin: I64, bytes_of: U16s, names: U8s, lengths: I64s
) -> I64:
    """Read the names of a merges.txt, ``a b`` in each line; arguments as for `spell_merges`.

    Args:
        begin: of the first line.

    Returns:
        How many names there are; 0 where they have to be read more slowly, or there are none.
    """
    number, written, size = np.int64(0), np.int64(0), np.int64(0)
    at = begin
    while at < len(text):
        byte = text[at]
        at += 1
        if byte in (SPACE, LINE_FEED):
            behind_left = np.uint8(LINE_FEED if number & 1 else SPACE)
            if size == 0 or number == len(lengths) or byte != behind_left:
                return np.int64(0)
            lengths[number] = size
            number += 1
            written += size
            size = np.int64(0)
            continue
        point = np.int64(byte)
        if byte >= 0x80:
            if not 0xC2 <= byte < 0xE0 or at == len(text) or text[at] & 0xC0 != 0x80:
                return np.int64(0)
            point = (point & 0x1F) << 6 | np.int64(text[at] & 0x3F)
            at += 1
        if point >= len(bytes_of) or bytes_of[point] == NO_BYTE:
            return np.int64(0)
        names[written + size] = bytes_of[point]
        size += 1
    # All lines are ended, as we and most others write them.
    return number if size == 0 and number & 1 == 0 else np.int64(0)


@entry_kernel
def spell_merges(text: ReadOnlyU8s, bytes_of: U16s, names: U8s, lengths: I64s, place: I64s) -> I64:
    """Find the merges and read their names: left, right, left, right, …

    Args:
        text: a tokenizer.json.
        bytes_of: the byte that each code point stands for, or `NO_BYTE`; for all beyond as well.
        names: uint8, as long as the text: receives the names joined.
        lengths: int64, as many as there are quotes: receives how long each is.
        place: int64 ``[2]``: receives where the array begins and ends.

    Returns:
        How many names there are; 0 where they have to be read by a parser, or there are none.
    """
    at = find_in_model(text, MERGES, OPENED)
    if at < 0:
        return np.int64(0)
    place[BEGIN] = at
    kind: I64 = np.uint8(0)
    number, written = np.int64(0), np.int64(0)
    while True:
        at = behind_space(text, at + 1)
        if number == 0 and at < len(text):
            kind = text[at]
        if not is_at(text, at, kind):
            return np.int64(0)
        at, number = read_merge(text, at, bytes_of, names, written, lengths, number)
        if at < 0:
            return np.int64(0)
        written += lengths[number - 2] + lengths[number - 1]
        if is_at(text, at, CLOSED):
            place[END] = at + 1
            return number
        if not is_at(text, at, COMMA):
            return np.int64(0)
