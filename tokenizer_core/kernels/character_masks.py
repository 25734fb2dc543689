"""The characters of 64 bytes as bit masks by class; knows no pattern.

In every mask all the bytes of a character are set, so that runs of characters are runs of bits.
A character that straddles two blocks is classified with its first byte; its other bits are handed
to the next block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import (
    _range_mask,
    load_u8,
    load_u32,
    mask_ascii_controls,
    mask_ascii_digits,
    mask_ascii_letters,
    mask_continuations,
    mask_non_ascii,
    mask_spaces,
    trailing_zeros,
)

# One bit each, so that a class turns into a mask without a branch. Other is 0.
LETTER, NUMBER, WHITE_SPACE = 1, 2, 4

# Lead bytes behind which there is nothing but letters, with the code points they lead to: most of
# Cyrillic; Han from U+5000; most of Hangul. They need no table, hence no loop over characters
# (measured: Russian and Chinese 6 times faster). `class_table` verifies that `regex` agrees.
LETTERS_ONLY = ((0x0400, 0x0480), (0x5000, 0xA000), (0xB000, 0xD000))
_mask_cyrillic = _range_mask(0xD0, 2)
_mask_han = _range_mask(0xE5, 5)
_mask_hangul = _range_mask(0xEB, 2)

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_62 = np.uint64(62)
_63 = np.uint64(63)


@kernel
def class_masks(address: Any, valid: Any, straddling: Any, table: Any) -> Any:
    """Masks of letters, numbers and white space in the block at ``address``.

    Args:
        address: of 64 bytes of UTF-8.
        valid: uint64, which of them to look at; all others are 0 in every mask.
        straddling: three masks, bytes of characters that began in the block before.
        table: address of `class_table`.

    Returns:
        letters, numbers, white space, continuation bytes (all of the block), and the three masks
        of the bytes that belong to the next block (at most its first three).
    """
    letters = (mask_ascii_letters(address) & valid) | straddling[0]
    numbers = (mask_ascii_digits(address) & valid) | straddling[1]
    white = ((mask_spaces(address) | mask_ascii_controls(address)) & valid) | straddling[2]
    non_ascii = mask_non_ascii(address) & valid
    if not non_ascii:
        return letters, numbers, white, _0, (_0, _0, _0)
    continued = mask_continuations(address) & valid
    leads = non_ascii & ~continued
    two = _mask_cyrillic(address) & leads
    three = (_mask_han(address) | _mask_hangul(address)) & leads
    letters |= two | (two << _1) | three | (three << _1) | (three << _2)
    letters_after = (two >> _63) | (three >> _63) | (three >> _62)
    leads &= ~(two | three)
    k = np.int64(0)
    ones = class_ = _0
    while leads:
        k = trailing_zeros(leads)
        leads &= leads - _1
        point, ones = _decode(address + k)
        class_ = np.uint64(load_u8(table + point))
        here = ones << np.uint64(k)
        letters |= here & (_0 - (class_ & _1))
        numbers |= here & (_0 - ((class_ >> _1) & _1))
        white |= here & (_0 - ((class_ >> _2) & _1))
    # Only the last character can straddle: its masks are not worth an operation in the loop.
    after = (ones >> _1) >> (_63 - np.uint64(k))
    letters_after |= after & (_0 - (class_ & _1))
    numbers_after = after & (_0 - ((class_ >> _1) & _1))
    white_after = after & (_0 - ((class_ >> _2) & _1))
    return letters, numbers, white, continued, (letters_after, numbers_after, white_after)


@kernel
def _decode(address: Any) -> Any:
    """Code point of the non-ASCII character at ``address``, and one bit for each of its bytes."""
    four = load_u32(address)
    first = four & np.uint32(0xFF)
    second = (four >> np.uint32(8)) & np.uint32(0x3F)
    third = (four >> np.uint32(16)) & np.uint32(0x3F)
    if first < np.uint32(0xE0):
        point = ((first & np.uint32(0x1F)) << np.uint32(6)) | second
        return np.int64(point), np.uint64(0b11)
    if first < np.uint32(0xF0):
        high = ((first & np.uint32(0x0F)) << np.uint32(12)) | (second << np.uint32(6))
        return np.int64(high | third), np.uint64(0b111)
    high = ((first & np.uint32(0x07)) << np.uint32(18)) | (second << np.uint32(12))
    low = (third << np.uint32(6)) | ((four >> np.uint32(24)) & np.uint32(0x3F))
    return np.int64(high | low), np.uint64(0b1111)


@kernel
def mark_last_white(base: Any, block: Any, last_bytes: Any, before: Any, starts: Any) -> None:
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
def _mark_character(base: Any, position: Any, starts: Any) -> None:
    while load_u8(base + position) & np.uint8(0xC0) == np.uint8(0x80):
        position -= 1
    starts[np.uint64(position) >> np.uint64(6)] |= _1 << (np.uint64(position) & _63)


@kernel
def contraction_width(address: Any, fold: Any) -> Any:
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
