"""Character classes of 64 bytes of text at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    BLOCK,
    HAS_SIMD,
    by_name,
    filled,
    load_block,
    load_u8,
    load_u32,
    of_two,
    plane_masks,
    range_mask,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Masks
from bpeline.tokenizer_core.kernels.scanning.characters import decode_beyond_ascii

# Classes are three bits, and a mask per bit is collected; letters are those with the highest bit.
OTHER, NUMBER, WHITE_SPACE, MARK, CASELESS, UPPER, LOWER = range(7)


# Half-open ranges of code points of one class, found by comparing bytes instead of a slower table
# look-up per character. ALTERNATING are pairs of a capital (even) and a small letter (odd). Each
# comparison costs time in every block, so ranges are grouped by first byte, and a block is compared
# only with groups of its characters. `class_table` verifies that `regex` agrees.
ALTERNATING = -1
CLASS_RANGES = {
    "Latin": (
        (OTHER, 0x00AB, 0x00AC),
        (OTHER, 0x00BB, 0x00BC),
        (UPPER, 0x00C0, 0x00D7),
        (UPPER, 0x00D8, 0x00DF),
        (LOWER, 0x00DF, 0x00F7),
        (LOWER, 0x00F8, 0x0100),
        (ALTERNATING, 0x0100, 0x0130),
        (ALTERNATING, 0x014A, 0x0178),
    ),
    "Greek": (
        (UPPER, 0x0391, 0x03A2),
        (UPPER, 0x03A3, 0x03AC),
        (LOWER, 0x03AC, 0x03CF),
        (ALTERNATING, 0x03E2, 0x03F0),
    ),
    "Russian": (
        (UPPER, 0x0400, 0x0430),
        (LOWER, 0x0430, 0x0460),
        (ALTERNATING, 0x0460, 0x0480),
    ),
    "more Cyrillic": (
        (ALTERNATING, 0x048A, 0x04C0),
        (ALTERNATING, 0x04D0, 0x0530),
    ),
    "Hebrew, Arabic": (
        (CASELESS, 0x05D0, 0x05EB),
        (OTHER, 0x060C, 0x060E),
        (OTHER, 0x061B, 0x061C),
        (OTHER, 0x061F, 0x0620),
        (CASELESS, 0x0620, 0x064B),
        (MARK, 0x064B, 0x0660),
        (CASELESS, 0x0671, 0x06D4),
    ),
    "Devanagari, Thai": (
        (CASELESS, 0x0904, 0x093A),
        (MARK, 0x093E, 0x0950),
        (OTHER, 0x0964, 0x0966),
        (CASELESS, 0x0E01, 0x0E31),
        (MARK, 0x0E34, 0x0E3B),
        (CASELESS, 0x0E40, 0x0E47),
        (MARK, 0x0E47, 0x0E4F),
    ),
    "Vietnamese, Coptic, punctuation": (
        (ALTERNATING, 0x1EA0, 0x1F00),
        (OTHER, 0x2010, 0x2028),
        (ALTERNATING, 0x2C80, 0x2CE4),
    ),
    "kana": (
        (OTHER, 0x3001, 0x3004),
        (CASELESS, 0x3005, 0x3007),
        (OTHER, 0x3008, 0x3012),
        (CASELESS, 0x3041, 0x3097),
        (CASELESS, 0x30A1, 0x30FB),
        (CASELESS, 0x30FC, 0x3100),
        (CASELESS, 0x3131, 0x318F),
    ),
    "Han, Hangul": (
        (CASELESS, 0x4E00, 0xA000),
        (CASELESS, 0xAC00, 0xD7A4),
    ),
    "wide punctuation": (
        (OTHER, 0xFF01, 0xFF10),
        (OTHER, 0xFF1A, 0xFF21),
    ),
}


def _sequences(begin: int, end: int) -> list[tuple[tuple[int, int], ...]]:
    """Byte ranges of the UTF-8 of code points [begin, end) of two or three bytes."""
    if begin < 0x800:
        leads, size = (0xC0 | begin >> 6, 0xC0 | (end - 1) >> 6), 1 << 6
    else:
        leads, size = (0xE0 | begin >> 12, 0xE0 | (end - 1) >> 12), 1 << 12
    return _below(begin, end, size, (leads,))


def _below(
    begin: int, end: int, size: int, ranges: tuple[tuple[int, int], ...]
) -> list[tuple[tuple[int, int], ...]]:
    """Byte ranges for [begin, end); a last byte stands for ``size`` code points.

    Bytes after a range of several values may take any value.
    """
    first, last = ranges[-1]
    if begin % size == end % size == 0:
        return [ranges]
    if first < last:
        edge = min(end, (begin // size + 1) * size)
        if begin % size:
            rest = _below(edge, end, size, (*ranges[:-1], (first + 1, last)))
            return _below(begin, edge, size, (*ranges[:-1], (first, first))) + rest
        edge = end // size * size
        rest = _below(edge, end, size, (*ranges[:-1], (last, last)))
        return _below(begin, edge, size, (*ranges[:-1], (first, last - 1))) + rest
    size >>= 6
    following = (0x80 | begin // size & 0x3F, 0x80 | (end - 1) // size & 0x3F)
    return _below(begin, end, size, (*ranges, following))


def _comparison(group: str) -> Any:
    rows = []
    for class_, begin, end in CLASS_RANGES[group]:
        classes = (UPPER, LOWER) if class_ == ALTERNATING else (class_, class_)
        rows += [(sequence, *classes) for sequence in _sequences(begin, end)]
    return plane_masks(rows)


_latin = _comparison("Latin")
_greek = _comparison("Greek")
_russian = _comparison("Russian")
_cyrillic = _comparison("more Cyrillic")
_arabic = _comparison("Hebrew, Arabic")
_indic = _comparison("Devanagari, Thai")
_general = _comparison("Vietnamese, Coptic, punctuation")
_kana = _comparison("kana")
compare_han = _comparison("Han, Hangul")
_wide = _comparison("wide punctuation")
_mask_latin = range_mask(0xC2, 0xC6 - 0xC2)
_mask_greek = range_mask(0xCE, 2)
_mask_russian = range_mask(0xD0, 2)
_mask_cyrillic = range_mask(0xD2, 3)
_mask_arabic = range_mask(0xD7, 0xDC - 0xD7)
_mask_indic = range_mask(0xE0, 1)
_mask_general = range_mask(0xE1, 2)
_mask_kana = range_mask(0xE3, 1)
_mask_han = range_mask(0xE4, 0xEE - 0xE4)
_mask_wide = range_mask(0xEF, 1)

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_62 = np.uint64(62)
_63 = np.uint64(63)


@kernel
def classes_by_range(
    address: I64, leads: U64, low: U64, middle: U64, high: U64, table: I64
) -> tuple[Any, ...]:
    """Add the characters that begin at ``leads`` to the three masks of `class_masks`.

    ``table`` is the address of `class_table`. Also returns the masks of the bytes that belong to
    the next block.
    """
    two = _of_two_bytes(address, leads)
    three = _of_three_bytes(address, leads)
    leads &= ~(two[3] | three[3])
    low |= _spread(two[0], three[0])
    middle |= _spread(two[1], three[1])
    high |= _spread(two[2], three[2])
    after = (_after(two[0], three[0]), _after(two[1], three[1]), _after(two[2], three[2]))
    if not leads:
        return low, middle, high, after
    k = np.int64(0)
    ones = class_ = _0
    while leads:
        k = trailing_zeros(leads)
        leads &= leads - _1
        point, size = decode_beyond_ascii(address + k)
        ones = (_1 << np.uint64(size)) - _1
        class_ = np.uint64(load_u8(table + point))
        here = ones << np.uint64(k)
        low |= here & (_0 - (class_ & _1))
        middle |= here & (_0 - ((class_ >> _1) & _1))
        high |= here & (_0 - (class_ >> _2))
    # Only the last character can straddle, so its masks are computed outside the loop.
    ones = (ones >> _1) >> (_63 - np.uint64(k))
    after = (
        after[0] | (ones & (_0 - (class_ & _1))),
        after[1] | (ones & (_0 - ((class_ >> _1) & _1))),
        after[2] | (ones & (_0 - (class_ >> _2))),
    )
    return low, middle, high, after


@kernel
def _spread(two: U64, three: U64) -> U64:
    """All bytes in this block of characters of two and three bytes."""
    return two | (two << _1) | three | (three << _1) | (three << _2)


@kernel
def _after(two: U64, three: U64) -> U64:
    """Those of their bytes that are in the next block."""
    return (two >> _63) | (three >> _63) | (three >> _62)


@kernel
def _with(known: Masks, compared: Masks, leads: U64) -> Masks:
    """Four masks of `plane_masks`, with the results of a comparison at ``leads``."""
    return (
        known[0] | (compared[0] & leads),
        known[1] | (compared[1] & leads),
        known[2] | (compared[2] & leads),
        known[3] | (compared[3] & leads),
    )


@kernel
def _of_two_bytes(address: I64, leads: U64) -> Masks:
    """Compare two-byte characters at these ``leads``; returns masks of `plane_masks`."""
    masks = (_0, _0, _0, _0)
    some = _mask_latin(address) & leads
    if some:
        masks = _with(masks, _latin(address), some)
    some = _mask_greek(address) & leads
    if some:
        masks = _with(masks, _greek(address), some)
    some = _mask_russian(address) & leads
    if some:
        masks = _with(masks, _russian(address), some)
    some = _mask_cyrillic(address) & leads
    if some:
        masks = _with(masks, _cyrillic(address), some)
    some = _mask_arabic(address) & leads
    if some:
        masks = _with(masks, _arabic(address), some)
    return masks


@kernel
def _of_three_bytes(address: I64, leads: U64) -> Masks:
    masks = (_0, _0, _0, _0)
    some = _mask_han(address) & leads
    if some:
        masks = _with(masks, compare_han(address), some)
    some = _mask_kana(address) & leads
    if some:
        masks = _with(masks, _kana(address), some)
    some = _mask_indic(address) & leads
    if some:
        masks = _with(masks, _indic(address), some)
    some = _mask_general(address) & leads
    if some:
        masks = _with(masks, _general(address), some)
    some = _mask_wide(address) & leads
    if some:
        masks = _with(masks, _wide(address), some)
    return masks


_I32, _I64 = ir.IntType(32), ir.IntType(64)
_3, _6, _8, _12, _16, _18, _61 = map(np.uint64, (3, 6, 8, 12, 16, 18, 61))
_BYTE = np.uint64(0xFF)
# Payload bits of the first byte of characters of two, three and four bytes.
_OWN_OF_TWO, _OWN_OF_THREE, _OWN_OF_FOUR = map(np.uint64, (0x1F, 0x0F, 0x07))
_mask_longer = range_mask(0xE0, 0x20)
_mask_four = range_mask(0xF0, 0x10)


def _same(builder: Any, address: Any, byte: Any) -> Any:
    block, byte = load_block(builder, address), builder.trunc(byte, ir.IntType(8))
    undefined = ir.Constant(block.type, ir.Undefined)
    vector = builder.insert_element(undefined, byte, ir.Constant(_I32, 0))
    first = ir.Constant(ir.VectorType(_I32, BLOCK), [0] * BLOCK)
    everywhere = builder.shuffle_vector(vector, vector, first)
    return builder.bitcast(builder.icmp_unsigned("==", block, everywhere), _I64)


def _bit_of_class(bit: int) -> Any:
    def emit(builder: Any, address: Any, page: Any) -> Any:
        if not HAS_SIMD:
            return ir.Constant(_I64, 0)
        last, classes = load_block(builder, address), load_block(builder, page)
        name = "llvm.x86.avx512.permvar.qi.512"
        bits = builder.and_(by_name(builder, name, last.type, classes, last), filled(1 << bit))
        return builder.bitcast(builder.icmp_unsigned("!=", bits, filled(0)), _I64)

    return of_two(types.uint64, types.int64, types.int64, emit)


# ``_same_bytes(address, byte)``: which of 64 bytes are this one.
_same_bytes = of_two(types.uint64, types.int64, types.uint64, _same)
# ``_low(address, page)`` and so on: for each of 64 bytes, one bit of the class at its lowest six
# bits in a page of 64 classes.
_low, _middle, _high = map(_bit_of_class, range(3))


@kernel
def classes_by_page(
    address: I64, leads: U64, low: U64, middle: U64, high: U64, table: I64
) -> tuple[U64, U64, U64, Masks]:
    """`classes_by_range` by AVX-512 permutations, one page of 64 characters at a time."""
    longer = _mask_longer(address) & leads
    two = _two_byte_classes(address, leads & ~longer, table)
    low |= two[0] | (two[0] << _1)
    middle |= two[1] | (two[1] << _1)
    high |= two[2] | (two[2] << _1)
    after = two[0] >> _63, two[1] >> _63, two[2] >> _63
    four = _mask_four(address) & longer
    if longer ^ four:
        three = _three_byte_classes(address, longer ^ four, table)
        low |= _three_of(three[0])
        middle |= _three_of(three[1])
        high |= _three_of(three[2])
        spilled = _two_behind(three[0]), _two_behind(three[1]), _two_behind(three[2])
        after = _either(after, spilled)
    if four:
        more = _of_four_bytes(address, four, table)
        low |= _three_of(more[0]) | (more[0] << _3)
        middle |= _three_of(more[1]) | (more[1] << _3)
        high |= _three_of(more[2]) | (more[2] << _3)
        after = _either(after, (more[0] >> _61, more[1] >> _61, more[2] >> _61))
        after = _either(after, (_two_behind(more[0]), _two_behind(more[1]), _two_behind(more[2])))
    return low, middle, high, after


@kernel
def _three_of(begins: U64) -> U64:
    """The first three bytes of characters, as far as they are in this block."""
    return begins | (begins << _1) | (begins << _2)


@kernel
def _two_behind(begins: U64) -> U64:
    """Their second and third bytes that are in the next block."""
    return (begins >> _63) | (begins >> _62)


@kernel
def _either(masks: Masks, others: Masks) -> Masks:
    return masks[0] | others[0], masks[1] | others[1], masks[2] | others[2]


@kernel
def _in_page(address: I64, page: I64, here: U64) -> Masks:
    """The class bits of the characters of one page, at their begins.

    ``address`` is that of the last byte of a character that would begin at the block's first byte.
    """
    return _low(address, page) & here, _middle(address, page) & here, _high(address, page) & here


@kernel
def _two_byte_classes(address: I64, leads: U64, table: I64) -> Masks:
    masks = (_0, _0, _0)
    while leads:
        lead = np.uint64(load_u8(address + trailing_zeros(leads)))
        here = _same_bytes(address, lead) & leads
        leads ^= here
        page = (lead & _OWN_OF_TWO) << _6
        masks = _either(masks, _in_page(address + 1, table + np.int64(page), here))
    return masks


@kernel
def _three_byte_classes(address: I64, leads: U64, table: I64) -> Masks:
    han = compare_han(address)
    masks = (han[0] & leads, han[1] & leads, han[2] & leads)
    leads &= ~han[3]
    while leads:
        four = np.uint64(load_u32(address + trailing_zeros(leads)))
        second = (four >> _8) & _BYTE
        here = _same_bytes(address, four & _BYTE) & _same_bytes(address + 1, second) & leads
        leads ^= here
        page = ((four & _OWN_OF_THREE) << _12) | ((second & _63) << _6)
        masks = _either(masks, _in_page(address + 2, table + np.int64(page), here))
    return masks


@kernel
def _of_four_bytes(address: I64, leads: U64, table: I64) -> Masks:
    masks = (_0, _0, _0)
    while leads:
        four = np.uint64(load_u32(address + trailing_zeros(leads)))
        second, third = (four >> _8) & _BYTE, (four >> _16) & _BYTE
        here = _same_bytes(address, four & _BYTE) & _same_bytes(address + 1, second)
        here &= _same_bytes(address + 2, third) & leads
        leads ^= here
        page = ((four & _OWN_OF_FOUR) << _18) | ((second & _63) << _12) | ((third & _63) << _6)
        masks = _either(masks, _in_page(address + 3, table + np.int64(page), here))
    return masks
