"""How much memory this process has resident, and ever had."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_megabytes() -> float:
    """High-water mark in 10⁶ bytes, mapped files included.

    Linux's ``ru_maxrss`` of a new process begins at what its parent had, so the kernel's own
    mark of this program is read where there is one.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak if sys.platform == "darwin" else peak * 1024) / 1e6


def resident_megabytes() -> float:
    """What is resident now, in 10⁶ bytes; where the system does not tell, the peak."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
    return peak_megabytes()
