"""Available processors and memory, and the memory that bpeline needs.

LLVM, DuckDB and Arrow crash or hang when `mmap` fails or a thread cannot start. Therefore commands
and the import of the kernels first check the limits of the process.

The needs are VmPeak plus 10 to 20 %, after `save_addresses`, on one and two processors with 420 kB
and 20 MB of random words; `train` and `encode` also with an empty kernel cache. November 2026,
Linux on x86-64, Python 3.11. Larger corpora need more, which is not checked here.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import InvalidOption, OutOfMemory

MB = 1_000_000
KERNELS = 550 * MB  # Numba, LLVM and all kernels of training and `encode`: up to 495 MB
READING = 900 * MB  # kernels and MLflow, as in `encode`: 530 to 750 MB
TRAINING = 1_450 * MB  # kernels, MLflow, DuckDB and Arrow, as in `train`: 970 to 1,250 MB
MORE_THREADS = 20 * MB  # per thread beyond two: stacks of a counting and a DuckDB thread

_DATA_OF_TEN = 6  # share of memory that RLIMIT_DATA counts, in tenths: measured 4.5 to 6
_STATM = Path("/proc/self/statm")  # in pages: size, resident, shared, text, library, data
_M_ARENA_MAX = -8  # from glibc's malloc.h
_MOST_THREADS = 1 << 14
_LIMIT_OF_A_CONTAINER = Path("/sys/fs/cgroup/memory.max")  # cgroups v2; a number, or "max"


def thread_count(threads: int | None, name: str = "threads") -> int:
    """Return ``threads``, or the number of available processors for None."""
    if threads is None:
        return available_processors()
    usual = f"leave {name} out for one per processor"
    number = checks.whole_number(name, threads, 1, usual)
    if number > _MOST_THREADS:
        raise InvalidOption(f"{name} is {number}", f"expected: 1 to {_MOST_THREADS}", usual)
    return number


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_memory() -> int:
    """Return the memory of this machine or container in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(memory, int(_LIMIT_OF_A_CONTAINER.read_text()))
    except (OSError, ValueError):
        return memory


def addresses_in_use() -> int:
    """Return the address space in use in bytes; 0 without /proc, as on macOS."""
    return _pages_in_use()[0] * resource.getpagesize()


def require_addresses(need: int, work: str) -> None:
    """Raise `OutOfMemory` if limits leave fewer than ``need`` more bytes.

    Does nothing without /proc, as on macOS.
    """
    used = _pages_in_use()
    for name, limit, pages, tenths in (
        ("RLIMIT_AS (`ulimit -v`)", resource.RLIMIT_AS, used[0], 10),
        ("RLIMIT_DATA (`ulimit -d`)", resource.RLIMIT_DATA, used[5], _DATA_OF_TEN),
    ):
        allowed = resource.getrlimit(limit)[0]
        needed = pages * resource.getpagesize() + need * tenths // 10
        if pages and allowed != resource.RLIM_INFINITY and allowed < needed:
            raise OutOfMemory(
                f"not enough memory: {name} is {allowed // 1024:,} kB",
                f"{work} needs {-(-needed // 1024):,} kB, and more for a large corpus",
                "raise the limit, or the memory of the batch job that sets it; then run it again",
            )


def save_addresses() -> None:
    """If RLIMIT_AS is set, make libraries reserve less, also in child processes.

    Call it before they are imported. By default, glibc reserves 64 MiB per thread, Arrow's
    allocator 1 GiB and OpenBLAS 32 MiB per processor, mostly unused.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.platform == "linux":
        with suppress(AttributeError):  # not available in musl
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _pages_in_use() -> list[int]:
    try:
        return [int(pages) for pages in _STATM.read_text().split()]
    except (OSError, ValueError):
        return [0] * 7
