"""Places between two characters that may be parted; knows no pattern and no Unicode."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, ReadOnlyU8s, U8Rows, U8s

_NONE = np.int64(-1)
_LONGEST = np.int64(4)  # bytes of a character


@kernel
def _character(content: ReadOnlyU8s, position: I64) -> tuple[I64, I64]:
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
def first_legal(content: U8s, begin: I64, end: I64, class_of_point: U8s, legal: U8Rows) -> I64:
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


@kernel
def _last_legal(content: U8s, begin: I64, end: I64, class_of_point: U8s, legal: U8Rows) -> I64:
    """The last position in (begin, end] that may be parted, or ``begin``; ``end`` begins one."""
    while end > begin:
        place = end - 1
        while place > begin and content[place] & 0xC0 == 0x80:
            place -= 1
        before, _ = _character(content, place)
        here, _ = _character(content, end)
        if before >= 0 and here >= 0 and legal[class_of_point[before], class_of_point[here]]:
            return end
        end = place
    return begin


@entry_kernel
def find_cut(content: ReadOnlyU8s, begin: I64, end: I64, class_of_point: U8s, legal: U8Rows) -> I64:
    """`first_legal`, for Python."""
    return first_legal(content, begin, end, class_of_point, legal)


@entry_kernel
def cut_sections(
    text: ReadOnlyU8s,
    documents: I64Rows,
    size: I64,
    ahead: I64,
    class_of_point: U8s,
    legal: U8Rows,
    sections: I64Rows,
) -> I64:
    """Cut each document at the first legal place behind every ``size`` bytes; how many sections.

    Args:
        text: uint8. documents: int64 ``[n, 2]`` spans, ascending.
        size: more than the bytes of a character.
        ahead: bytes of a document that must lie behind a cut.
        class_of_point, legal: as for `first_legal`.
        sections: int64 ``[m, 2]``, receives spans; m ≥ Σ (length // size + 1).
    """
    number = 0
    for document in range(len(documents)):
        begin, end = documents[document, 0], documents[document, 1]
        while end - begin > size:
            cut = first_legal(text, begin + size, end - ahead + 1, class_of_point, legal)
            if cut < 0:
                break
            sections[number, 0], sections[number, 1] = begin, cut
            number += 1
            begin = cut
        sections[number, 0], sections[number, 1] = begin, end
        number += 1
    return number


@entry_kernel
def cut_out(
    text: ReadOnlyU8s,
    documents: I64Rows,
    spans: I64Rows,
    class_of_point: U8s,
    legal: U8Rows,
    rest: I64Rows,
) -> I64:
    """Remove spans from documents, each widened to the next legal places; how many parts are left.

    Args:
        text: uint8, UTF-8 in the documents.
        documents: int64 ``[n, 2]``, ascending, apart from each other.
        spans: int64 ``[m, 2]``, likewise; they may reach over the ends of documents and the text.
        class_of_point, legal: as for `first_legal`.
        rest: int64 ``[n + m, 2]``, receives spans.
    """
    number = 0
    first = 0
    for document in range(len(documents)):
        begin, end = documents[document, 0], documents[document, 1]
        while first < len(spans) and spans[first, 1] <= begin:
            first += 1
        place = first
        while place < len(spans) and spans[place, 0] < end:
            stop = spans[place, 1]
            if stop > begin:
                cut = _last_legal(text, begin, spans[place, 0], class_of_point, legal)
                if cut > begin:
                    rest[number, 0], rest[number, 1] = begin, cut
                    number += 1
                cut = _NONE
                if stop < end:
                    cut = first_legal(text, stop, end, class_of_point, legal)
                begin = end if cut < 0 else cut
            place += 1
        if begin < end:
            rest[number, 0], rest[number, 1] = begin, end
            number += 1
    return number
