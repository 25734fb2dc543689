"""Memory that was freed and that the C library keeps; knows nothing of what it held."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """Give freed memory back to the system, where the C library can.

    glibc keeps up to twice the largest block that was ever freed. After a tokenizer's files were
    parsed that is a third of what the process grew by, and nothing will use it again. Takes some
    milliseconds; elsewhere than with glibc it does nothing.
    """
    with suppress(OSError, TypeError, AttributeError):  # a system without such a library
        ctypes.CDLL(None).malloc_trim(0)
