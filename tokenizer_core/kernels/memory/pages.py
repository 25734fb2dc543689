"""Large arrays in memory of their own, which the system has back as soon as they are freed.

The C library keeps what is freed below a bound that rises to 32 MiB, in one heap for each thread
that asked; tables that grow, are added up and become rows left it twice what the rows take.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)
Memory = Callable[[int], NDArray[np.uint8]]  # gives so many bytes of whatever value

_LARGE = 1 << 20  # bytes; smaller ones are not worth a call of the system each
_HUGE = 1 << 22  # from where on pages of 2 MiB are asked for, as NumPy does: touching costs a sixth
# So much is not told beforehand how far it will be written. Where a virtual machine has to be given
# fresh memory, huge pages of gigabytes take longer than small ones: LOG.md.
_HUGE_IF_RESERVED = 1 << 28
# Python has a name for it from 3.13 on. Elsewhere than under Linux nothing is promised beforehand.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
_SLACK = 64  # bytes behind the last item that may be read
LINE = 64  # bytes of a cache line
HUGE_PAGE = 1 << 21
_GIVES_PAGES = hasattr(mmap, "MAP_ANONYMOUS")


def in_pages(number: int, kind: type[Number]) -> NDArray[Number]:
    """``number`` zeros, C-contiguous, with some bytes behind that may be read.

    Raises:
        MemoryError: the system gives no more.
    """
    size = number * np.dtype(kind).itemsize + _SLACK
    if size < _LARGE or not _GIVES_PAGES:
        return np.zeros(size, np.uint8)[: size - _SLACK].view(kind)
    if size < _HUGE:
        memory = _mapped(size)
    else:  # see `in_lines`
        memory = _mapped(-(-size // HUGE_PAGE) * HUGE_PAGE)
        _ask_for_huge_pages(memory)
    return np.frombuffer(memory, np.uint8, size - _SLACK).view(kind)


def in_lines(number: int, kind: type[Number]) -> NDArray[Number]:
    """``number`` zeros from the start of a cache line on; what is behind may not be read.

    What takes a multiple of 2 MiB Linux puts where pages of that size fit, unlike what is longer by
    a few bytes: places anywhere in it are then found without a look into tables of pages each.

    Raises:
        MemoryError: the system gives no more.
    """
    size = number * np.dtype(kind).itemsize
    if size < _LARGE or not _GIVES_PAGES:
        memory = np.zeros(size + LINE, np.uint8)
        begin = -memory.ctypes.data % LINE
        return memory[begin : begin + size].view(kind)
    pages = _mapped(size)
    if size % HUGE_PAGE == 0:
        _ask_for_huge_pages(pages)
    return np.frombuffer(pages, kind, number)


def give_back(part: NDArray[Any]) -> None:
    """Let the system have the large pages within what `in_lines` gave; what they held is gone."""
    whole = part
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    pages = getattr(whole.base, "obj", None)
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        place = part.ctypes.data - whole.ctypes.data
        begin = -(-place // HUGE_PAGE) * HUGE_PAGE
        end = (place + part.nbytes) // HUGE_PAGE * HUGE_PAGE
        if begin < end:
            with suppress(OSError):  # then it stays until all of it goes
                pages.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def reserved(number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Room for ``number`` items, all zero; it takes the memory of what is written alone.

    Raises:
        MemoryError: the system has not so many addresses left.
    """
    size = max(1, number) * dtype.itemsize
    if not _GIVES_PAGES:
        return np.zeros(number, dtype)
    memory = _mapped(size, _NO_RESERVE)
    if _HUGE <= size <= _HUGE_IF_RESERVED:
        _ask_for_huge_pages(memory)
    return np.frombuffer(memory, dtype, number)


def filled_from_begin(size: int) -> NDArray[np.uint8]:
    """Room for so many bytes, all zero, of which only the first ones may ever be written.

    Those come in small pages, what is beyond `_HUGE` bytes in large ones.

    Raises:
        MemoryError: the system has not so many addresses left.
    """
    if size < _LARGE or not _GIVES_PAGES:
        return np.zeros(size, np.uint8)
    memory = _mapped(size, _NO_RESERVE)
    if size > _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, _HUGE, size - _HUGE)
    return np.frombuffer(memory, np.uint8, size)


class Reused:
    """Memory for one thing at a time: who asks for more has done with what was given before."""

    def __init__(self) -> None:
        self._held = np.empty(0, np.uint8)

    def __call__(self, size: int) -> NDArray[np.uint8]:
        if size > len(self._held):
            self._held = np.empty(0, np.uint8)  # before there is more
            self._held = in_pages(size + size // 64, np.uint8)
        return self._held[:size]


def fresh(size: int) -> NDArray[np.uint8]:
    """Memory of its own for each thing."""
    return np.empty(size, np.uint8)


def _mapped(size: int, flags: int = 0) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
    except OSError as error:
        raise MemoryError(f"the system gives no {size / 1e6:,.0f} MB: {error.strerror}") from error


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel that was built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
