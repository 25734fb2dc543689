"""The on-disk cache of compiled kernels."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding

from bpeline.tokenizer_core.cache_directory import (
    Untrusted,
    holding,
    kept_below,
    opened,
    opened_inside,
)

_DIGEST = re.compile(r"[0-9a-f]{16}")
_CACHE_SUFFIXES = {".nbi", ".nbc", ".tmp", ".lock"}
_SECONDS_BETWEEN_MARKS = 86_400
_CORE = "bpeline.tokenizer_core"


@functools.cache
def source_digest() -> str:
    """Digest of kernel sources, compiler versions and processor: 16 hex digits.

    It names the cache directory, so any edit recompiles everything. Numba's own cache misses edits
    in other files whose kernels are inlined.
    """
    state = hashlib.sha256()
    state.update(f"{sys.version_info[:3]} {numba.__version__} {llvmlite.__version__}".encode())
    state.update(repr(_processor()).encode())
    core = resources.files(_CORE)
    for room in ("kernels", "algorithms"):
        for name, content in _sources(core / room, room):
            if room == "kernels" or "/kernels/" in name:
                state.update(name.encode())
                state.update(content)
    return state.hexdigest()[:16]


def _processor() -> tuple[Any, ...]:
    config = numba.config
    name, features = config.CPU_NAME, config.CPU_FEATURES
    return (
        binding.get_process_triple(),
        binding.get_host_cpu_name() if name is None else name,
        binding.get_host_cpu_features().flatten() if features is None else features,
        bool(config.ENABLE_AVX),
    )


def file_of(function: Any) -> str:
    return f"{function.__module__}.{function.__name__}.nbc"


def _sources(folder: Any, name: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all modules below a folder, which may be inside a wheel."""
    for inside in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{inside.name}"
        if inside.is_dir():
            yield from _sources(inside, path)
        elif inside.name.endswith(".py"):
            yield path, inside.read_bytes()


def cache_directory() -> Path | None:
    """Create the directory of compiled kernels; None if it cannot be trusted.

    Cache files are pickles; `opened` checks the path. ``BPELINE_KERNEL_CACHE`` sets another one.
    """
    directory = _found()
    return directory if isinstance(directory, Path) else None


@functools.cache
def _found() -> Path | OSError:
    """The directory, or the reason why there is none."""
    directory = Path(kept_below()) / source_digest()
    try:
        with opened(directory, make=True) as descriptor:
            if os.fstat(descriptor).st_mtime < time.time() - _SECONDS_BETWEEN_MARKS:
                with contextlib.suppress(OSError):
                    os.utime(descriptor)  # marks the cache as used, for `remove_unused_caches`
            new = not holding(descriptor).files
        if new:
            remove_unused_caches(directory)
    except OSError as error:
        return error
    return directory


def remove_unused_caches(beside: Path, days: float = 30) -> list[Path]:
    """Remove the machine code of other kernel sources that was not used for some days.

    Keeps ``beside``. Other directories must be named like a digest, belong to this user, be no
    links and hold only cache files. Returns the removed ones.
    """
    removed = []
    oldest = time.time() - days * 86_400
    with opened(beside.parent) as home:
        for name in _cache_names(home):
            if name != beside.name:
                with contextlib.suppress(OSError):  # in use, owned by another user, or removed
                    if _is_unused(home, name, oldest):
                        os.rmdir(name, dir_fd=home)
                        removed.append(beside.parent / name)
    return removed


def _is_unused(home: int, name: str, oldest: float) -> bool:
    """Empty a cache if it is old, owned by this user and holds only cache files."""
    with opened_inside(home, name) as descriptor:
        listing = holding(descriptor)
        cache_files = all(os.path.splitext(file)[1] in _CACHE_SUFFIXES for file in listing.files)
        if os.fstat(descriptor).st_mtime >= oldest or listing.others or not cache_files:
            return False
        for file in listing.files:
            os.unlink(file, dir_fd=descriptor)
        return True


def _cache_names(home: int) -> list[str]:
    return [name for name in holding(home).others if _DIGEST.fullmatch(name)]


@dataclass(frozen=True, slots=True)
class CacheState:
    """Contents of the cache of compiled kernels.

    Attributes:
        directory: cache of the present kernel sources; None if nothing can be cached.
        specializations: number of compiled kernels in it; 0 means that the next run compiles.
        others: number of directories of other kernel sources.
        refusal: why nothing can be cached.
    """

    directory: Path | None
    specializations: int = 0
    size: int = 0
    others: int = 0
    others_size: int = 0
    refusal: Untrusted | OSError | None = None


def cache_state() -> CacheState:
    """The present state of the cache; compiles and loads nothing."""
    directory = _found()
    if isinstance(directory, OSError):
        return CacheState(None, refusal=directory)
    with opened(directory) as descriptor:
        listing = holding(descriptor)
    others = []
    with opened(directory.parent) as home:
        for name in _cache_names(home):
            with contextlib.suppress(OSError):  # a link, owned by another user, or removed
                if name != directory.name:
                    with opened_inside(home, name) as descriptor:
                        others.append(holding(descriptor).size)
    compiled = sum(file.endswith(".nbc") for file in listing.files)
    return CacheState(directory, compiled, listing.size, len(others), sum(others))


@contextlib.contextmanager
def kept() -> Iterator[int]:
    """Open the cache directory as a descriptor; warns once if there is none.

    Raises:
        OSError: there is no trustworthy directory.
    """
    directory = _found()
    if isinstance(directory, OSError):
        _say_that_nothing_is_kept(directory)
        raise directory
    with opened(directory) as descriptor:
        yield descriptor


@functools.cache
def _say_that_nothing_is_kept(reason: OSError) -> None:
    hint = f"; {reason.mend}" if isinstance(reason, Untrusted) else ""
    message = f"machine code cannot be cached, so every start compiles kernels: {reason}{hint}"
    warnings.warn(message, RuntimeWarning, stacklevel=2)
