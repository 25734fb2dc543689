"""Memory that was freed and that the C library keeps; knows nothing of what it held."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def return_freed_memory() -> None:
    """Give freed memory back to the system, where the C library can.

    glibc keeps up to twice the largest block that was ever freed. After a tokenizer's files were
    parsed that is a third of what the process grew by, and nothing will use it again. Takes some
    milliseconds; elsewhere than with glibc it does nothing.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # a system without such a library
        return None
    return trim
