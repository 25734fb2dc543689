"""How long texts are in characters, words and lines; knows no pattern."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.word_keys import I64

CHARS, WORDS, LINES = range(3)
SUMS = 3


@kernel
def _white_space(text: np.ndarray, at: I64) -> I64:
    """Bytes of the white-space character at ``at``, 0 when another character stands there.

    White space is what ``str.split`` splits at: ``str.isspace`` of every character.
    """
    byte = text[at]
    if byte < 0x80:
        return np.int64(byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F)
    second = text[at + 1]
    if byte == 0xC2:  # U+0085, U+00A0
        return np.int64(2) if second == 0x85 or second == 0xA0 else np.int64(0)
    if byte < 0xE1 or byte > 0xE3:
        return np.int64(0)
    third = text[at + 2]
    if byte == 0xE1:  # U+1680
        return np.int64(3) if second == 0x9A and third == 0x80 else np.int64(0)
    if byte == 0xE3:  # U+3000
        return np.int64(3) if second == 0x80 and third == 0x80 else np.int64(0)
    if second == 0x81:  # U+205F
        return np.int64(3) if third == 0x9F else np.int64(0)
    spaces = 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    return np.int64(3) if second == 0x80 and spaces else np.int64(0)


@kernel
def measure_spans(text: np.ndarray, spans: np.ndarray, sums: np.ndarray) -> None:
    """Add up the code points, words and lines of spans.

    Args:
        text: uint8, UTF-8 with `PADDING` readable bytes behind. spans: int64 ``[n, 2]``.
        sums: int64 ``[SUMS]``, added to. Words are maximal runs that are not white space, lines
            end at line feeds, and what stands behind the last one is a line too.
    """
    for span in range(len(spans)):
        at, end = spans[span, 0], spans[span, 1]
        if at == end:
            continue
        chars = words = np.int64(0)
        lines = np.int64(text[end - 1] != 0x0A)
        outside = True
        while at < end:
            length = _white_space(text, at)
            if length:
                outside = True
                chars += 1
                lines += text[at] == 0x0A
                at += length
                continue
            words += outside
            outside = False
            chars += (text[at] & 0xC0) != 0x80
            at += 1
        sums[CHARS] += chars
        sums[WORDS] += words
        sums[LINES] += lines
