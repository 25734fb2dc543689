"""Characters in UTF-8: decoded one by one, and checked in bulk."""

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
    """Bytes of the character that begins with ``first``."""
    if first < 0x80:
        return np.int64(1)
    if first < 0xE0:
        return np.int64(2)
    return np.int64(3) if first < 0xF0 else np.int64(4)


@kernel
def decode_beyond_ascii(address: I64) -> tuple[I64, I64]:
    """Code point and bytes of the non-ASCII character at ``address``; reads four bytes."""
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
    """Code point and bytes of any character; reads four bytes."""
    point = np.int64(load_u8(address))
    if point < 0x80:
        return point, np.int64(1)
    return decode_beyond_ascii(address)


@kernel
def is_ascii_letter(byte: Int) -> bool:
    """Whether a byte is a letter of ASCII."""
    return bool(0x61 <= byte | 0x20 <= 0x7A)


@kernel
def is_ascii_digit(byte: Int) -> bool:
    """Whether a byte is a digit of ASCII."""
    return bool(0x30 <= byte <= 0x39)


@kernel
def is_ascii_white(byte: Int) -> bool:
    """Whether a byte is white space of ASCII."""
    return bool(byte == 0x20 or 0x09 <= byte <= 0x0D)


@kernel
def is_ascii_other(byte: Int) -> bool:
    """Whether a byte of ASCII is none of these."""
    return not (is_ascii_letter(byte) or is_ascii_digit(byte) or is_ascii_white(byte))


_mask_two = range_mask(0xC2, 0x1E)  # first bytes of characters of two, three and four bytes
_mask_three = range_mask(0xE0, 0x10)
_mask_four = range_mask(0xF0, 5)
# First bytes behind which only some continuation bytes may stand, and those that may not.
_mask_e0, _mask_ed = range_mask(0xE0, 1), range_mask(0xED, 1)
_mask_f0, _mask_f4 = range_mask(0xF0, 1), range_mask(0xF4, 1)
_mask_below_90, _mask_from_90 = range_mask(0x80, 0x10), range_mask(0x90, 0x30)
_mask_below_a0, _mask_from_a0 = range_mask(0x80, 0x20), range_mask(0xA0, 0x20)

_0, _1, _2, _3 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_61, _62, _63 = np.uint64(61), np.uint64(62), np.uint64(63)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _sequence_length(four: Int) -> I64:
    """Bytes of the non-ASCII character that four little-endian bytes begin with, 0 if ill-formed.

    Each form is one comparison of the marker bits of all its bytes, and one or two of the bits
    that tell overlong forms, surrogates and code points above U+10FFFF.
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
    """Position of the first ill-formed sequence from a character's begin on, or -1."""
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
    """Where the character begins that the byte before ``position`` belongs to."""
    position -= 1
    while position > 0 and load_u8(base + position) & np.uint8(0xC0) == np.uint8(0x80):
        position -= 1
    return position


@kernel
def _forbidden_seconds(address: I64) -> U64:
    """Which of 64 bytes begin an overlong form, a surrogate or a code point above U+10FFFF."""
    return (
        (_mask_e0(address) & _mask_below_a0(address + 1))
        | (_mask_ed(address) & _mask_from_a0(address + 1))
        | (_mask_f0(address) & _mask_below_90(address + 1))
        | (_mask_f4(address) & _mask_from_90(address + 1))
    )


@entry_kernel
def invalid_utf8(text: U8s, size: I64) -> I64:
    """Position of the first ill-formed sequence in the first ``size`` bytes, or -1.

    64 bytes at a time become masks of first bytes and of continuations: those that stand are
    compared with those that the first bytes ask for. Where that fails, `first_fault` says where.

    Args:
        text: uint8 with `PADDING` readable bytes behind ``size``.
    """
    base = text.ctypes.data
    owed = _0  # continuations that the block before asks for
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
