"""The order of many positions, and words of one byte array in another order; knows no counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FEWEST_FOR_DIGITS = 1 << 12  # positions; below, NumPy is quick enough
_BLOCK = 1 << 22  # bytes gathered at a time: bounds the index array of a gather to 32 MiB


def order_of_positions(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """A stable argsort of int64 ``[n]``.

    Where a position and a row number fit 64 bits together they are sorted as one number, digit by
    digit, lowest first: linear, and several times faster than NumPy's sorts of random numbers.
    """
    number = len(positions)
    bits = number.bit_length()
    if (
        number < _FEWEST_FOR_DIGITS
        or int(positions.min()) < 0
        or (length := int(positions.max()).bit_length()) + bits > 63
    ):
        return np.argsort(positions, kind="stable").astype(np.int64)
    from bpeline.tokenizer_core.kernels.counting.word_rows import DIGIT_BITS, sort_by_digit

    both = positions << np.int64(bits)
    both |= np.arange(number, dtype=np.int64)
    other, places = np.empty_like(both), np.empty(1 << DIGIT_BITS, np.int64)
    for shift in range(bits, bits + length, DIGIT_BITS):
        sort_by_digit(both, other, shift, places)
        both, other = other, both
    both &= np.int64((1 << bits) - 1)
    return both


def compile_sorting() -> None:
    """Compile, or load, what sorts long lists of positions; before worker threads start."""
    order_of_positions(np.arange(_FEWEST_FOR_DIGITS, dtype=np.int64))


def gather_words(
    word_bytes: NDArray[np.uint8], offsets: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Words ``order`` as a new byte array with new offsets (int64 ``[len(order) + 1]``)."""
    begins = offsets[order]
    lengths = offsets[order + 1] - begins
    gathered_offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(lengths, out=gathered_offsets[1:])
    gathered = np.empty(int(gathered_offsets[-1]), np.uint8)
    row = 0
    while row < len(order):
        begin = gathered_offsets[row]
        stop = int(np.searchsorted(gathered_offsets, begin + _BLOCK, side="right")) - 1
        if stop <= row:  # one word longer than a block
            gathered[begin : begin + lengths[row]] = word_bytes[
                begins[row] : begins[row] + lengths[row]
            ]
            row += 1
            continue
        size = gathered_offsets[stop] - begin
        sources = np.arange(size, dtype=np.int64)
        sources += np.repeat(
            begins[row:stop] - (gathered_offsets[row:stop] - begin), lengths[row:stop]
        )
        np.take(word_bytes, sources, out=gathered[begin : begin + size])
        row = stop
    return gathered, gathered_offsets
