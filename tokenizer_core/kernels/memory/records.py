"""State that Python and kernels share: records with named fields, and sets of named arrays.

Python owns an array of one record of a structured dtype, ``state["field"]``; a kernel takes it as
`one_record` declares it and reads and writes ``state[0].field``.

A kernel takes named arrays as a NamedTuple, and is compiled for one. Of each further set Python
describes as a row of numbers where its arrays are and how large they are (`described`), and a
kernel puts those of one row in the place of its own (`with_arrays`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Record = Any  # one record, as kernels hand it on to each other


def one_record(dtype: np.dtype[Any]) -> types.Array:
    """The Numba type of an array of records of a dtype."""
    return types.Array(from_dtype(dtype), 1, "C")


def record_at(dtype: np.dtype[Any]) -> Any:
    """An intrinsic that gives the record at an int64 address.

    For what is called for every short text: a view of it as int64 is handed over 0.1 µs sooner than
    an array of records.
    """
    record = from_dtype(dtype)

    @intrinsic
    def at(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(address), generate

    return at


NUMBERS = 3  # of an array: its address, its rows, and the columns of a row
_I64 = ir.IntType(64)


def described(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The row of a set: int64 ``[NUMBERS · arrays]``, right while somebody holds the arrays.

    Args:
        arrays: C-contiguous, of one axis or two.
    """
    rows = [(one.ctypes.data, len(one), one.size // max(len(one), 1)) for one in arrays]
    return np.array(rows, np.int64).ravel()


def with_arrays(names: Sequence[str]) -> Any:
    """An intrinsic ``replaced(arrays, address)``: a NamedTuple whose arrays of these names are
    those that the row at an int64 address describes, in this order.
    """

    @intrinsic
    def replaced(typing_context: Any, named: Any, address: Any) -> Any:
        places = [named.instance_class._fields.index(name) for name in names]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole, row = arguments
            numbers = builder.inttoptr(row, _I64.as_pointer())
            for number, place in enumerate(places):
                three = [
                    builder.load(builder.gep(numbers, [ir.Constant(_I64, NUMBERS * number + at)]))
                    for at in range(NUMBERS)
                ]
                array = _array(context, builder, named.types[place], *three)
                whole = builder.insert_value(whole, array, place)
            return whole

        return named(named, types.int64), generate

    return replaced


def array_at(kind: types.Array) -> Any:
    """An intrinsic ``array(address, items)``: the array of a type, of one axis, at an address."""

    @intrinsic
    def array(typing_context: Any, address: Any, items: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, rows = arguments
            return _array(context, builder, kind, place, rows, ir.Constant(_I64, 1))

        return kind(types.int64, types.int64), generate

    return array


def _array(context: Any, builder: Any, kind: Any, address: Any, rows: Any, columns: Any) -> Any:
    """An array at an address, which nobody counts references to."""
    array = context.make_array(kind)(context, builder)
    width = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    itemsize = ir.Constant(_I64, width)
    row = builder.mul(itemsize, columns)
    array.data = builder.inttoptr(address, array.data.type)
    array.itemsize = itemsize
    array.nitems = builder.mul(rows, columns)
    shape, strides = ([rows], [row]) if kind.ndim == 1 else ([rows, columns], [row, itemsize])
    array.shape = context.make_tuple(builder, types.UniTuple(types.intp, kind.ndim), shape)
    array.strides = context.make_tuple(builder, types.UniTuple(types.intp, kind.ndim), strides)
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()
