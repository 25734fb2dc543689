"""The UTF-8 of a ``str`` or ``bytes`` object, copied from where Python keeps it; knows no tokens.

CPython keeps the characters of a text in one, two or four bytes each. See `python_lists` for what
is relied on. The caller holds the object and the interpreter's lock.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    leading_zeros,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.python_lists import (
    BYTES_BEGIN,
    BYTES_SIZE,
    OBJECT_TYPE,
    TEXT_ASCII,
    TEXT_COMPACT,
    TEXT_KIND,
    TEXT_LENGTH,
    TEXT_STATE,
)
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Int

_ADDRESS = np.int64
NO_TEXT = -1
_BEYOND_ASCII = np.uint64(0x8080_8080_8080_8080)
_BEYOND_ASCII_OF_FOUR = np.uint64(0xFFFF_FF80_FFFF_FF80)
# Of four characters of two bytes each, in one uint64.
_BEYOND_TWO = np.uint64(0xF800_F800_F800_F800)
_TO_BIT_15 = np.uint64(0x7F80_7F80_7F80_7F80)
_ONES, _ALL_OF_ONE = np.uint64(0x0001_0001_0001_0001), np.uint64(0xFFFF)
_FIRST_OF_TWO, _LAST_OF_TWO = np.uint64(0x001F_001F_001F_001F), np.uint64(0x003F_003F_003F_003F)
_MARKS_OF_TWO = np.uint64(0x80C0_80C0_80C0_80C0)
_1, _2, _3, _6, _8, _15, _16, _24, _32 = map(np.uint64, (1, 2, 3, 6, 8, 15, 16, 24, 32))

TEXTS = np.dtype(
    [
        ("str_type", _ADDRESS),  # the types of what is read, and of nothing that inherits from them
        ("bytes_type", _ADDRESS),
        # See `text_facts`.
        ("ascii_begin", np.int64),
        ("others_begin", np.int64),
    ]
)
texts_at = record_at(TEXTS)


@kernel
def put_character(point: Int, target: I64) -> I64:
    """Write a code point in UTF-8, and up to three bytes behind it; its length."""
    # Without branches: in most languages the next character's length is not to be foretold.
    last, middle = point & np.uint32(0x3F), (point >> np.uint32(6)) & np.uint32(0x3F)
    high = (point >> np.uint32(12)) & np.uint32(0x3F)
    two = np.uint32(0x80C0) | (point >> np.uint32(6)) | (last << np.uint32(8))
    three = (
        np.uint32(0x80_80E0)
        | (point >> np.uint32(12))
        | (middle << np.uint32(8))
        | (last << np.uint32(16))
    )
    four = (
        np.uint32(0x8080_80F0)
        | (point >> np.uint32(18))
        | (high << np.uint32(8))
        | (middle << np.uint32(16))
        | (last << np.uint32(24))
    )
    written = point
    written = two if point >= np.uint32(0x80) else written
    written = three if point >= np.uint32(0x800) else written
    written = four if point >= np.uint32(0x1_0000) else written
    store_u32(target, np.uint32(written))
    return (
        1
        + np.int64(point >= np.uint32(0x80))
        + np.int64(point >= np.uint32(0x800))
        + np.int64(point >= np.uint32(0x1_0000))
    )


@kernel
def _put_four(four: U64, target: I64) -> I64:
    """Write four characters below U+0800, two bytes each of a uint64; the address behind them."""
    # Which are of two bytes: their bit 15 is set by an addition that stays within each.
    of_two = ((four + _TO_BIT_15) >> _15) & _ONES
    both = ((four >> _6) & _FIRST_OF_TWO) | ((four & _LAST_OF_TWO) << _8) | _MARKS_OF_TWO
    chosen = of_two * _ALL_OF_ONE
    written = (four & ~chosen) | (both & chosen)
    target = _put_two(written, of_two, target)
    return _put_two(written >> _32, of_two >> _32, target)


@kernel
def _put_two(written: U64, of_two: U64, target: I64) -> I64:
    """Write the two characters in the lower half of a uint64, of one byte or two each."""
    first, second = of_two & _1, (of_two >> _16) & _1
    store_u32(
        target,
        np.uint32((written & _ALL_OF_ONE) | (written >> _16 & _ALL_OF_ONE) << (_8 + (first << _3))),
    )
    return target + np.int64(_2 + first + second)


@kernel
def _from_one(source: I64, length: I64, target: I64) -> I64:
    """Write characters of one byte each in UTF-8; returns the address behind them."""
    place = np.int64(0)
    while place + 8 <= length:
        eight = load_u64(source + place)
        if eight & _BEYOND_ASCII:
            for i in range(8):
                target += put_character(np.uint32(load_u8(source + place + i)), target)
        else:
            store_u64(target, eight)
            target += 8
        place += 8
    for i in range(place, length):
        target += put_character(np.uint32(load_u8(source + i)), target)
    return target


@kernel
def _from_two(source: I64, length: I64, target: I64) -> tuple[I64, bool]:
    """Write characters of two bytes each; and whether one of them is half a surrogate pair."""
    place, surrogates = np.int64(0), False
    while place + 4 <= length:
        four = load_u64(source + 2 * place)
        if four & _BEYOND_TWO:
            for i in range(4):
                point = np.uint32(load_u16(source + 2 * (place + i)))
                surrogates |= (point >> np.uint32(11)) == np.uint32(0x1B)
                target += put_character(point, target)
        else:
            target = _put_four(four, target)
        place += 4
    for i in range(place, length):
        point = np.uint32(load_u16(source + 2 * i))
        surrogates |= (point >> np.uint32(11)) == np.uint32(0x1B)
        target += put_character(point, target)
    return target, surrogates


@kernel
def _from_four(source: I64, length: I64, target: I64) -> tuple[I64, bool]:
    """Write characters of four bytes each; and whether one of them is half a surrogate pair."""
    place, surrogates = np.int64(0), False
    while place + 2 <= length:
        two = load_u64(source + 4 * place)
        if two & _BEYOND_ASCII_OF_FOUR:
            for i in range(2):
                point = load_u32(source + 4 * (place + i))
                surrogates |= (point >> np.uint32(11)) == np.uint32(0x1B)
                target += put_character(point, target)
        else:
            store_u32(target, np.uint32(two | (two >> _24)))
            target += 2
        place += 2
    if place < length:
        point = load_u32(source + 4 * place)
        surrogates |= (point >> np.uint32(11)) == np.uint32(0x1B)
        target += put_character(point, target)
    return target, surrogates


@kernel
def _copy(source: I64, size: I64, target: I64) -> None:
    """Copy bytes behind which nothing may be read.

    Eight at a time: objects begin where a multiple of eight does, and so do the bytes in them, so
    that no memory is touched which the object's last byte does not lie in.
    """
    for place in range(0, size, 8):
        store_u64(target + place, load_u64(source + place))


@kernel
def copy_text(text: I64, texts: Record, target: I64, room: I64) -> I64:
    """Write the UTF-8 of an object; its size, or `NO_TEXT`.

    That is told of other types, of what could take more than the room, and of characters that have
    no UTF-8.

    Args:
        text: address of the object.
        target: address of room for so many bytes and 8 more.
    """
    type_ = np.int64(load_u64(text + OBJECT_TYPE))
    if type_ == texts.bytes_type:
        size = np.int64(load_u64(text + BYTES_SIZE))
        if size > room:
            return np.int64(NO_TEXT)
        _copy(text + BYTES_BEGIN, size, target)
        return size
    if type_ != texts.str_type:
        return np.int64(NO_TEXT)
    state, length = load_u32(text + TEXT_STATE), np.int64(load_u64(text + TEXT_LENGTH))
    width = np.int64(state >> np.uint32(TEXT_KIND)) & 7
    if (state >> np.uint32(TEXT_COMPACT)) & np.uint32(1) == np.uint32(0) or length > room:
        return np.int64(NO_TEXT)
    if (state >> np.uint32(TEXT_ASCII)) & np.uint32(1):
        _copy(text + texts.ascii_begin, length, target)
        return length
    source, surrogates = text + texts.others_begin, False
    if width == 1 and 2 * length <= room:
        end = _from_one(source, length, target)
    elif width == 2 and 3 * length <= room:
        end, surrogates = _from_two(source, length, target)
    elif width == 4 and 4 * length <= room:
        end, surrogates = _from_four(source, length, target)
    else:
        return np.int64(NO_TEXT)
    return np.int64(NO_TEXT) if surrogates else end - target


@kernel
def holds(text: I64, size: I64, sought: U64) -> bool:
    """Whether bytes occur in a text, behind which there are seven zeros or more.

    Args:
        sought: up to seven bytes, none of them zero, as a little-endian number.
    """
    # First whether the first one does, eight at a time: it seldom does.
    ones = np.uint64(0x0101_0101_0101_0101)
    same, found = ones * (sought & np.uint64(0xFF)), np.uint64(0)
    for place in range(0, size, 8):
        unlike = load_u64(text + place) ^ same
        found |= (unlike - ones) & ~unlike
    if (found & _BEYOND_ASCII) == np.uint64(0):
        return False
    mask = ~np.uint64(0) >> np.uint64(leading_zeros(sought) & ~np.int64(7))
    place = 0
    while place < size and load_u64(text + place) & mask != sought:
        place += 1
    return place < size
