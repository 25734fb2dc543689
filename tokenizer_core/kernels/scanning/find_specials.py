"""Occurrences of a few byte strings in a text, found by their first two bytes; no meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    BLOCK,
    load_block,
    load_u8,
    of_two,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I16Rows, I64Rows, I64s, U8s

_VECTOR = ir.VectorType(ir.IntType(8), BLOCK)
_LANES = ir.VectorType(ir.IntType(32), BLOCK)

_0 = np.uint64(0)
_1 = np.uint64(1)


def _compare(builder: Any, address: Any, byte: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    lane = builder.insert_element(undefined, byte, ir.Constant(ir.IntType(32), 0))
    wanted = builder.shuffle_vector(lane, undefined, ir.Constant(_LANES, [0] * BLOCK))
    equal = builder.icmp_unsigned("==", load_block(builder, address), wanted)
    return builder.bitcast(equal, ir.IntType(64))


# ``mask(address, byte) -> uint64``: which of 64 bytes are ``byte``.
_mask_equal = of_two(types.uint64, types.int64, types.uint8, _compare)


@kernel
def _candidates(address: I64, openings: I16Rows) -> U64:
    """Which of 64 bytes begin like one of the strings sought."""
    found = _0
    for i in range(openings.shape[0]):
        first = _mask_equal(address, np.uint8(openings[i, 0]))
        if first:  # seldom; and a loop of branches stays as it is, which LLVM would take apart
            if openings[i, 1] >= 0:
                first &= _mask_equal(address + 1, np.uint8(openings[i, 1]))
            found |= first
    return found


@kernel
def _longest_at(base: I64, position: I64, end: I64, sought: U8s, offsets: I64s) -> I64:
    """Index of the first of ``sought`` that stands at ``position``, or -1."""
    for i in range(offsets.shape[0] - 1):
        begin = offsets[i]
        length = offsets[i + 1] - begin
        if position + length <= end:
            k = np.int64(0)
            while k < length and load_u8(base + position + k) == sought[begin + k]:
                k += 1
            if k == length:
                return np.int64(i)
    return np.int64(-1)


@entry_kernel
def find_specials(
    text: U8s, begin: I64, end: I64, openings: I16Rows, sought: U8s, offsets: I64s, found: I64Rows
) -> tuple[I64, I64]:
    """Find strings from the left, without overlap, the first given that fits at each place.

    Args:
        text: uint8 with `PADDING` readable bytes behind ``end``.
        openings: int16 [p, 2], the distinct first two bytes; the second is -1 for one-byte strings.
        sought: uint8, the strings one behind the other, longest first.
        offsets: int64 [n + 1], where they begin.
        found: int64 [capacity, 3], receives begin, end and index of each occurrence.

    Returns:
        How many were found, and where to go on when ``found`` was too small (else ``end``).
    """
    base = text.ctypes.data
    count = np.int64(0)
    position = np.int64(begin)
    while position < end:
        candidates = _candidates(base + position, openings)
        block = position
        position += 64
        while candidates:
            place = block + trailing_zeros(candidates)
            candidates &= candidates - _1
            index = _longest_at(base, place, end, sought, offsets)
            if index >= 0:
                if count == found.shape[0]:
                    return count, place
                found[count, 0] = place
                position = place + offsets[index + 1] - offsets[index]
                found[count, 1] = position
                found[count, 2] = index
                count += 1
                break
    return count, np.int64(end)
