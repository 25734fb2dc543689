"""How long texts are in characters, words and lines; knows no pattern."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s
from bpeline.tokenizer_core.kernels.scanning.characters import decode

CHARS, WORDS, LINES = range(3)
SUMS = 3


@kernel
def _is_space(point: I64) -> bool:
    """``str.isspace``: where ``str.split`` splits."""
    if point < 0x80:
        return point == 0x20 or 0x09 <= point <= 0x0D or 0x1C <= point <= 0x1F
    if point < 0x1680:
        return point == 0x85 or point == 0xA0
    general = 0x2000 <= point <= 0x200A or point in (0x2028, 0x2029, 0x202F, 0x205F)
    return general or point == 0x1680 or point == 0x3000


@entry_kernel
def measure_spans(text: U8s, spans: I64Rows, sums: I64s) -> None:
    """Add up the code points, words and lines of spans.

    Args:
        text: uint8, UTF-8 with `PADDING` readable bytes behind. spans: int64 ``[n, 2]``.
        sums: int64 ``[SUMS]``, added to. Words are maximal runs that are not white space, lines
            end at line feeds, and what stands behind the last one is a line too.
    """
    base = text.ctypes.data
    for span in range(len(spans)):
        at, end = spans[span, 0], spans[span, 1]
        if at == end:
            continue
        chars = words = np.int64(0)
        lines = np.int64(text[end - 1] != 0x0A)
        outside = True
        while at < end:
            point, size = decode(base + at)
            chars += 1
            at += size
            if _is_space(point):
                outside = True
                lines += point == 0x0A
            else:
                words += outside
                outside = False
        sums[CHARS] += chars
        sums[WORDS] += words
        sums[LINES] += lines
