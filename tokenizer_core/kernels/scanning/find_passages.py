"""Search for passages of other texts, and for places where text may be cut."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    U64,
    I64Rows,
    I64s,
    ReadOnlyU8s,
    U8Rows,
    U8s,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, STEP, scrambled


@kernel
def _stir(state: U64, address: I64) -> U64:
    return scrambled(state ^ load_u64(address)) + STEP


@kernel
def _finished(state: U64, address: I64, end: I64) -> U64:
    """The fingerprint after the last bytes, from ``address`` on."""
    while address + 8 <= end:
        state = _stir(state, address)
        address += 8
    if address < end:
        mask = (ONE << np.uint64(8 * (end - address))) - ONE
        state = scrambled(state ^ (load_u64(address) & mask)) + STEP
    return scrambled(state)


@kernel
def fingerprint(begin: I64, end: I64) -> U64:
    return _finished(np.uint64(end - begin) * STEP, begin, end)


@entry_kernel
def fingerprint_spans(text: U8s, spans: I64Rows, fingerprints: U64s) -> None:
    """Write the fingerprint of each span of a padded text; spans are int64 ``[n, 2]``.

    Eight bytes at a time, little-endian, the last ones padded with zeros; the length is the seed,
    so padding differs from content. Each step depends on the one before, so three spans are
    processed side by side up to the length of the shortest.
    """
    base = text.ctypes.data
    number = len(spans)
    for index in range(0, number, 3):
        second, third = min(index + 1, number - 1), min(index + 2, number - 1)
        a, a_end = base + spans[index, 0], base + spans[index, 1]
        b, b_end = base + spans[second, 0], base + spans[second, 1]
        c, c_end = base + spans[third, 0], base + spans[third, 1]
        state_a = np.uint64(a_end - a) * STEP
        state_b = np.uint64(b_end - b) * STEP
        state_c = np.uint64(c_end - c) * STEP
        common = min(a_end - a, b_end - b, c_end - c) & ~7
        for done in range(0, common, 8):
            state_a, state_b, state_c = (
                _stir(state_a, a + done),
                _stir(state_b, b + done),
                _stir(state_c, c + done),
            )
        fingerprints[index] = _finished(state_a, a + common, a_end)
        fingerprints[second] = _finished(state_b, b + common, b_end)
        fingerprints[third] = _finished(state_c, c + common, c_end)


WINDOW = 32  # bytes of a passage by which it is searched
FILTER_WORDS = 1 << 10  # uint64: one bit per value of the upper 16 bits of a hash
_FIRST = np.uint64(pow(int(STEP), WINDOW - 1, 1 << 64))  # factor of the oldest byte


@kernel
def _value(text: U8s, place: I64) -> U64:
    return np.uint64(text[place]) + ONE


@entry_kernel
def hash_windows(text: U8s, begins: I64s, hashes: U64s, filled: U64s) -> None:
    """Hash the `WINDOW` bytes of a text from each of ``begins`` on.

    A polynomial over bytes modulo 2⁶⁴, which `find_passages` rolls (Karp and Rabin 1987).
    ``filled`` is uint64 ``[FILTER_WORDS]``, zeros: receives a bit per hash.
    """
    for index in range(len(begins)):
        state = np.uint64(0)
        for offset in range(WINDOW):
            state = state * STEP + _value(text, begins[index] + offset)
        hashes[index] = state
        filled[state >> np.uint64(54)] |= ONE << ((state >> np.uint64(48)) & np.uint64(63))


@entry_kernel
def find_passages(
    text: U8s,
    size: I64,
    windows: U64s,
    filled: U64s,
    offsets: I64s,
    lengths: I64s,
    lasts: U64s,
    fingerprints: U64s,
    again: I64s,
    found: I64Rows,
) -> I64:
    """Find the occurrences of passages, which may overlap.

    Of occurrences that begin within an eighth of a passage's length of each other, as in a long run
    of spaces, only the first is found. Returns the number of occurrences, even if above n.

    Args:
        text: uint8, padded (see `Text`); ``size`` is without padding.
        windows, filled: of the passages, from `hash_windows`; ascending.
        offsets: int64, offset of each window in its passage.
        lengths, lasts, fingerprints: of each passage the bytes, at least `WINDOW`, the last eight
            bytes, and the fingerprint, see `fingerprint_spans`.
        again: int64, zeros: scratch, one item per passage.
        found: int64 ``[n, 2]``: receives up to n spans.
    """
    count = np.int64(0)
    if size < WINDOW or len(windows) == 0:
        return count
    base = text.ctypes.data
    state = np.uint64(0)
    for place in range(WINDOW - 1):
        state = state * STEP + _value(text, place)
    for end in range(WINDOW, size + 1):
        state = state * STEP + _value(text, end - 1)
        window = end - WINDOW
        if filled[state >> np.uint64(54)] >> ((state >> np.uint64(48)) & np.uint64(63)) & ONE:
            low, high = np.int64(0), np.int64(len(windows))
            while low < high:
                middle = (low + high) // 2
                if windows[middle] < state:
                    low = middle + 1
                else:
                    high = middle
            while low < len(windows) and windows[low] == state:
                begin = window - offsets[low]
                stop = begin + lengths[low]
                if (
                    begin >= again[low]
                    and stop <= size
                    and load_u64(base + stop - 8) == lasts[low]
                    and fingerprint(base + begin, base + stop) == fingerprints[low]
                ):
                    again[low] = begin + lengths[low] // 8 + 1
                    if count < len(found):
                        found[count, 0] = begin
                        found[count, 1] = stop
                    count += 1
                low += 1
        state -= _value(text, window) * _FIRST
    return count


_NONE = np.int64(-1)
_LONGEST = np.int64(4)  # bytes of a character


@kernel
def _character(content: ReadOnlyU8s, position: I64) -> tuple[I64, I64]:
    """Code point and length of the character at ``position``; -1 and 1 if invalid."""
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
    """The first position in [begin, end) where text may be cut, or -1.

    That is between two valid UTF-8 characters, so up to four bytes on both sides decide.

    Args:
        content: uint8, any bytes; an incomplete character at its end is invalid.
        class_of_point: uint8 [0x110000].
        legal: uint8 [classes, classes], by class of the character before and after.
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
    """The last position in (begin, end] where text may be cut, or ``begin``."""
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
    """Cut documents at the first legal place after every ``size`` bytes.

    Returns the number of sections. ``ahead`` bytes of a document must follow a cut. ``sections``
    [m, 2] receives spans; m ≥ Σ (length // size + 1).
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
    """Remove spans from documents, each widened to the next legal places.

    Returns the number of remaining parts. ``documents`` [n, 2] and ``spans`` [m, 2] are ascending
    and disjoint; spans may cross the ends of documents. ``rest`` [n + m, 2] receives spans.
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
