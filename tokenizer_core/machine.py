"""Processors and memory: what this machine has, what limits leave, and what bpeline needs.

LLVM, DuckDB and Arrow crash, or wait forever, where `mmap` fails or a thread cannot start. So
commands, and the import of the kernels, compare what is left with what they need before that.

The needs are VmPeak of commands on one and two processors, with 420 kB and 20 MB of random words,
after `save_addresses`, and 10 to 20 % more. `train` and `encode` were also measured with an empty
kernel cache. November 2026, Linux on x86-64, Python 3.11. A large corpus needs more; that is not
checked here.
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
KERNELS = 550 * MB  # Numba, LLVM, all kernels of a training and of `encode`: up to 495 MB
READING = 900 * MB  # kernels and MLflow, as in `encode`: 530 to 750 MB
TRAINING = 1_450 * MB  # kernels, MLflow, DuckDB and Arrow, as in `train`: 970 to 1,250 MB
MORE_THREADS = 20 * MB  # for each beyond two: stacks of one that counts and of one of DuckDB's

_DATA_OF_TEN = 6  # of ten bytes that are needed, those that RLIMIT_DATA counts: 4.5 to 6
_STATM = Path("/proc/self/statm")  # in pages: size, resident, shared, text, library, data
_M_ARENA_MAX = -8  # of glibc's malloc.h
_MOST_THREADS = 1 << 14
_LIMIT_OF_A_CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of cgroups 2; a number, or "max"


def thread_count(threads: int | None, name: str = "threads") -> int:
    """``threads``, or one per available processor.

    Args:
        name: of the parameter.

    Raises:
        InvalidOption: less than one, more than any machine runs, or no number.
    """
    if threads is None:
        return available_processors()
    usual = f"leave {name} out for one per processor"
    number = checks.whole_number(name, threads, 1, usual)
    if number > _MOST_THREADS:
        raise InvalidOption(f"{name} is {number}", f"accepted: 1 to {_MOST_THREADS}", usual)
    return number


def available_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(memory, int(_LIMIT_OF_A_CONTAINER.read_text()))
    except (OSError, ValueError):
        return memory


def addresses_in_use() -> int:
    """Bytes of address space in use; 0 where there is no /proc, as under macOS."""
    return _pages_in_use()[0] * resource.getpagesize()


def require_addresses(need: int, work: str) -> None:
    """Check that the limits of this process leave so many bytes of address space.

    Without /proc, as under macOS, nothing is checked.

    Args:
        need: bytes, beside those in use.
        work: what needs them, for the message.

    Raises:
        OutOfMemory: RLIMIT_AS or RLIMIT_DATA leaves less.
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
                f"there is not enough memory: {name} is {allowed // 1024:,} kB",
                f"{work} needs {-(-needed // 1024):,} kB, and more for a large corpus",
                "raise the limit, or the memory of the batch job that sets it; then run it again",
            )


def save_addresses() -> None:
    """Under a limit, let libraries reserve less, in this process and those it starts.

    Call it before they are imported.
    glibc reserves 64 MiB for each thread, Arrow's allocator 1 GiB, OpenBLAS 32 MiB for each
    processor. They would take what the limit leaves, and none of it is needed.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.platform == "linux":
        with suppress(AttributeError):  # musl has none
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _pages_in_use() -> list[int]:
    try:
        return [int(pages) for pages in _STATM.read_text().split()]
    except (OSError, ValueError):
        return [0] * 7
