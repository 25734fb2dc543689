"""The characters of 64 bytes as bit masks by class; knows no pattern.

In every mask all the bytes of a character are set, so that runs of characters are runs of bits.
A character that straddles two blocks is classified with its first byte; its other bits are handed
to the next block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    mask_ascii_controls,
    mask_ascii_digits,
    mask_ascii_letters,
    mask_continuations,
    mask_non_ascii,
    mask_spaces,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.bitmaps import mark
from bpeline.tokenizer_core.kernels.memory.simd import HAS_SIMD
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Int, Masks, U64s
from bpeline.tokenizer_core.kernels.scanning.class_pages import classes_by_page
from bpeline.tokenizer_core.kernels.scanning.class_ranges import classes_by_range

# A function of its own, so that what ASCII needs stays small enough to be inlined.
_beyond_ascii = classes_by_page if HAS_SIMD else classes_by_range

_0 = np.uint64(0)
_1 = np.uint64(1)


@kernel
def class_masks(address: I64, valid: U64, straddling: Masks, table: I64) -> tuple[Any, ...]:
    """Masks of the classes of characters in the block at ``address``.

    Args:
        address: of 64 bytes of UTF-8.
        valid: uint64, which of them to look at; all others are 0 in every mask.
        straddling: three masks, bytes of characters that began in the block before.
        table: address of `class_table`.

    Returns:
        letters, numbers, white space, marks, capitals beyond ASCII (upper and title case), small
        letters beyond ASCII, continuation bytes (all of the block), and the three masks of the
        bytes that belong to the next block (at most its first three).
    """
    low = (mask_ascii_digits(address) & valid) | straddling[0]
    middle = ((mask_spaces(address) | mask_ascii_controls(address)) & valid) | straddling[1]
    high = (mask_ascii_letters(address) & valid) | straddling[2]
    non_ascii = mask_non_ascii(address) & valid
    if not non_ascii:
        return high, low, middle, _0, _0, _0, _0, (_0, _0, _0)
    continued = mask_continuations(address) & valid
    low, middle, high, straddling = _beyond_ascii(
        address, non_ascii & ~continued, low, middle, high, table
    )
    return (
        high,
        low & ~(middle | high),
        middle & ~(low | high),
        low & middle,
        low & high,
        middle & high,
        continued,
        straddling,
    )


@kernel
def mark_last_white(base: I64, block: I64, last_bytes: U64, before: U64, starts: U64s) -> None:
    """Mark the white-space characters that end at bytes other than one of this block's ASCII.

    Args:
        base: address of the text.
        block: position of the block.
        last_bytes: uint64, last bytes of characters that are several bytes long.
        before: uint64, whether the character that ends with the block before is meant too.
        starts: the bitmap.
    """
    while last_bytes:
        k = trailing_zeros(last_bytes)
        last_bytes &= last_bytes - _1
        _mark_character(base, block + k, starts)
    if before:
        _mark_character(base, block - 1, starts)


@kernel
def _mark_character(base: I64, position: I64, starts: U64s) -> None:
    while load_u8(base + position) & np.uint8(0xC0) == np.uint8(0x80):
        position -= 1
    mark(starts, position)


@kernel
def contraction_width(address: I64, fold: Int) -> I64:
    """Bytes of the contraction ('s 'd 'm 't 'll 've 're) at an apostrophe's ``address``, or 0.

    ``fold`` is 0x20 to take capitals too, and U+017F, which folds to s; 0 for small letters only.
    """
    second = load_u8(address + 1)
    third = load_u8(address + 2)
    if fold and second == np.uint8(0xC5) and third == np.uint8(0xBF):
        return np.int64(3)
    second |= fold
    third |= fold
    if second in (0x73, 0x64, 0x6D, 0x74):  # s d m t
        return np.int64(2)
    if second == 0x6C and third == 0x6C:  # ll
        return np.int64(3)
    if (second == 0x76 or second == 0x72) and third == 0x65:  # ve re
        return np.int64(3)
    return np.int64(0)
