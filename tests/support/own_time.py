"""How long something took, less what its thread stood in line for a processor that others used."""

from __future__ import annotations

import time
from pathlib import Path

_IN_LINE = Path("/proc/thread-self/schedstat")  # nanoseconds: on a processor, and in line for one


def own_time() -> float:
    """Seconds of a clock that stands still while this thread is ready and not let run.

    For bounds on what is waited for, on a machine that has much else to do. Where the system does
    not say how long that was, a clock like any other.
    """
    try:
        in_line = int(_IN_LINE.read_text().split()[1])
    except (OSError, IndexError):
        in_line = 0
    return time.monotonic() - in_line / 1e9
