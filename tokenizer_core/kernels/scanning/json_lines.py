"""Objects of JSON, one on each line: where their documents stand, unescaped; refuses nothing.

What is not surely read as Python's ``json`` reads it is left to whoever asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    copy_block,
    filled,
    load_block,
    load_u8,
    load_u32,
    mask_line_feeds,
    of_one,
    store_u8,
    store_u32,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, ReadOnlyU8s, U8s
from bpeline.tokenizer_core.kernels.scanning.utf8 import first_fault

DEEPEST = 60  # arrays and objects in one another: one bit of a mask for each
LONGEST_NUMBER = 600  # digits; Python can be told to refuse integers of more than 640

_UNREAD = np.int64(-1)
_NONE = np.int64(-1)

_TAB, _LINE_FEED, _VERTICAL_TAB, _FORM_FEED, _RETURN, _BLANK = 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20
_QUOTE, _BACKSLASH, _SLASH = ord('"'), ord("\\"), ord("/")
_COMMA, _COLON, _MINUS, _PLUS, _POINT = ord(","), ord(":"), ord("-"), ord("+"), ord(".")
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = ord("{"), ord("}"), ord("["), ord("]")
_0, _1, _9 = ord("0"), ord("1"), ord("9")
_B, _E, _F, _N, _R, _T, _U = (ord(letter) for letter in "befnrtu")
_LARGE_E, _LARGE_I, _LARGE_N = (ord(letter) for letter in "EIN")


def _four(letters: str) -> np.uint32:
    return np.uint32(int.from_bytes(letters.encode("ascii"), "little"))


_TRUE, _ALSE, _NULL, _INFI, _NITY = map(_four, ("true", "alse", "null", "Infi", "nity"))
_NAN = _four("NaN\0")
_FIRST_THREE = np.uint32(0xFFFFFF)


def _stops(builder: Any, address: Any) -> Any:
    block = load_block(builder, address)
    found = builder.icmp_unsigned("<", block, filled(_BLANK))
    for byte in (_QUOTE, _BACKSLASH):
        found = builder.or_(found, builder.icmp_unsigned("==", block, filled(byte)))
    return builder.bitcast(found, ir.IntType(64))


# ``mask(address) -> uint64``: which of 64 bytes end a string, escape, or may not stand in one.
_mask_stops = of_one(types.uint64, types.int64, _stops)

_ONES = np.uint64(0x01010101)


@kernel
def _hexadecimal(address: I64) -> I64:
    """The number that four hexadecimal digits say, or -1. All four are looked at together."""
    four = np.uint64(load_u32(address))
    letters = (four >> np.uint64(6)) & _ONES  # of the digits these are 4. or 6., the others 3.
    value = (four & np.uint64(0x0F0F0F0F)) + letters * np.uint64(9)
    faults = (
        (four & np.uint64(0x80808080))
        | (((four >> np.uint64(4)) & _ONES) ^ letters ^ _ONES)
        | (((four >> np.uint64(5)) & _ONES | letters) ^ _ONES)
        # 0 to 9 without, 10 to 15 with a letter
        | ((((value + np.uint64(0x06060606)) >> np.uint64(4)) & _ONES) ^ letters)
        | (value & np.uint64(0x10101010))
    )
    if faults:
        return _NONE
    return np.int64(
        ((value & np.uint64(0xF)) << np.uint64(12))
        | (value & np.uint64(0xF00))
        | ((value >> np.uint64(12)) & np.uint64(0xF0))
        | (value >> np.uint64(24))
    )


@kernel
def _simple_escape(letter: I64) -> I64:
    """The byte that a backslash and a letter stand for, or -1."""
    if letter == _N:
        return np.int64(_LINE_FEED)
    if letter in (_QUOTE, _BACKSLASH, _SLASH):
        return np.int64(letter)
    if letter == _T:
        return np.int64(_TAB)
    if letter == _R:
        return np.int64(_RETURN)
    if letter == _B:
        return np.int64(0x08)
    if letter == _F:
        return np.int64(_FORM_FEED)
    return _NONE


@kernel
def _put_character(point: I64, target: I64) -> I64:
    """Write a code point in UTF-8; where the next one goes. Up to four bytes are written."""
    if point < 0x80:
        store_u8(target, np.uint8(point))
        return target + 1
    if point < 0x800:
        store_u32(target, np.uint32(0x80C0 | (point >> 6) | ((point & 0x3F) << 8)))
        return target + 2
    if point < 0x10000:
        two = (point >> 12) | (((point >> 6) & 0x3F) << 8)
        store_u32(target, np.uint32(0x8080E0 | two | ((point & 0x3F) << 16)))
        return target + 3
    three = (point >> 18) | (((point >> 12) & 0x3F) << 8) | (((point >> 6) & 0x3F) << 16)
    store_u32(target, np.uint32(0x808080F0 | three | ((point & 0x3F) << 24)))
    return target + 4


@kernel
def _copy_escape(position: I64, target: I64) -> tuple[I64, I64]:
    """Write what the escape at a backslash stands for; `_UNREAD` for half a pair too."""
    letter = np.int64(load_u8(position + 1))
    if letter != _U:
        byte = _simple_escape(letter)
        if byte < 0:
            return _UNREAD, target
        store_u8(target, np.uint8(byte))
        return position + 2, target + 1
    point = _hexadecimal(position + 2)
    if point < 0:
        return _UNREAD, target
    position += 6
    if point & 0xF800 == 0xD800:
        # The first of a pair, and the second right after it: Python gives one character then.
        if point >= 0xDC00 or load_u8(position) != _BACKSLASH or load_u8(position + 1) != _U:
            return _UNREAD, target
        second = _hexadecimal(position + 2)
        if second & ~np.int64(0x3FF) != 0xDC00:  # not for -1 either
            return _UNREAD, target
        point = 0x10000 + ((point & 0x3FF) << 10 | (second & 0x3FF))
        position += 6
    return position, _put_character(point, target)


@kernel
def _copy_string(position: I64, target: I64) -> tuple[I64, I64]:
    """Write what a string says.

    Args:
        position: address behind the opening quote.
        target: where to write; up to 64 bytes more than the string has are written.

    Returns:
        The address behind the closing quote, or `_UNREAD`; and the one behind what was written.
    """
    while True:
        stops = _mask_stops(position)
        copy_block(position, target)
        if not stops:
            position += 64
            target += 64
            continue
        run = trailing_zeros(stops)
        position += run
        target += run
        byte = load_u8(position)
        while byte == _BACKSLASH:  # often many of them, where a script is written in escapes
            position, target = _copy_escape(position, target)
            if position < 0:
                return _UNREAD, target
            byte = load_u8(position)
        if byte == _QUOTE:
            return position + 1, target
        if byte < _BLANK:
            return _UNREAD, target


@kernel
def _skip_string(position: I64) -> I64:
    """The address behind the closing quote, of a string from behind its opening one; `_UNREAD`."""
    while True:
        stops = _mask_stops(position)
        if not stops:
            position += 64
            continue
        position += trailing_zeros(stops)
        byte = load_u8(position)
        if byte == _QUOTE:
            return position + 1
        if byte != _BACKSLASH:
            return _UNREAD
        letter = np.int64(load_u8(position + 1))
        if letter == _U:
            if _hexadecimal(position + 2) < 0:
                return _UNREAD
            position += 6
        elif _simple_escape(letter) < 0:
            return _UNREAD
        else:
            position += 2


@kernel
def _skip_blanks(position: I64) -> I64:
    """The first address on the line that holds no white space of JSON."""
    byte = load_u8(position)
    while byte in (_BLANK, _TAB, _RETURN):
        position += 1
        byte = load_u8(position)
    return position


@kernel
def _skip_digits(position: I64) -> I64:
    """The address behind one digit or more, or `_UNREAD`."""
    begin = position
    while _0 <= load_u8(position) <= _9:
        position += 1
    if position == begin or position - begin > LONGEST_NUMBER:
        return _UNREAD
    return position


@kernel
def _skip_number(position: I64) -> I64:
    if load_u8(position) == _MINUS:
        position += 1
        if load_u8(position) == _LARGE_I:
            return _skip_word(position)
    position = position + 1 if load_u8(position) == _0 else _skip_digits(position)
    if position >= 0 and load_u8(position) == _POINT:
        position = _skip_digits(position + 1)
    if position >= 0 and (load_u8(position) == _E or load_u8(position) == _LARGE_E):
        position += 1
        if load_u8(position) == _PLUS or load_u8(position) == _MINUS:
            position += 1
        position = _skip_digits(position)
    return position


@kernel
def _skip_word(position: I64) -> I64:
    """The address behind ``true``, ``false``, ``null``, ``NaN`` or ``Infinity``, or `_UNREAD`."""
    four = load_u32(position)
    if four in (_NULL, _TRUE):
        return position + 4
    if load_u8(position) == _F and load_u32(position + 1) == _ALSE:
        return position + 5
    if four & _FIRST_THREE == _NAN:  # Python takes these, and writes them
        return position + 3
    if four == _INFI and load_u32(position + 4) == _NITY:
        return position + 8
    return _UNREAD


@kernel
def _skip_key(position: I64) -> I64:
    """The address of the value of a member, or `_UNREAD`."""
    if load_u8(position) != _QUOTE:
        return _UNREAD
    position = _skip_string(position + 1)
    if position < 0:
        return _UNREAD
    position = _skip_blanks(position)
    if load_u8(position) != _COLON:
        return _UNREAD
    return _skip_blanks(position + 1)


@kernel
def _skip_value(position: I64) -> tuple[I64, I64]:
    """The address behind a value, or `_UNREAD`; and its commas and opening brackets."""
    parts = np.int64(0)
    depth = np.int64(0)
    objects = np.int64(0)  # of what is open, the innermost in the lowest bit: 1 for an object
    while True:
        byte = load_u8(position)
        closed = True
        if byte == _QUOTE:
            position = _skip_string(position + 1)
        elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            parts += 1
            depth += 1
            if depth >= DEEPEST:
                return _UNREAD, parts
            objects = objects << 1 | np.int64(byte == _OPEN_OBJECT)
            position = _skip_blanks(position + 1)
            closer = _CLOSE_OBJECT if byte == _OPEN_OBJECT else _CLOSE_ARRAY
            if load_u8(position) == closer:
                position += 1
                depth -= 1
                objects >>= 1
            else:
                closed = False
                if byte == _OPEN_OBJECT:
                    position = _skip_key(position)
        elif byte == _MINUS or _0 <= byte <= _9:
            position = _skip_number(position)
        else:
            position = _skip_word(position)
        if position < 0:
            return _UNREAD, parts
        while closed and depth > 0:
            position = _skip_blanks(position)
            byte = load_u8(position)
            if byte == _COMMA:
                parts += 1
                position = _skip_blanks(position + 1)
                if objects & 1:
                    position = _skip_key(position)
                    if position < 0:
                        return _UNREAD, parts
                closed = False
            elif byte == (_CLOSE_OBJECT if objects & 1 else _CLOSE_ARRAY):
                position += 1
                depth -= 1
                objects >>= 1
            else:
                return _UNREAD, parts
        if closed:
            return position, parts


@kernel
def _is_equal(address: I64, end: I64, name: I64, size: I64) -> bool:
    if end - address != size:
        return False
    at = 0
    while at < size and load_u8(address + at) == load_u8(name + at):
        at += 1
    return at == size


@kernel
def _read_object(
    position: I64, target: I64, names: I64, text_name: I64, id_name: I64, most_parts: I64
) -> tuple[I64, I64, I64, I64]:
    """Write the document of an object.

    Returns:
        The address behind the object, or `_UNREAD`; the one behind the document; where the id's
        value begins and ends, 0 where there is none.
    """
    unread = _UNREAD, target, np.int64(0), np.int64(0)
    document_end = np.int64(0)
    id_begin = id_end = np.int64(0)
    parts = np.int64(1)
    position = _skip_blanks(position + 1)
    if load_u8(position) == _CLOSE_OBJECT:
        return unread
    while True:
        if load_u8(position) != _QUOTE:
            return unread
        # Keys are compared as they are meant. What they say goes behind the document for now:
        # there is room, for nothing is longer unescaped.
        key = document_end if document_end else target
        position, key_end = _copy_string(position + 1, key)
        if position < 0:
            return unread
        position = _skip_blanks(position)
        if load_u8(position) != _COLON:
            return unread
        position = _skip_blanks(position + 1)
        is_text = _is_equal(key, key_end, names, text_name)
        is_id = _is_equal(key, key_end, names + text_name, id_name)
        begin = position
        if is_text:
            if document_end or load_u8(position) != _QUOTE:
                return unread  # a second one, or no text
            position, document_end = _copy_string(position + 1, target)
        else:
            position, inner = _skip_value(position)
            parts += inner
        if position < 0:
            return unread
        if is_id:
            if id_end:
                return unread
            id_begin, id_end = begin, position
        position = _skip_blanks(position)
        byte = load_u8(position)
        if byte == _CLOSE_OBJECT:
            break
        if byte != _COMMA:
            return unread
        parts += 1
        position = _skip_blanks(position + 1)
    if not document_end or parts > most_parts:
        return unread
    return position + 1, document_end, id_begin, id_end


@kernel
def _line_end(base: I64, position: I64, size: I64) -> I64:
    while position < size:
        found = mask_line_feeds(base + position)
        if found:
            return min(position + trailing_zeros(found), size)
        position += 64
    return np.int64(size)


@kernel
def _is_blank(base: I64, position: I64, end: I64) -> bool:
    """Whether a line is nothing but what Python's ``bytes.strip`` takes away."""
    while position < end:
        byte = load_u8(base + position)
        if byte != _BLANK and not _TAB <= byte <= _RETURN:
            return False
        position += 1
    return True


@entry_kernel
def scan_json_lines(
    raw: U8s,
    size: I64,
    valid: I64,
    names: ReadOnlyU8s,
    text_name: I64,
    id_name: I64,
    most_parts: I64,
    position: I64,
    texts: U8s,
    written: I64,
    rows: I64Rows,
    number: I64,
) -> tuple[I64, I64, I64]:
    """Write the documents of lines one after the other, each with a line feed behind it.

    A line that is not surely read as ``json.loads`` reads it is named and left: what is not JSON
    or no object, has no such document or two, escapes half a surrogate pair in it, or is too deep.

    Args:
        raw: uint8 with `PADDING` zero bytes behind ``size``: strings end there at the latest.
        valid: how many of the bytes are known to be UTF-8; the lines behind are looked at.
        names: uint8, the key of the documents, then the key of the ids.
        text_name, id_name: their sizes; -1 where no ids are wanted.
        most_parts: commas and opening brackets of a line that is read.
        position: begin of the first line to read.
        texts: uint8 with room for ``size`` and `PADDING` bytes, receives the documents.
        written: bytes in it so far.
        rows: int64 ``[m, 6]``, receives of each line that is not blank: begin and end of its
            document in ``texts``, or -1 where it is left; begin and end of the line; begin and end
            of the value of its id, 0 where it has none.
        number: rows so far.

    Returns:
        The begin of the line to go on with, ``size`` or more at the end; bytes written; rows.
    """
    base, target = np.int64(raw.ctypes.data), np.int64(texts.ctypes.data)
    key = np.int64(names.ctypes.data)
    while position < size and number < rows.shape[0]:
        line = position
        begin = _skip_blanks(base + line)
        address, document_end, id_begin, id_end = _UNREAD, target, np.int64(0), np.int64(0)
        end = np.int64(-1)
        if load_u8(begin) == _OPEN_OBJECT:
            address, document_end, id_begin, id_end = _read_object(
                begin, target + written, key, text_name, id_name, most_parts
            )
            if address >= 0:
                address = _skip_blanks(address)
                end = address - base
                ends = end == size or load_u8(address) == _LINE_FEED
                if not ends or (end > valid and first_fault(base, line, end) >= 0):
                    address = _UNREAD
        if address < 0:
            end = _line_end(base, line, size)
        position = end + 1
        if address < 0 and _is_blank(base, line, end):
            continue
        rows[number, 2], rows[number, 3] = line, end
        if address < 0:
            rows[number, 0] = rows[number, 1] = _NONE
            rows[number, 4] = rows[number, 5] = 0
        else:
            rows[number, 0] = written
            written = document_end - target
            rows[number, 1] = written
            store_u8(document_end, np.uint8(_LINE_FEED))
            written += 1
            rows[number, 4] = id_begin - base if id_end else 0
            rows[number, 5] = id_end - base if id_end else 0
        number += 1
    return position, written, number
