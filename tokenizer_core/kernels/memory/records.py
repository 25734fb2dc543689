"""State that Python and kernels share, as records with named fields; knows no field.

Python owns an array of one record of a structured dtype, ``state["field"]``; a kernel takes it as
`one_record` declares it and reads and writes ``state[0].field``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic

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
