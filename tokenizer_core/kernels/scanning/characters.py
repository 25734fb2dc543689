"""Characters of UTF-8 one by one; what is there is valid."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u8, load_u32
from bpeline.tokenizer_core.kernels.memory.types import I64, Int


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
