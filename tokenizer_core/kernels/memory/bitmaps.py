"""Bits of a bitmap: uint64, 64 places in each."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, U64s

_0, _1, _6, _63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)


@kernel
def mark(bitmap: U64s, place: I64) -> None:
    bitmap[np.uint64(place) >> _6] |= _1 << (np.uint64(place) & _63)


@kernel
def unmark(bitmap: U64s, place: I64) -> None:
    bitmap[np.uint64(place) >> _6] &= ~(_1 << (np.uint64(place) & _63))


@kernel
def is_marked(bitmap: U64s, place: I64) -> bool:
    return (bitmap[np.uint64(place) >> _6] >> (np.uint64(place) & _63)) & _1 != _0
