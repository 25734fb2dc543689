"""How kernels annotate what they take. Numba itself goes by the arguments of the first call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

I64 = Any  # a signed number, or an address
U64 = Any  # bits: a mask, a hash, a part of a key
F64 = Any
Int = Any  # either, or uint32: whatever width Numba infers
Masks = tuple[U64, ...]  # one mask for each bit of a class, and what else goes with them

U8s = NDArray[np.uint8]
U32s = NDArray[np.uint32]
U64s = NDArray[np.uint64]
I16s = NDArray[np.int16]
I32s = NDArray[np.int32]
I64s = NDArray[np.int64]
F64s = NDArray[np.float64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]
