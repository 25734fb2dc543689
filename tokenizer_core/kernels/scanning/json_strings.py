"""JSON strings: where they end, and their content in UTF-8. No bounds are checked.

The readable bytes after a string must contain a quote or a control character.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import addresses as memory
from bpeline.tokenizer_core.kernels.memory.types import I64
from bpeline.tokenizer_core.kernels.tables.hashing import ONE

UNREAD = np.int64(-1)  # in place of an address: the reader is not sure to read the same as Python

_NONE = np.int64(-1)
_TAB, _LINE_FEED, _FORM_FEED, _RETURN, _BLANK = 0x09, 0x0A, 0x0C, 0x0D, 0x20
_QUOTE, _BACKSLASH, _SLASH = ord('"'), ord("\\"), ord("/")
_0 = ord("0")
_B, _F, _N, _R, _T, _U = (ord(letter) for letter in "bfnrtu")


def _stops(builder: Any, address: Any) -> Any:
    block = memory.load_block(builder, address)
    stops = builder.icmp_unsigned("<", block, memory.filled(_BLANK))
    for byte in (_QUOTE, _BACKSLASH):
        stops = builder.or_(stops, builder.icmp_unsigned("==", block, memory.filled(byte)))
    return builder.bitcast(stops, ir.IntType(64))


# ``mask(address) -> uint64``: which of 64 bytes end a string, escape, or are invalid in one.
mask_stops = memory.of_one(types.uint64, types.int64, _stops)

_mask_backslashes = memory.range_mask(_BACKSLASH, 1)
_mask_us = memory.range_mask(_U, 1)
_mask_decimals = memory.range_mask(_0, 10)
_mask_octals = memory.range_mask(_0, 8)
_mask_zeros = memory.range_mask(_0, 1)
_mask_letters = memory.range_mask(ord("a"), 6, fold_case=True)  # of hexadecimal digits
_mask_ds = memory.range_mask(ord("d"), 1, fold_case=True)

_ESCAPE = 6  # bytes of ``\\uXXXX``
_EIGHT = 8  # escapes that are decoded together
_EVERY_ESCAPE = np.uint64(sum(1 << at * _ESCAPE for at in range(_EIGHT)))
_BEHIND_ALL = np.uint64(1 << _EIGHT * _ESCAPE)


def _picked(builder: Any, places: Sequence[int], vector: Any, other: Any = None) -> Any:
    numbers = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), [*places])
    return builder.shuffle_vector(vector, vector if other is None else other, numbers)


def _put_eight(of: int) -> Any:
    """``put(source, target)``: eight escapes as UTF-8 of ``of`` bytes each.

    Escapes of other lengths give garbage. 32 bytes are written.
    """

    def emit(builder: Any, source: Any, target: Any) -> Any:
        def filled_eight(value: int) -> Any:
            return ir.Constant(ir.VectorType(ir.IntType(8), _EIGHT), [value] * _EIGHT)

        block = memory.load_block(builder, source)
        ten, nine = memory.filled(0x40), memory.filled(9)
        letters = builder.lshr(builder.and_(block, ten), memory.filled(6))
        values = builder.add(builder.and_(block, memory.filled(0xF)), builder.mul(letters, nine))
        first, second, third, last = (
            _picked(builder, range(digit, _EIGHT * _ESCAPE, _ESCAPE), values)
            for digit in range(2, 6)
        )
        middle = builder.or_(
            builder.shl(second, filled_eight(2)), builder.lshr(third, filled_eight(2))
        )
        final = builder.or_(
            builder.shl(builder.and_(third, filled_eight(3)), filled_eight(4)), last
        )
        final = builder.or_(final, filled_eight(0x80))
        if of == 2:
            both = builder.or_(middle, filled_eight(0xC0)), final
        else:
            both = builder.or_(first, filled_eight(0xE0)), builder.or_(middle, filled_eight(0x80))
        two = _picked(builder, range(2 * _EIGHT), *both)
        three = _picked(builder, range(2 * _EIGHT), final, final)
        order = [at + place * _EIGHT for at in range(_EIGHT) for place in range(of)]
        whole = _picked(builder, order + [0] * (32 - len(order)), two, three)
        builder.store(whole, memory.pointer(builder, target, whole.type), align=1)
        return memory.NO_RESULT

    return memory.of_two(types.void, types.int64, types.int64, emit)


_put_eight_of_two, _put_eight_of_three = _put_eight(2), _put_eight(3)

_ONES = np.uint64(0x01010101)


@kernel
def _hexadecimal(address: I64) -> I64:
    """The value of four hexadecimal digits, all at once, or -1."""
    four = np.uint64(memory.load_u32(address))
    letters = (four >> np.uint64(6)) & _ONES  # upper half of letters is 4 or 6, of digits 3
    value = (four & np.uint64(0x0F0F0F0F)) + letters * np.uint64(9)
    faults = (
        (four & np.uint64(0x80808080))
        | (((four >> np.uint64(4)) & _ONES) ^ letters ^ _ONES)
        | (((four >> np.uint64(5)) & _ONES | letters) ^ _ONES)
        # 0 to 9 are digits, 10 to 15 letters
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
    if point < 0x80:
        memory.store_u8(target, np.uint8(point))
        return target + 1
    if point < 0x800:
        memory.store_u32(target, np.uint32(0x80C0 | (point >> 6) | ((point & 0x3F) << 8)))
        return target + 2
    if point < 0x10000:
        two = (point >> 12) | (((point >> 6) & 0x3F) << 8)
        memory.store_u32(target, np.uint32(0x8080E0 | two | ((point & 0x3F) << 16)))
        return target + 3
    three = (point >> 18) | (((point >> 12) & 0x3F) << 8) | (((point >> 6) & 0x3F) << 16)
    memory.store_u32(target, np.uint32(0x808080F0 | three | ((point & 0x3F) << 24)))
    return target + 4


@kernel
def _copy_escape(position: I64, target: I64) -> tuple[I64, I64]:
    """Write the character of the escape at a backslash; `UNREAD` for half a pair too."""
    letter = np.int64(memory.load_u8(position + 1))
    if letter != _U:
        byte = _simple_escape(letter)
        if byte < 0:
            return UNREAD, target
        memory.store_u8(target, np.uint8(byte))
        return position + 2, target + 1
    point = _hexadecimal(position + 2)
    if point < 0:
        return UNREAD, target
    position += 6
    if point & 0xF800 == 0xD800:
        # A surrogate pair, which Python decodes to one character.
        if (
            point >= 0xDC00
            or memory.load_u8(position) != _BACKSLASH
            or memory.load_u8(position + 1) != _U
        ):
            return UNREAD, target
        second = _hexadecimal(position + 2)
        if second & ~np.int64(0x3FF) != 0xDC00:  # also true for -1
            return UNREAD, target
        point = 0x10000 + ((point & 0x3FF) << 10 | (second & 0x3FF))
        position += 6
    return position, _put_character(point, target)


@kernel
def _copy_escapes(position: I64, target: I64) -> tuple[I64, I64]:
    """Write the characters of up to eight ``\\uXXXX``, and text up to the next stop.

    Takes those that have as many bytes of UTF-8 as the first, two or three. Returns where to
    continue reading (unchanged if the first escape is another) and writing.
    """
    hexadecimal = _mask_decimals(position) | _mask_letters(position)
    octal, zero = _mask_octals(position), _mask_zeros(position)
    # The bit of an escape is at its backslash.
    escapes = _mask_backslashes(position) & (_mask_us(position) >> np.uint64(1))
    for digit in (2, 3, 4, 5):
        escapes &= hexadecimal >> np.uint64(digit)
    small = (zero >> np.uint64(2)) & (octal >> np.uint64(3))  # below U+0800
    ascii = small & (zero >> np.uint64(3)) & (octal >> np.uint64(4))
    half = (_mask_ds(position) >> np.uint64(2)) & ~(octal >> np.uint64(3))
    threes, twos = escapes & ~(small | half), escapes & small & ~ascii
    if threes & ONE:
        _put_eight_of_three(position, target)
        run = memory.trailing_zeros((~threes & _EVERY_ESCAPE) | _BEHIND_ALL)
        target += run >> 1
    elif twos & ONE:
        _put_eight_of_two(position, target)
        run = memory.trailing_zeros((~twos & _EVERY_ESCAPE) | _BEHIND_ALL)
        target += run * 43 >> 7  # a third
    else:
        return position, target
    stops = mask_stops(position) >> np.uint64(run)
    position += run
    memory.copy_block(position, target)
    plain = min(memory.trailing_zeros(stops), 64 - run)
    return position + plain, target + plain


@kernel
def copy_string(position: I64, target: I64) -> tuple[I64, I64]:
    """Write the content of a string, from after its opening quote.

    Returns the address after the closing quote, or `UNREAD`; and the one after the content. Up to
    64 bytes after the content are overwritten.
    """
    while True:
        stops = mask_stops(position)
        memory.copy_block(position, target)
        if not stops:
            position += 64
            target += 64
            continue
        run = memory.trailing_zeros(stops)
        position += run
        target += run
        byte = memory.load_u8(position)
        while byte == _BACKSLASH:  # often many, if a whole script is escaped
            before = position
            if memory.load_u8(position + 1) == _U:
                position, target = _copy_escapes(position, target)
            if position == before:
                position, target = _copy_escape(position, target)
                if position < 0:
                    return UNREAD, target
            byte = memory.load_u8(position)
        if byte == _QUOTE:
            return position + 1, target
        if byte < _BLANK:
            return UNREAD, target


@kernel
def skip_string(position: I64) -> I64:
    """Skip from after an opening quote to after the closing one; or `UNREAD`."""
    while True:
        stops = mask_stops(position)
        if not stops:
            position += 64
            continue
        position += memory.trailing_zeros(stops)
        byte = memory.load_u8(position)
        if byte == _QUOTE:
            return position + 1
        if byte != _BACKSLASH:
            return UNREAD
        letter = np.int64(memory.load_u8(position + 1))
        if letter == _U:
            if _hexadecimal(position + 2) < 0:
                return UNREAD
            position += 6
        elif _simple_escape(letter) < 0:
            return UNREAD
        else:
            position += 2
