"""Sorting and regrouping of words stored as one byte array with offsets; knows no counts."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

_STEP = 7  # bytes of a word that one 64-bit sort key holds, beside their number
_ROUNDS = 8  # after so many keys the few words still tied are compared as Python bytes
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
    from bpeline.tokenizer_core.kernels.word_rows import DIGIT_BITS, sort_by_digit

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


def order_of_words(word_bytes: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The permutation (int64 ``[n]``) that sorts distinct words by their bytes.

    A key holds seven bytes of a word, zero-padded and big-endian, above the number of bytes that
    the word has left (8 for "more than seven"): where the padded bytes tie, the shorter word is a
    prefix of the other and comes first. Words whose keys tie are sorted again by their next key.
    """
    number = len(offsets) - 1
    order = np.arange(number, dtype=np.int64)
    if number < 2:
        return order
    padded = np.zeros(len(word_bytes) + 8, np.uint8)
    padded[: len(word_bytes)] = word_bytes
    rows = order.copy()  # positions in ``order`` that are still tied, as runs of neighbours
    runs = np.zeros(number, np.int64)  # the run that each of them belongs to
    for depth in range(0, _STEP * _ROUNDS, _STEP):
        words = order[rows]
        keys = _keys(padded, offsets[words] + depth, offsets[words + 1])
        inner = np.argsort(keys, kind="stable")
        inner = inner[np.argsort(runs[inner], kind="stable")] if depth else inner
        order[rows] = words[inner]
        keys, runs = keys[inner], runs[inner]
        same = (keys[1:] == keys[:-1]) & (runs[1:] == runs[:-1]) & ((keys[1:] & np.uint64(8)) > 0)
        tied = np.zeros(len(rows), bool)
        tied[1:] |= same
        tied[:-1] |= same
        if not tied.any():
            return order
        beginning = np.ones(len(rows), bool)
        beginning[1:] = ~same
        runs = np.cumsum(beginning)[tied]
        rows = rows[tied]
    bounds = [*np.flatnonzero(np.diff(runs, prepend=-1)).tolist(), len(rows)]
    for begin, end in itertools.pairwise(bounds):
        words = order[rows[begin:end]].tolist()
        words.sort(key=lambda word: word_bytes[offsets[word] : offsets[word + 1]].tobytes())
        order[rows[begin:end]] = words
    return order


def _keys(
    padded: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    left = np.clip(ends - begins, 0, 8)
    keys: NDArray[np.uint64] = np.zeros(len(begins), np.uint64)
    for place in range(_STEP):
        # A byte behind the word's end counts as zero; reading it anyway stays inside the padding.
        byte = padded[np.minimum(begins + place, len(padded) - 1)].astype(np.uint64)
        byte[left <= place] = 0
        keys |= byte << np.uint64(56 - 8 * place)
    keys |= left.astype(np.uint64)
    return keys


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
