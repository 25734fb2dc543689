"""UTF-8: decoding of characters, and validation of text."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u32,
    mask_continuations,
    mask_non_ascii,
    range_mask,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Int, U8s


@kernel
def character_size(first: Int) -> I64:
    if first < 0x80:
        return np.int64(1)
    if first < 0xE0:
        return np.int64(2)
    return np.int64(3) if first < 0xF0 else np.int64(4)


@kernel
def decode_beyond_ascii(address: I64) -> tuple[I64, I64]:
    """Code point and length of a non-ASCII character; reads four bytes."""
    four = load_u32(address)
    first = four & np.uint32(0xFF)
    second = (four >> np.uint32(8)) & np.uint32(0x3F)
    if first < np.uint32(0xE0):
        return np.int64(((first & np.uint32(0x1F)) << np.uint32(6)) | second), np.int64(2)
    third = (four >> np.uint32(16)) & np.uint32(0x3F)
    if first < np.uint32(0xF0):
        high = ((first & np.uint32(0x0F)) << np.uint32(12)) | (second << np.uint32(6))
        return np.int64(high | third), np.int64(3)
    high = ((first & np.uint32(0x07)) << np.uint32(18)) | (second << np.uint32(12))
    low = (third << np.uint32(6)) | ((four >> np.uint32(24)) & np.uint32(0x3F))
    return np.int64(high | low), np.int64(4)


@kernel
def decode(address: I64) -> tuple[I64, I64]:
    """Code point and length of a character; reads four bytes."""
    point = np.int64(load_u8(address))
    if point < 0x80:
        return point, np.int64(1)
    return decode_beyond_ascii(address)


@kernel
def is_ascii_letter(byte: Int) -> bool:
    return bool(0x61 <= byte | 0x20 <= 0x7A)


@kernel
def is_ascii_digit(byte: Int) -> bool:
    return bool(0x30 <= byte <= 0x39)


@kernel
def is_ascii_white(byte: Int) -> bool:
    return bool(byte == 0x20 or 0x09 <= byte <= 0x0D)


@kernel
def is_ascii_other(byte: Int) -> bool:
    return not (is_ascii_letter(byte) or is_ascii_digit(byte) or is_ascii_white(byte))


_mask_two = range_mask(0xC2, 0x1E)  # first bytes of characters of two, three and four bytes
_mask_three = range_mask(0xE0, 0x10)
_mask_four = range_mask(0xF0, 5)
# First bytes that allow only some second bytes, and the second bytes that they forbid.
_mask_e0, _mask_ed = range_mask(0xE0, 1), range_mask(0xED, 1)
_mask_f0, _mask_f4 = range_mask(0xF0, 1), range_mask(0xF4, 1)
_mask_below_90, _mask_from_90 = range_mask(0x80, 0x10), range_mask(0x90, 0x30)
_mask_below_a0, _mask_from_a0 = range_mask(0x80, 0x20), range_mask(0xA0, 0x20)

_0, _1, _2, _3 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_61, _62, _63 = np.uint64(61), np.uint64(62), np.uint64(63)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _sequence_length(four: Int) -> I64:
    """Length of the non-ASCII character at the start of four bytes; 0 if ill-formed.

    Each length takes one comparison of all marker bits, and one or two of the bits that reveal
    overlong forms, surrogates and code points above U+10FFFF.
    """
    if four & np.uint32(0xC0E0) == np.uint32(0x80C0):
        return np.int64(2) if four & np.uint32(0x1E) else np.int64(0)
    if four & np.uint32(0xC0C0F0) == np.uint32(0x8080E0):
        top = four & np.uint32(0x200F)  # the five highest bits of the code point
        return np.int64(3) if top != 0 and top != np.uint32(0x200D) else np.int64(0)
    if four & np.uint32(0xC0C0C0F8) == np.uint32(0x808080F0):
        plane = four & np.uint32(0x3007)
        too_high = plane & np.uint32(0x04) and plane & np.uint32(0x3003)
        return np.int64(4) if plane != 0 and not too_high else np.int64(0)
    return np.int64(0)


@kernel
def first_fault(base: I64, position: I64, size: I64) -> I64:
    """Position of the first ill-formed sequence from a character on, or -1."""
    while position < size:
        non_ascii = mask_non_ascii(base + position)
        if not non_ascii:
            position += 64
            continue
        position += trailing_zeros(non_ascii)
        while position < size and load_u8(base + position) >= np.uint8(0x80):
            length = _sequence_length(load_u32(base + position))
            if length == 0 or position + length > size:
                return position
            position += length
    return np.int64(-1)


@kernel
def _begin_of_character(base: I64, position: I64) -> I64:
    """Start of the character that contains the byte before ``position``."""
    position -= 1
    while position > 0 and load_u8(base + position) & np.uint8(0xC0) == np.uint8(0x80):
        position -= 1
    return position


@kernel
def _forbidden_seconds(address: I64) -> U64:
    """Which of 64 bytes begin an overlong form, a surrogate or a point above U+10FFFF."""
    return (
        (_mask_e0(address) & _mask_below_a0(address + 1))
        | (_mask_ed(address) & _mask_from_a0(address + 1))
        | (_mask_f0(address) & _mask_below_90(address + 1))
        | (_mask_f4(address) & _mask_from_90(address + 1))
    )


@entry_kernel
def invalid_utf8(text: U8s, size: I64) -> I64:
    """Position of the first ill-formed sequence in the first ``size`` bytes, or -1.

    For 64 bytes at a time, the mask of continuation bytes is compared with those that the first
    bytes require. After a mismatch `first_fault` finds the position. ``text`` is uint8 with
    `PADDING` more readable bytes.
    """
    base = text.ctypes.data
    owed = _0  # continuation bytes that the block before requires
    for position in range(0, size, 64):
        address = base + position
        non_ascii = mask_non_ascii(address)
        if non_ascii | owed == _0:
            continue
        inside = _ALL
        if position + 64 > size:
            inside = (_1 << np.uint64(size - position)) - _1
        non_ascii &= inside
        four = _mask_four(address) & inside
        three_or_four = (_mask_three(address) & inside) | four
        leads = (_mask_two(address) & inside) | three_or_four
        wanted = (leads << _1) | (three_or_four << _2) | (four << _3) | owed
        continuations = mask_continuations(address) & inside
        faults = (continuations ^ wanted) | (continuations ^ leads ^ non_ascii)
        if faults | (_forbidden_seconds(address) & inside):
            begin = np.int64(position)
            return first_fault(base, _begin_of_character(base, begin) if owed else begin, size)
        owed = (leads >> _63) | (three_or_four >> _62) | (four >> _61)
    return _begin_of_character(base, np.int64(size)) if owed else np.int64(-1)
