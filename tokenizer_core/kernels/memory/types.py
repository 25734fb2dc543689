"""How kernels annotate what they take: the annotation of an entry kernel is its Numba signature.

mypy reads the first part of each, Numba the second (see `compiling.signatures`). Arrays are
C-contiguous; the name says how many axes they have. ``int``, ``float`` and ``bool`` mean int64,
float64 and boolean.
"""

from __future__ import annotations

from typing import Annotated, Any

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
