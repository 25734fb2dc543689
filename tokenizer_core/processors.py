"""How many threads are meant where a caller may leave it open."""

from __future__ import annotations

import os

from tokenizer_core.errors import InvalidOption


def thread_count(threads: int | None) -> int:
    """``threads``, or one per available processor.

    Raises:
        InvalidOption: less than one.
    """
    if threads is None:
        return available_processors()
    if threads < 1:
        raise InvalidOption(
            f"{threads} threads were asked for",
            "one thread or more",
            "leave it out for one per processor",
        )
    return threads


def available_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
