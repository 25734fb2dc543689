"""A binary heap of uint64 at an address, the smallest first; knows not what the numbers mean."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.types import I64, U64


@kernel
def push(heap: I64, size: I64, item: U64) -> None:
    """Add a uint64 to a binary min-heap of ``size`` items at an address."""
    at = np.int64(size)
    while at > 0:
        above = (at - 1) >> 1
        parent = load_u64(heap + 8 * above)
        if parent <= item:
            break
        store_u64(heap + 8 * at, parent)
        at = above
    store_u64(heap + 8 * at, item)


@kernel
def pop(heap: I64, size: I64) -> U64:
    """Remove and return the smallest of ``size`` items; ``size - 1`` remain."""
    smallest = load_u64(heap)
    last = np.int64(size) - 1
    item = load_u64(heap + 8 * last)
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        child = load_u64(heap + 8 * below)
        if below + 1 < last:
            other = load_u64(heap + 8 * below + 8)
            if other < child:
                child = other
                below += 1
        if item <= child:
            break
        store_u64(heap + 8 * at, child)
        at = below
    store_u64(heap + 8 * at, item)
    return smallest
