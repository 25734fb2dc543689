"""Classes of characters beyond ASCII by AVX-512, all of one page at once; knows no pattern.

The characters that differ in their last byte alone are a *page*: 64 code points, and 64 bytes of
`class_table`, which one instruction looks up for 64 places of a text. A text visits few pages
within 64 bytes, but for those of Han and Hangul, whose classes need no table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    BLOCK,
    filled,
    load_block,
    load_u8,
    load_u32,
    of_two,
    range_mask,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.simd import HAS_SIMD, by_name
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Masks
from bpeline.tokenizer_core.kernels.scanning.class_ranges import compare_han

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_0, _1, _2, _3 = map(np.uint64, range(4))
_6, _8, _12, _16, _18 = map(np.uint64, (6, 8, 12, 16, 18))
_61, _62, _63 = map(np.uint64, (61, 62, 63))
_BYTE = np.uint64(0xFF)
# Of the first byte of characters of two, three and four bytes: the bits that are theirs.
_OWN_OF_TWO, _OWN_OF_THREE, _OWN_OF_FOUR = map(np.uint64, (0x1F, 0x0F, 0x07))
_mask_longer = range_mask(0xE0, 0x20)
_mask_four = range_mask(0xF0, 0x10)


def _same(builder: Any, address: Any, byte: Any) -> Any:
    block, byte = load_block(builder, address), builder.trunc(byte, ir.IntType(8))
    undefined = ir.Constant(block.type, ir.Undefined)
    one = builder.insert_element(undefined, byte, ir.Constant(_I32, 0))
    first = ir.Constant(ir.VectorType(_I32, BLOCK), [0] * BLOCK)
    everywhere = builder.shuffle_vector(one, one, first)
    return builder.bitcast(builder.icmp_unsigned("==", block, everywhere), _I64)


def _bit_of_class(bit: int) -> Any:
    def emit(builder: Any, address: Any, page: Any) -> Any:
        if not HAS_SIMD:
            return ir.Constant(_I64, 0)
        last, classes = load_block(builder, address), load_block(builder, page)
        name = "llvm.x86.avx512.permvar.qi.512"
        found = builder.and_(by_name(builder, name, last.type, classes, last), filled(1 << bit))
        return builder.bitcast(builder.icmp_unsigned("!=", found, filled(0)), _I64)

    return of_two(types.uint64, types.int64, types.int64, emit)


# ``_same_bytes(address, byte)``: which of 64 bytes are this one.
_same_bytes = of_two(types.uint64, types.int64, types.uint64, _same)
# ``…(address, page)``: one bit of what stands in a page of 64 bytes at the lowest six bits of each
# of 64 bytes.
_low, _middle, _high = map(_bit_of_class, range(3))


@kernel
def classes_by_page(
    address: I64, leads: U64, low: U64, middle: U64, high: U64, table: I64
) -> tuple[U64, U64, U64, Masks]:
    """The three masks of `class_masks` with the characters that begin at ``leads``.

    Args:
        low, middle, high: what is known of the block.
        table: address of `class_table`.

    Returns:
        The three masks, and those of the bytes that belong to the next block.
    """
    longer = _mask_longer(address) & leads
    two = _of_two_bytes(address, leads & ~longer, table)
    low |= two[0] | (two[0] << _1)
    middle |= two[1] | (two[1] << _1)
    high |= two[2] | (two[2] << _1)
    after = two[0] >> _63, two[1] >> _63, two[2] >> _63
    four = _mask_four(address) & longer
    if longer ^ four:
        three = _of_three_bytes(address, longer ^ four, table)
        low |= _three_of(three[0])
        middle |= _three_of(three[1])
        high |= _three_of(three[2])
        behind = _two_behind(three[0]), _two_behind(three[1]), _two_behind(three[2])
        after = _either(after, behind)
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
    """The first three bytes of characters, as far as they lie in the block."""
    return begins | (begins << _1) | (begins << _2)


@kernel
def _two_behind(begins: U64) -> U64:
    """Those of the second and the third ones that lie in the next block."""
    return (begins >> _63) | (begins >> _62)


@kernel
def _either(masks: Masks, others: Masks) -> Masks:
    return masks[0] | others[0], masks[1] | others[1], masks[2] | others[2]


@kernel
def _in_page(address: I64, page: I64, here: U64) -> Masks:
    """The bits of classes of characters of one page, where they begin.

    Args:
        address: of the last byte of a character that begins in the block's first place.
        page: its address.
    """
    return _low(address, page) & here, _middle(address, page) & here, _high(address, page) & here


@kernel
def _of_two_bytes(address: I64, leads: U64, table: I64) -> Masks:
    found = (_0, _0, _0)
    while leads:
        lead = np.uint64(load_u8(address + trailing_zeros(leads)))
        here = _same_bytes(address, lead) & leads
        leads ^= here
        page = (lead & _OWN_OF_TWO) << _6
        found = _either(found, _in_page(address + 1, table + np.int64(page), here))
    return found


@kernel
def _of_three_bytes(address: I64, leads: U64, table: I64) -> Masks:
    han = compare_han(address)
    found = (han[0] & leads, han[1] & leads, han[2] & leads)
    leads &= ~han[3]
    while leads:
        four = np.uint64(load_u32(address + trailing_zeros(leads)))
        second = (four >> _8) & _BYTE
        here = _same_bytes(address, four & _BYTE) & _same_bytes(address + 1, second) & leads
        leads ^= here
        page = ((four & _OWN_OF_THREE) << _12) | ((second & _63) << _6)
        found = _either(found, _in_page(address + 2, table + np.int64(page), here))
    return found


@kernel
def _of_four_bytes(address: I64, leads: U64, table: I64) -> Masks:
    found = (_0, _0, _0)
    while leads:
        four = np.uint64(load_u32(address + trailing_zeros(leads)))
        second, third = (four >> _8) & _BYTE, (four >> _16) & _BYTE
        here = _same_bytes(address, four & _BYTE) & _same_bytes(address + 1, second)
        here &= _same_bytes(address + 2, third) & leads
        leads ^= here
        page = ((four & _OWN_OF_FOUR) << _18) | ((second & _63) << _12) | ((third & _63) << _6)
        found = _either(found, _in_page(address + 3, table + np.int64(page), here))
    return found
