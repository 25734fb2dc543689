"""The first place between two characters that may be parted; knows no pattern and no Unicode."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpeline.tokenizer_core.kernels.compilation import kernel

_NONE = np.int64(-1)
_LONGEST = np.int64(4)  # bytes of a character


@kernel
def _character(content: Any, position: Any) -> Any:
    """Code point and bytes of the character at ``position``; -1 and 1 if no valid one is there."""
    first = np.int64(content[position])
    if first < 0x80:
        return first, np.int64(1)
    if first < 0xC2 or first > 0xF4:
        return _NONE, np.int64(1)
    width = np.int64(2) + np.int64(first >= 0xE0) + np.int64(first >= 0xF0)
    if position + width > content.size:
        return _NONE, np.int64(1)
    point = first & (0x7F >> width)
    for i in range(1, width):
        byte = np.int64(content[position + i])
        if byte & 0xC0 != 0x80:
            return _NONE, np.int64(1)
        point = (point << 6) | (byte & 0x3F)
    surrogate = 0xD800 <= point < 0xE000
    too_long = (width == 3 and point < 0x800) or (width == 4 and point < 0x10000)
    if surrogate or too_long or point > 0x10FFFF:
        return _NONE, np.int64(1)
    return point, width


@kernel
def find_cut(content: Any, begin: Any, end: Any, class_of_point: Any, legal: Any) -> Any:
    """The first position in [begin, end) between a character and another that may be parted.

    Both are whole characters of valid UTF-8, so a place is judged by up to four bytes on both
    sides alone, whatever stands farther away.

    Args:
        content: uint8, any bytes; a character that goes on behind its end counts as none.
        begin, end: int64, at least 0, at most ``content.size``.
        class_of_point: uint8 [0x110000].
        legal: uint8 [classes, classes], of the character before and of the one behind.

    Returns:
        The position, or -1.
    """
    before = _NONE  # class of the character that ends at `position`
    position = max(begin - _LONGEST, np.int64(0))
    while position < end:
        point, width = _character(content, position)
        here = _NONE
        if point >= 0:
            here = np.int64(class_of_point[point])
            if position >= begin and before >= 0 and legal[before, here]:
                return position
        before = here
        position += width
    return _NONE
