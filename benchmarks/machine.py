"""What the figures were measured on: processor, cores, memory, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS

TRAINERS = tuple(one.package for one in CONTESTANTS.values() if one.package is not None)
_OURS = ("numpy", "numba", "llvmlite", "regex")


def description(packages: Iterable[str] = TRAINERS) -> dict[str, Any]:
    """JSON-able; without a host name or a date.

    Args:
        packages: the distributions whose versions are told beside our own dependencies'.
    """
    return {
        "processor": _processor(),
        "vectors": _vectors(),
        "cores": os.cpu_count(),
        "memory_gigabytes": _memory_gigabytes(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": _versions([*_OURS, *packages]),
    }


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpuinfo(field: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else []:
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _vectors() -> str:
    flags = _cpuinfo("flags").split()
    return next((name for name in ("avx512bw", "avx2", "sse4_2") if name in flags), "")


def _memory_gigabytes() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    except (ValueError, OSError, AttributeError):
        return None
