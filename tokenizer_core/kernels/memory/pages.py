"""Large arrays in memory of their own, which the system has back as soon as nobody holds them.

The C library keeps what is freed below a bound that rises to 32 MiB, in one heap for each thread
that asked; tables that grow, are added up and become rows left it twice what the rows take. Knows
no kernel and no table.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)

_LARGE = 1 << 20  # bytes; smaller ones are not worth a call of the system each
_HUGE = 1 << 22  # from where on pages of 2 MiB are asked for, as NumPy does: touching costs a sixth
# So much is not told beforehand how far it will be written. Where a virtual machine has to be given
# fresh memory, huge pages of gigabytes take longer than small ones: LOG.md.
_HUGE_IF_RESERVED = 1 << 28
# Python has a name for it from 3.13 on. Elsewhere than under Linux nothing is promised beforehand.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
_SLACK = 64  # bytes behind the last item that may be read


def in_pages(number: int, kind: type[Number]) -> NDArray[Number]:
    """``number`` zeros, C-contiguous, with some bytes behind that may be read.

    Raises:
        MemoryError: the system gives no more.
    """
    size = number * np.dtype(kind).itemsize + _SLACK
    if size < _LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(size, np.uint8)[: size - _SLACK].view(kind)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the system gives no {size / 1e6:,.0f} MB: {error.strerror}") from error
    _ask_for_huge_pages(memory, size)
    return np.frombuffer(memory, np.uint8, size - _SLACK).view(kind)


def reserved(number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Room for ``number`` items, all zero; it takes the memory of what is written alone.

    Raises:
        MemoryError: the system has not so many addresses left.
    """
    size = max(1, number) * dtype.itemsize
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(number, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        memory = mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        raise MemoryError(f"the system gives no {size / 1e6:,.0f} MB: {error.strerror}") from error
    if size <= _HUGE_IF_RESERVED:
        _ask_for_huge_pages(memory, size)
    return np.frombuffer(memory, dtype, number)


def _ask_for_huge_pages(memory: mmap.mmap, size: int) -> None:
    if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel that was built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
