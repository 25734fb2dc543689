"""Annotations of kernel arguments, which double as Numba signatures.

mypy reads the first part of each annotation, `signature_of` the second. Arrays are C-contiguous.
``int``, ``float`` and ``bool`` mean int64, float64 and boolean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

I64 = Annotated[Any, types.int64]  # a signed number or an address
U64 = Annotated[Any, types.uint64]  # bits: a mask, a hash, a part of a key
F64 = Annotated[Any, types.float64]

# One axis.
U8s = Annotated[NDArray[np.uint8], types.uint8[::1]]
U16s = Annotated[NDArray[np.uint16], types.uint16[::1]]
I8s = Annotated[NDArray[np.int8], types.int8[::1]]
U32s = Annotated[NDArray[np.uint32], types.uint32[::1]]
U64s = Annotated[NDArray[np.uint64], types.uint64[::1]]
I32s = Annotated[NDArray[np.int32], types.int32[::1]]
I64s = Annotated[NDArray[np.int64], types.int64[::1]]
F64s = Annotated[NDArray[np.float64], types.float64[::1]]
Flags = Annotated[NDArray[np.bool_], types.boolean[::1]]
# Accepts read-only arrays, such as views of `bytes`.
ReadOnlyU8s = Annotated[NDArray[np.uint8], types.Array(types.uint8, 1, "C", readonly=True)]

# Two axes.
U8Rows = Annotated[NDArray[np.uint8], types.uint8[:, ::1]]
U32Rows = Annotated[NDArray[np.uint32], types.uint32[:, ::1]]
U64Rows = Annotated[NDArray[np.uint64], types.uint64[:, ::1]]
I16Rows = Annotated[NDArray[np.int16], types.int16[:, ::1]]
I32Rows = Annotated[NDArray[np.int32], types.int32[:, ::1]]
I64Rows = Annotated[NDArray[np.int64], types.int64[:, ::1]]

# Three axes.
U32Planes = Annotated[NDArray[np.uint32], types.uint32[:, :, ::1]]
I64Planes = Annotated[NDArray[np.int64], types.int64[:, :, ::1]]

# Only for kernels that other kernels call: Numba infers the types of these arguments.
Int = Any  # int64, uint64 or uint32
Array = NDArray[Any]
Masks = tuple[U64, ...]  # one mask per bit of a class, and further masks

_PLAIN = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.none}


@dataclass(frozen=True, slots=True)
class Signature:
    """The declared Numba types of a kernel; ``kernel`` is its module and name."""

    kernel: str
    arguments: dict[str, types.Type]
    returned: types.Type

    @property
    def dtypes(self) -> tuple[types.Type, ...]:
        return tuple(self.arguments.values())

    def types_of(self, given: Sequence[Any]) -> tuple[types.Type, ...]:
        """The types of argument values; writable arrays may be passed for read-only ones."""
        actual_types = tuple(map(numba.typeof, given))
        for (name, expected), actual in zip(self.arguments.items(), actual_types, strict=True):
            if actual != expected and _read_only(actual) != expected:
                raise TypeError(f"{self.kernel} expected {expected} for {name}, got {actual}")
        return actual_types


def signature_of(function: Any) -> Signature:
    """The signature that the annotations of a function declare."""
    kernel = name_of(function)
    hints = get_type_hints(function, include_extras=True)
    code = function.__code__
    names = (*code.co_varnames[: code.co_argcount], "return")
    declared = {name: _type_of(hints.get(name), f"{name} of {kernel}") for name in names}
    return Signature(kernel, declared, declared.pop("return"))


def name_of(function: Any) -> str:
    """The name of a kernel with its module, relative to `tokenizer_core`."""
    return f"{function.__module__.rpartition('tokenizer_core.')[2]}.{function.__name__}"


def _type_of(annotation: Any, what: str) -> types.Type:
    if get_origin(annotation) is Annotated:
        for item in get_args(annotation)[1:]:
            if isinstance(item, types.Type):
                return item
    elif get_origin(annotation) is tuple:
        parts = [_type_of(part, what) for part in get_args(annotation)]
        return types.BaseTuple.from_types(parts)
    elif annotation in _PLAIN:
        return _PLAIN[annotation]
    elif hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        fields = [_type_of(hints[name], f"{name} in {what}") for name in annotation._fields]
        return types.BaseTuple.from_types(fields, annotation)
    raise TypeError(f"{what}: expected an annotation with a dtype, got {annotation}")


def _read_only(found: types.Type) -> types.Type:
    return found.copy(readonly=True) if isinstance(found, types.Array) else found
