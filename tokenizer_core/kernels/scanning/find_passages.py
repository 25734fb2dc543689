"""Known passages found wherever they occur in a text; knows nothing of what they are for."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.fingerprint import GOLDEN, ONE, fingerprint

WINDOW = 32  # bytes of a passage by which it is looked for
FILTER_WORDS = 1 << 10  # uint64: one bit for each value of the upper 16 bits of a hash
_FIRST = np.uint64(pow(int(GOLDEN), WINDOW - 1, 1 << 64))  # what the oldest byte was multiplied by


@kernel
def _value(text: U8s, place: I64) -> U64:
    return np.uint64(text[place]) + ONE


@entry_kernel
def hash_windows(text: U8s, begins: I64s, hashes: U64s, filled: U64s) -> None:
    """``hashes[i]`` (uint64) of the `WINDOW` bytes of a text from ``begins[i]`` on (int64).

    A polynomial over bytes modulo 2⁶⁴, which `find_passages` carries from place to place (Karp
    and Rabin 1987).

    Args:
        filled: uint64 ``[FILTER_WORDS]``, zeros: takes a bit for each hash.
    """
    for index in range(len(begins)):
        state = np.uint64(0)
        for offset in range(WINDOW):
            state = state * GOLDEN + _value(text, begins[index] + offset)
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
    """Find the occurrences of some passages, also where they overlap.

    Of occurrences that begin within an eighth of a passage's length of one another, as in a long
    run of spaces, only the first is found: they cover the same text but for its end.

    Args:
        text: uint8, padded (see `Text`).
        size: its bytes without the padding.
        windows, filled: of the passages, from `hash_windows`; ascending.
        offsets: int64, where in its passage each window begins.
        lengths: int64, their bytes, at least `WINDOW`.
        lasts: uint64, the last eight bytes of each.
        fingerprints: uint64, of each whole passage, see `fingerprint_spans`.
        again: int64, zeros: scratch for every passage.
        found: int64 ``[n, 2]``: takes spans, as many as there is room for.

    Returns:
        How many there are, perhaps more than there was room for.
    """
    seen = np.int64(0)
    if size < WINDOW or len(windows) == 0:
        return seen
    base = text.ctypes.data
    state = np.uint64(0)
    for place in range(WINDOW - 1):
        state = state * GOLDEN + _value(text, place)
    for end in range(WINDOW, size + 1):
        state = state * GOLDEN + _value(text, end - 1)
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
                    if seen < len(found):
                        found[seen, 0] = begin
                        found[seen, 1] = stop
                    seen += 1
                low += 1
        state -= _value(text, window) * _FIRST
    return seen
