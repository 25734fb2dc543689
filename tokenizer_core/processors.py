"""How many threads, and how much memory, are meant where a caller may leave it open."""

from __future__ import annotations

import os
from pathlib import Path

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import InvalidOption

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
