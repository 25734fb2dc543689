"""Access to Python objects through CPython's stable ABI; arrays of ids as lists.

Objects are addresses as returned by `id`. The caller keeps references to them and holds the GIL.
Kernels clear the exceptions that they cause.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel_holding_gil, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    NO_RESULT,
    by_name,
    load_u32,
    load_u64,
    of_one,
    of_two,
    prefetch,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U32s

_MOST = 1 << 19  # cached ints, 40 bytes each
_LEAST = 1 << 12
_FEW = 256  # for fewer ids ``tolist`` is faster
_I32, _I64 = ir.IntType(32), ir.IntType(64)

NO_OBJECT = 0
TOGETHER = 32  # ids whose ints are prefetched together


def _of_one(name: str) -> Any:
    return of_one(types.int64, types.int64, lambda llvm, item: by_name(llvm, name, _I64, item))


bytes_begin = _of_one("PyBytes_AsString")  # address of the first byte
list_size = _of_one("PyList_Size")
int_value = _of_one("PyLong_AsLong")  # −1 for other types and for ints beyond int64
# Borrowed reference to the item of a list at an index; `NO_OBJECT` beyond its end.
list_item = of_two(
    types.int64,
    types.int64,
    types.int64,
    lambda llvm, listed, place: by_name(llvm, "PyList_GetItem", _I64, listed, place),
)
# Append an object to a list; returns 0, or −1 if memory is exhausted.
_append = of_two(
    types.int32,
    types.int64,
    types.int64,
    lambda llvm, listed, item: by_name(llvm, "PyList_Append", _I32, listed, item),
)


@intrinsic
def clear_error(_typing_context: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        by_name(builder, "PyErr_Clear", ir.VoidType())
        return NO_RESULT

    return types.void(), generate


@kernel
def append_ids(ids: I64, count: I64, listed: I64, ints: I64, room: I64) -> bool:
    """Append uint32 ids at an address to a list; returns False if memory is exhausted.

    Args:
        ints: a list of 0, 1, … up to at least the highest id: appending an existing int takes a
            third of the time of creating one.
        room: address of `TOGETHER` int64 of scratch memory.
    """
    for begin in range(0, count, TOGETHER):
        number = min(count - begin, np.int64(TOGETHER))
        # Prefetch all of them first: each int is in a cache line of its own.
        for i in range(number):
            item = list_item(ints, np.int64(load_u32(ids + 4 * (begin + i))))
            prefetch(item)
            store_u64(room + 8 * i, np.uint64(item))
        for i in range(number):
            if _append(listed, np.int64(load_u64(room + 8 * i))) != 0:
                clear_error()
                return False
    return True


@entry_kernel_holding_gil
def append_to_lists(ids: U32s, edges: I64s, lists: I64, ints: I64, room: I64s) -> bool:
    """Split ids into lists; returns False if memory is exhausted.

    Args:
        edges: int64 ``[n + 1]``, ascending: list i gets ``ids[edges[i]:edges[i + 1]]``.
        lists: a list of n lists. ``ints`` and ``room``: see `append_ids`.
    """
    first = np.int64(ids.ctypes.data)
    for i in range(len(edges) - 1):
        listed = list_item(lists, i)
        begin, count = edges[i], edges[i + 1] - edges[i]
        if not append_ids(first + 4 * begin, count, listed, ints, np.int64(room.ctypes.data)):
            return False
    return True


# The ints 0, 1, … up to the highest needed so far. Threads may replace the list concurrently; each
# returns one that is long enough.
_ints: list[int] = []


def ints_to(highest: int) -> list[int] | None:
    """A shared list of 0, 1, … up to at least ``highest``, or None if too long."""
    global _ints
    ints = _ints
    if highest >= _MOST:
        return None
    if highest >= len(ints):
        end = max(_LEAST, 1 << highest.bit_length())
        ints = _ints = [*ints, *range(len(ints), end)]
    return ints


def listed(ids: NDArray[np.uint32]) -> list[int]:
    """``ids.tolist()``, faster for many ids."""
    if len(ids) < _FEW:
        plain: list[int] = ids.tolist()
        return plain
    return divided(ids, np.array([0, len(ids)], np.int64))[0]


def divided(ids: NDArray[np.uint32], edges: NDArray[np.int64]) -> list[list[int]]:
    """Lists of ``ids[edges[i]:edges[i + 1]]``; ``edges`` ascend, int64 ``[n + 1]``."""
    lists: list[list[int]] = [[] for _ in range(len(edges) - 1)]
    ints = ints_to(int(ids.max(initial=0)))
    if ints is None:
        return [ids[begin:end].tolist() for begin, end in pairwise(edges.tolist())]
    if not append_to_lists(ids, edges, id(lists), id(ints), np.empty(TOGETHER, np.int64)):
        raise MemoryError
    return lists
