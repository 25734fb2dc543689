"""Occurrences of a few byte strings in a text, found by their first two bytes; no meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import BLOCK, load_u8, trailing_zeros

_VECTOR = ir.VectorType(ir.IntType(8), BLOCK)
_LANES = ir.VectorType(ir.IntType(32), BLOCK)

_0 = np.uint64(0)
_1 = np.uint64(1)


@intrinsic
def _mask_equal(typing_context: Any, address: Any, byte: Any) -> Any:
    """``mask(address, byte) -> uint64``: which of 64 bytes are ``byte``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _VECTOR.as_pointer())
        block = builder.load(pointer, align=1, typ=_VECTOR)
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        lane = builder.insert_element(undefined, arguments[1], ir.Constant(ir.IntType(32), 0))
        wanted = builder.shuffle_vector(lane, undefined, ir.Constant(_LANES, [0] * BLOCK))
        equal = builder.icmp_unsigned("==", block, wanted)
        return builder.bitcast(equal, ir.IntType(64))

    return types.uint64(types.int64, types.uint8), generate


@kernel
def _candidates(address: Any, openings: Any) -> Any:
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
def _longest_at(base: Any, position: Any, end: Any, sought: Any, offsets: Any) -> Any:
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


@kernel
def find_specials(
    text: Any, begin: Any, end: Any, openings: Any, sought: Any, offsets: Any, found: Any
) -> Any:
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
