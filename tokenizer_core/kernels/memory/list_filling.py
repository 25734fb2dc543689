"""Ids as a Python list: an empty list filled where it lies, with ints that exist already.

Python makes a list of ids in 14 ns an id, and gives it up in 4 more: for each it asks for memory,
writes an int there, and returns it later. Here the ints of all ids are made once, and a list refers
to them: one address and one more reference, 2 ns.

The lists are fresh: the caller made them empty, and nobody else knows them. The interpreter's lock
is held, without which no reference may be counted. See `python_lists` for what is relied on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel_holding_gil, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u32,
    load_u64,
    of_two,
    pointer,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.python_lists import LIST_ITEMS, LIST_ROOM, LIST_SIZE
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U32s

_ADDRESS = np.int64
_1 = np.uint64(1)
_I64 = ir.IntType(64)

NUMBERS = np.dtype(
    [
        ("items", _ADDRESS),  # of a list of the ints 0, 1, …, which the caller holds
        ("number", np.int64),  # of them
        # See `list_facts`.
        ("allocate", _ADDRESS),
        ("some_uncounted", np.int64),
    ]
)
numbers_at = record_at(NUMBERS)


def _call(builder: Any, function: Any, size: Any) -> Any:
    return builder.call(pointer(builder, function, ir.FunctionType(_I64, [_I64])), [size])


# The address of memory of so many bytes, as the function at an address gives it; or 0.
_allocated = of_two(types.int64, types.int64, types.int64, _call)


@kernel
def fill_list(ids: I64, count: I64, listed: I64, numbers: Record) -> bool:
    """Put ids into an empty list; False, and it stays empty, where one of them has no int."""
    highest = np.uint32(0)
    for i in range(count):
        highest = max(highest, load_u32(ids + 4 * i))
    if count == 0 or np.int64(highest) >= numbers.number:
        return count == 0
    items = _allocated(numbers.allocate, 8 * count)
    if items == 0:
        return False
    ints = numbers.items
    if numbers.some_uncounted != 0:
        for i in range(count):
            number = load_u64(ints + 8 * np.int64(load_u32(ids + 4 * i)))
            store_u64(items + 8 * i, number)
            references = load_u32(np.int64(number))
            if np.int32(references) >= 0:
                store_u32(np.int64(number), np.uint32(references + np.uint32(1)))
    else:
        for i in range(count):
            number = load_u64(ints + 8 * np.int64(load_u32(ids + 4 * i)))
            store_u64(items + 8 * i, number)
            store_u64(np.int64(number), load_u64(np.int64(number)) + _1)
    store_u64(listed + LIST_ITEMS, np.uint64(items))
    store_u64(listed + LIST_ROOM, np.uint64(count))
    store_u64(listed + LIST_SIZE, np.uint64(count))
    return True


@entry_kernel_holding_gil
def fill_lists(ids: U32s, edges: I64s, lists: I64, numbers: I64) -> I64:
    """Divide ids among empty lists.

    Args:
        ids: uint32.
        edges: int64 ``[n + 1]``, ascending: list i is ``ids[edges[i]:edges[i + 1]]``.
        lists: address of a list of n empty lists.
        numbers: address of a `NUMBERS`.

    Returns:
        How many lists are as they shall be: the next one has an id without an int.
    """
    first, record = np.int64(ids.ctypes.data), numbers_at(numbers)
    items = np.int64(load_u64(lists + LIST_ITEMS))
    for i in range(len(edges) - 1):
        listed = np.int64(load_u64(items + 8 * i))
        if not fill_list(first + 4 * edges[i], edges[i + 1] - edges[i], listed, record):
            return np.int64(i)
    return np.int64(len(edges) - 1)
