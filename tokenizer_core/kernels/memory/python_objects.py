"""Python objects that kernels use by functions of CPython's stable ABI; arrays of ids as lists.

Objects are addresses, as `id` gives them. The caller holds the objects and the interpreter's lock,
and a kernel that meets an error clears it.
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

_MOST = 1 << 19  # ints that are kept: 40 bytes each
_LEAST = 1 << 12
_FEW = 256  # ids that NumPy lists sooner
_I32, _I64 = ir.IntType(32), ir.IntType(64)

NO_OBJECT = 0
TOGETHER = 32  # ids whose ints are asked for before one is used


def _of_one(name: str) -> Any:
    """A function that takes an object and returns a number or an address."""
    return of_one(types.int64, types.int64, lambda llvm, one: by_name(llvm, name, _I64, one))


bytes_begin = _of_one("PyBytes_AsString")  # the address of the first of its bytes
list_size = _of_one("PyList_Size")
int_value = _of_one("PyLong_AsLong")  # −1 where that is no int64, or no int
# The item of a list at a place, which the list holds; `NO_OBJECT` beyond its end.
list_item = of_two(
    types.int64,
    types.int64,
    types.int64,
    lambda llvm, listed, place: by_name(llvm, "PyList_GetItem", _I64, listed, place),
)
# Append an object to a list; 0, or −1 where there is no memory for it.
_append = of_two(
    types.int32,
    types.int64,
    types.int64,
    lambda llvm, listed, item: by_name(llvm, "PyList_Append", _I32, listed, item),
)


@intrinsic
def clear_error(_typing_context: Any) -> Any:
    """Forget the exception that a function has set."""

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        by_name(builder, "PyErr_Clear", ir.VoidType())
        return NO_RESULT

    return types.void(), generate


@kernel
def append_ids(ids: I64, count: I64, listed: I64, ints: I64, room: I64) -> bool:
    """Append ids to a list; False where there is no memory for them.

    Args:
        ids: address of uint32.
        ints: a list of 0, 1, … up to the highest id at least: appending an int that exists takes
            a third as long as making one.
        room: address of room for `TOGETHER` addresses.
    """
    for begin in range(0, count, TOGETHER):
        number = min(count - begin, np.int64(TOGETHER))
        # All of them are asked for first: each is in a line of the cache of its own.
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
    """Divide ids among lists; False where there is no memory for them.

    Args:
        edges: int64 ``[n + 1]``, ascending: list i gets ``ids[edges[i]:edges[i + 1]]``.
        lists: a list of n lists.
        ints, room: see `append_ids`.
    """
    first = np.int64(ids.ctypes.data)
    for i in range(len(edges) - 1):
        listed = list_item(lists, i)
        begin, count = edges[i], edges[i + 1] - edges[i]
        if not append_ids(first + 4 * begin, count, listed, ints, np.int64(room.ctypes.data)):
            return False
    return True


# The ints from 0 on, up to the highest that was needed. Threads may replace it at the same time:
# each returns a list that is long enough.
_ints: list[int] = []


def ints_to(highest: int) -> list[int] | None:
    """The ints from 0 on, up to one at least; None where there are too many. Do not change it."""
    global _ints
    ints = _ints
    if highest >= _MOST:
        return None
    if highest >= len(ints):
        end = max(_LEAST, 1 << highest.bit_length())
        ints = _ints = [*ints, *range(len(ints), end)]
    return ints


def listed(ids: NDArray[np.uint32]) -> list[int]:
    """``ids.tolist()``, sooner."""
    if len(ids) < _FEW:
        plain: list[int] = ids.tolist()
        return plain
    return divided(ids, np.array([0, len(ids)], np.int64))[0]


def divided(ids: NDArray[np.uint32], edges: NDArray[np.int64]) -> list[list[int]]:
    """Lists of ``ids[edges[i]:edges[i + 1]]``.

    Args:
        edges: int64 ``[n + 1]``, ascending.

    Raises:
        MemoryError: there is no memory for them.
    """
    lists: list[list[int]] = [[] for _ in range(len(edges) - 1)]
    ints = ints_to(int(ids.max(initial=0)))
    if ints is None:
        return [ids[begin:end].tolist() for begin, end in pairwise(edges.tolist())]
    if not append_to_lists(ids, edges, id(lists), id(ints), np.empty(TOGETHER, np.int64)):
        raise MemoryError
    return lists
