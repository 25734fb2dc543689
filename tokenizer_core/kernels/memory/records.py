"""State shared by Python and kernels: structured records and sets of named arrays.

Python reads ``state["field"]`` of an array of one record; a kernel takes the array as `one_record`
and uses ``state[0].field``.

A kernel takes named arrays as a NamedTuple. Further sets of the same arrays are rows of addresses
and shapes (`described`); `with_arrays` puts the arrays of one row into the tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Record = Any  # one record, as kernels pass it to each other


def one_record(dtype: np.dtype[Any]) -> types.Array:
    return types.Array(from_dtype(dtype), 1, "C")


def record_at(dtype: np.dtype[Any]) -> Any:
    """An intrinsic that returns the record at an int64 address.

    Used for calls per short text: passing an int64 view of the record saves 0.1 µs.
    """
    record = from_dtype(dtype)

    @intrinsic
    def at(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(address), generate

    return at


NUMBERS = 3  # per array: address, rows, columns
_I64 = ir.IntType(64)


def described(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """The row of a set of C-contiguous arrays of one or two axes.

    int64 ``[NUMBERS · arrays]``, valid while the arrays are referenced.
    """
    rows = [(array.ctypes.data, len(array), array.size // max(len(array), 1)) for array in arrays]
    return np.array(rows, np.int64).ravel()


def with_arrays(names: Sequence[str]) -> Any:
    """An intrinsic ``replaced(arrays, address)`` that replaces arrays of a NamedTuple.

    The arrays of these names become those of the row at an int64 address, in this order.
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
    """An intrinsic ``array(address, items)``: a one-dimensional array of a type."""

    @intrinsic
    def array(typing_context: Any, address: Any, items: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, rows = arguments
            return _array(context, builder, kind, place, rows, ir.Constant(_I64, 1))

        return kind(types.int64, types.int64), generate

    return array


def _array(context: Any, builder: Any, kind: Any, address: Any, rows: Any, columns: Any) -> Any:
    """An array at an address, without reference counting."""
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
