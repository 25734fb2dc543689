"""Documents cut into sections of about equal size; knows nothing of what they are for."""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.word_keys import I64

SPACE = np.uint8(0x20)
FIRST_PRINTABLE, LAST_PRINTABLE = np.uint8(0x21), np.uint8(0x7E)


@kernel
def _is_printable(byte: I64) -> bool:
    return byte >= FIRST_PRINTABLE and byte <= LAST_PRINTABLE


@kernel
def _lone_space(text: np.ndarray, place: I64, end: I64) -> I64:
    """The first space from ``place`` on between two printable ASCII characters, or -1."""
    while place < end - 1:
        alone = _is_printable(text[place - 1]) and _is_printable(text[place + 1])
        if text[place] == SPACE and alone:
            return place
        place += 1
    return np.int64(-1)


@kernel
def cut_sections(text: np.ndarray, documents: np.ndarray, size: I64, sections: np.ndarray) -> I64:
    """Cut each document at the first lone space behind every ``size`` bytes; how many sections.

    Args:
        text: uint8. documents: int64 ``[n, 2]`` spans, ascending.
        sections: int64 ``[m, 2]``, receives spans; m ≥ Σ (length // size + 1).
    """
    number = 0
    for document in range(len(documents)):
        begin, end = documents[document, 0], documents[document, 1]
        while end - begin > size:
            cut = _lone_space(text, begin + size, end)
            if cut < 0:
                break
            sections[number, 0], sections[number, 1] = begin, cut
            number += 1
            begin = cut
        sections[number, 0], sections[number, 1] = begin, end
        number += 1
    return number
