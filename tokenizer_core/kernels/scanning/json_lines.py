"""JSON Lines: the document of each object, unescaped.

A line that may not be parsed like Python's ``json`` does it is left to the caller.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u32,
    mask_line_feeds,
    store_u8,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, ReadOnlyU8s, U8s
from bpeline.tokenizer_core.kernels.scanning.characters import first_fault
from bpeline.tokenizer_core.kernels.scanning.json_strings import (
    UNREAD,
    copy_string,
    mask_stops,
    skip_string,
)

DEEPEST = 60  # nested arrays and objects: one bit of a mask for each
LONGEST_NUMBER = 600  # digits; Python can be configured to refuse integers of more than 640

_NONE = np.int64(-1)

_TAB, _LINE_FEED, _RETURN, _BLANK = 0x09, 0x0A, 0x0D, 0x20
_QUOTE = ord('"')
_COMMA, _COLON, _MINUS, _PLUS, _POINT = ord(","), ord(":"), ord("-"), ord("+"), ord(".")
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = ord("{"), ord("}"), ord("["), ord("]")
_0, _1, _9 = ord("0"), ord("1"), ord("9")
_E, _F, _LARGE_E, _LARGE_I = (ord(letter) for letter in "efEI")


def _four(letters: str) -> np.uint32:
    return np.uint32(int.from_bytes(letters.encode("ascii"), "little"))


_TRUE, _ALSE, _NULL, _INFI, _NITY = map(_four, ("true", "alse", "null", "Infi", "nity"))
_NAN = _four("NaN\0")
_FIRST_THREE = np.uint32(0xFFFFFF)


@kernel
def _skip_blanks(position: I64) -> I64:
    byte = load_u8(position)
    while byte in (_BLANK, _TAB, _RETURN):
        position += 1
        byte = load_u8(position)
    return position


@kernel
def _skip_digits(position: I64) -> I64:
    """Skip one or more digits; or `UNREAD`."""
    begin = position
    while _0 <= load_u8(position) <= _9:
        position += 1
    if position == begin or position - begin > LONGEST_NUMBER:
        return UNREAD
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
    """Skip ``true``, ``false``, ``null``, ``NaN`` or ``Infinity``; or `UNREAD`."""
    four = load_u32(position)
    if four in (_NULL, _TRUE):
        return position + 4
    if load_u8(position) == _F and load_u32(position + 1) == _ALSE:
        return position + 5
    if four & _FIRST_THREE == _NAN:  # Python reads and writes these
        return position + 3
    if four == _INFI and load_u32(position + 4) == _NITY:
        return position + 8
    return UNREAD


@kernel
def _skip_key(position: I64) -> I64:
    """The address of the value after a key, or `UNREAD`."""
    if load_u8(position) != _QUOTE:
        return UNREAD
    position = skip_string(position + 1)
    if position < 0:
        return UNREAD
    position = _skip_blanks(position)
    if load_u8(position) != _COLON:
        return UNREAD
    return _skip_blanks(position + 1)


@kernel
def _skip_value(position: I64) -> tuple[I64, I64]:
    """The address after a value, or `UNREAD`; and its commas and opening brackets."""
    parts = np.int64(0)
    depth = np.int64(0)
    objects = np.int64(0)  # a bit per open bracket, innermost lowest: 1 for an object
    while True:
        byte = load_u8(position)
        closed = True
        if byte == _QUOTE:
            position = skip_string(position + 1)
        elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            parts += 1
            depth += 1
            if depth >= DEEPEST:
                return UNREAD, parts
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
            return UNREAD, parts
        while closed and depth > 0:
            position = _skip_blanks(position)
            byte = load_u8(position)
            if byte == _COMMA:
                parts += 1
                position = _skip_blanks(position + 1)
                if objects & 1:
                    position = _skip_key(position)
                    if position < 0:
                        return UNREAD, parts
                closed = False
            elif byte == (_CLOSE_OBJECT if objects & 1 else _CLOSE_ARRAY):
                position += 1
                depth -= 1
                objects >>= 1
            else:
                return UNREAD, parts
        if closed:
            return position, parts


@kernel
def _read_key(position: I64, room: I64) -> tuple[I64, I64, I64]:
    """Unescape a key into ``room``, if needed.

    Returns the addresses of its content and of its end, and the one after the closing quote, or
    `UNREAD`. ``position`` is the address after the opening quote.
    """
    stops = mask_stops(position)
    if stops:
        end = position + trailing_zeros(stops)
        if load_u8(end) == _QUOTE:
            return position, end, end + 1
    position, end = copy_string(position, room)
    return room, end, position


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

    Returns the address after the object, or `UNREAD`; the one after the document; begin and end of
    the id's value, 0 if there is none.
    """
    unread = UNREAD, target, np.int64(0), np.int64(0)
    document_end = np.int64(0)
    id_begin = id_end = np.int64(0)
    parts = np.int64(1)
    position = _skip_blanks(position + 1)
    if load_u8(position) == _CLOSE_OBJECT:
        return unread
    while True:
        if load_u8(position) != _QUOTE:
            return unread
        # Unescaped keys are written after the document for now. They fit, because unescaping never
        # makes text longer.
        room = document_end if document_end else target
        key, key_end, position = _read_key(position + 1, room)
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
                return unread  # a second document, or not a string
            position, document_end = copy_string(position + 1, target)
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
        line_feeds = mask_line_feeds(base + position)
        if line_feeds:
            return min(position + trailing_zeros(line_feeds), size)
        position += 64
    return np.int64(size)


@kernel
def _is_blank(base: I64, position: I64, end: I64) -> bool:
    """Whether a line consists of bytes that Python's ``bytes.strip`` removes."""
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
    """Write the documents of lines one after the other, each followed by a line feed.

    Lines that may not be parsed like ``json.loads`` does it are listed with -1: lines that are not
    a JSON object, have no document or two, have half a surrogate pair in it, or are nested too
    deeply.

    Args:
        raw: uint8 with `PADDING` zero bytes after ``size``, at which unclosed strings end.
        valid: number of bytes known to be UTF-8; lines beyond are checked.
        names: uint8, the key of the documents, then the key of the ids.
        text_name, id_name: their lengths; -1 if no ids are wanted.
        most_parts: limit of commas and opening brackets in a line.
        texts: uint8 with room for ``size`` and `PADDING` bytes, receives the documents.
        rows: int64 ``[m, 6]``, receives for each line that is not blank: begin and end of its
            document in ``texts``, or -1; begin and end of the line; begin and end of the value of
            its id, 0 if it has none.

    Returns:
        The start of the next line, ``size`` or more at the end; bytes written; number of rows.
    """
    base, target = np.int64(raw.ctypes.data), np.int64(texts.ctypes.data)
    key = np.int64(names.ctypes.data)
    while position < size and number < rows.shape[0]:
        line = position
        begin = _skip_blanks(base + line)
        address, document_end, id_begin, id_end = UNREAD, target, np.int64(0), np.int64(0)
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
                    address = UNREAD
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
