"""Large arrays in memory mappings, which the system gets back when freed.

The C library keeps freed blocks of up to 32 MiB in one heap per thread. The tables that counting
grows, adds up and turns into rows left there twice the size of the rows.
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
Memory = Callable[[int], NDArray[np.uint8]]  # allocates uninitialized bytes

_LARGE = 1 << 20  # bytes; smaller arrays are not worth a system call
_HUGE = 1 << 22  # like NumPy, request 2 MiB pages from this size: first touch takes 1/6 of the time
# How much of a reservation will be written is unknown. On a virtual machine without free memory,
# gigabytes in huge pages take longer than in small ones: LOG.md.
_HUGE_IF_RESERVED = 1 << 28
# Python names this flag from 3.13 on. Other systems than Linux need none.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
_SLACK = 64  # bytes after the last item that may be read
LINE = 64  # bytes of a cache line
HUGE_PAGE = 1 << 21
_GIVES_PAGES = hasattr(mmap, "MAP_ANONYMOUS")


def in_pages(number: int, kind: type[Number]) -> NDArray[Number]:
    """An array of ``number`` zeros, followed by `_SLACK` readable bytes."""
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
    """An array of ``number`` zeros, aligned to a cache line, without slack.

    Linux aligns mappings of a multiple of 2 MiB to huge pages, but not slightly longer ones. Huge
    pages make random access cheap: fewer TLB misses.
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
    """Return the huge pages inside part of an `in_lines` array to the system."""
    whole = part
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    pages = getattr(whole.base, "obj", None)
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        place = part.ctypes.data - whole.ctypes.data
        begin = -(-place // HUGE_PAGE) * HUGE_PAGE
        end = (place + part.nbytes) // HUGE_PAGE * HUGE_PAGE
        if begin < end:
            with suppress(OSError):  # then the pages stay until the array is freed
                pages.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def reserved(number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array of ``number`` zeros that uses memory only where it is written."""
    size = max(1, number) * dtype.itemsize
    if not _GIVES_PAGES:
        return np.zeros(number, dtype)
    memory = _mapped(size, _NO_RESERVE)
    if _HUGE <= size <= _HUGE_IF_RESERVED:
        _ask_for_huge_pages(memory)
    return np.frombuffer(memory, dtype, number)


def filled_from_begin(size: int) -> NDArray[np.uint8]:
    """Like `reserved`, for bytes that are filled from the start, perhaps not fully.

    The first `_HUGE` bytes use small pages, the rest huge ones.
    """
    if size < _LARGE or not _GIVES_PAGES:
        return np.zeros(size, np.uint8)
    memory = _mapped(size, _NO_RESERVE)
    if size > _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, _HUGE, size - _HUGE)
    return np.frombuffer(memory, np.uint8, size)


class BufferPool:
    """A reusable buffer: each call invalidates the result of the call before."""

    def __init__(self) -> None:
        self._held = np.empty(0, np.uint8)

    def __call__(self, size: int) -> NDArray[np.uint8]:
        if size > len(self._held):
            self._held = np.empty(0, np.uint8)  # free before allocating more
            self._held = in_pages(size + size // 64, np.uint8)
        return self._held[:size]


def fresh(size: int) -> NDArray[np.uint8]:
    return np.empty(size, np.uint8)


def _mapped(size: int, flags: int = 0) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
    except OSError as error:
        raise MemoryError(f"the system gives no {size / 1e6:,.0f} MB: {error.strerror}") from error


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # the system may be built without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
