"""How kernels annotate what they take: the annotation of an entry kernel is its Numba signature.

mypy reads the first part of each, `signature_of` the second. Arrays are C-contiguous; the name says
how many axes they have. ``int``, ``float`` and ``bool`` mean int64, float64 and boolean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

I64 = Annotated[Any, types.int64]  # a signed number, or an address
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
# An array that may be read-only, as those over `bytes` are.
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

# Only for kernels that other kernels call: Numba goes by what they are called with.
Int = Any  # int64, uint64 or uint32
Array = NDArray[Any]
Masks = tuple[U64, ...]  # one mask for each bit of a class, and what else goes with them

_PLAIN = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.none}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes and gives, as Numba's types.

    Attributes:
        kernel: its module and name.
        arguments: by name, in order.
        returned: what it gives.
    """

    kernel: str
    arguments: dict[str, types.Type]
    returned: types.Type

    @property
    def dtypes(self) -> tuple[types.Type, ...]:
        """Those of the arguments."""
        return tuple(self.arguments.values())

    def types_of(self, given: Sequence[Any]) -> tuple[types.Type, ...]:
        """The types of values that are as declared; arrays may be writable for read-only ones.

        Raises:
            TypeError: one is not; names it.
        """
        found = tuple(map(numba.typeof, given))
        for (name, wanted), one in zip(self.arguments.items(), found, strict=True):
            if one != wanted and _read_only(one) != wanted:
                raise TypeError(f"{self.kernel} takes {wanted} as {name}, not {one}")
        return found


def signature_of(function: Any) -> Signature:
    """What a function's annotations declare.

    Raises:
        TypeError: a parameter or the result is not declared; names it.
    """
    kernel = name_of(function)
    hints = get_type_hints(function, include_extras=True)
    code = function.__code__
    names = (*code.co_varnames[: code.co_argcount], "return")
    declared = {name: _type_of(hints.get(name), f"{name} of {kernel}") for name in names}
    return Signature(kernel, declared, declared.pop("return"))


def name_of(function: Any) -> str:
    """The name of a kernel, with its module below `tokenizer_core`."""
    return f"{function.__module__.rpartition('tokenizer_core.')[2]}.{function.__name__}"


def _type_of(annotation: Any, what: str) -> types.Type:
    if get_origin(annotation) is Annotated:
        for said in get_args(annotation)[1:]:
            if isinstance(said, types.Type):
                return said
    elif get_origin(annotation) is tuple:
        parts = [_type_of(part, what) for part in get_args(annotation)]
        return types.BaseTuple.from_types(parts)
    elif annotation in _PLAIN:
        return _PLAIN[annotation]
    elif hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        fields = [_type_of(hints[name], f"{name} in {what}") for name in annotation._fields]
        return types.BaseTuple.from_types(fields, annotation)
    raise TypeError(f"{what} is annotated {annotation}, which declares no dtype")


def _read_only(found: types.Type) -> types.Type:
    return found.copy(readonly=True) if isinstance(found, types.Array) else found
