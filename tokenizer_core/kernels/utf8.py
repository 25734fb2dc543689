"""Where bytes stop being UTF-8; knows nothing of characters' classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import load_u8, load_u32, mask_non_ascii, trailing_zeros


@kernel
def _sequence_length(four: Any) -> Any:
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
def invalid_utf8(text: Any, size: Any) -> Any:
    """Position of the first ill-formed sequence in the first ``size`` bytes, or -1.

    Args:
        text: uint8 with `PADDING` readable bytes behind ``size``.
    """
    base = text.ctypes.data
    position = np.int64(0)
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
