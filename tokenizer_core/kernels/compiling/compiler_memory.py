"""Gives back what memory the compiler's library takes while nothing is compiled; knows no kernel.

Loading kept machine code reads 35 MB of LLVM's own code, which then counts as this process's
memory, a fifth of what a training takes, and is not needed again before the next kernel is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from contextlib import suppress
from pathlib import Path

_MAPS = Path("/proc/self/maps")  # Linux's
_LIBRARY = "/libllvmlite"


def give_back_compiler() -> None:
    """Let the system have the pages of its code, which it reads from the file when they are needed.

    That takes 1 ms when there are pages, 0.1 ms when there are none, and as long again when
    they come back: so it is for what takes tens of milliseconds and much memory.
    """
    for begin, size in _code():
        _advise()(begin, size, mmap.MADV_DONTNEED)


@functools.cache
def _code() -> list[tuple[int, int]]:
    """Address and size of its machine code; nothing where that is not known.

    Nobody ever writes there, so what is in the file is what is in memory.
    """
    found = []
    if hasattr(mmap, "MADV_DONTNEED"):
        with suppress(OSError):
            for line in _MAPS.read_text(errors="replace").splitlines():
                place, rights, *_ = line.split(maxsplit=2)
                if rights == "r-xp" and _LIBRARY in line:
                    begin, end = (int(address, 16) for address in place.split("-"))
                    found.append((begin, end - begin))
    return found


@functools.cache
def _advise() -> ctypes._NamedFuncPointer:
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise
