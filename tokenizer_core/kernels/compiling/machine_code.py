"""Where the machine code of kernels is kept: a directory named by what it is made of and for."""

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
    """Digest of every kernel source, the compiler's versions and the processor: 16 hex digits.

    Numba's own cache does not notice an edit in another file that a kernel inlines, so the
    directory of the cache is named by all of them: any edit recompiles everything.
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
    """What machine code is made for, as Numba is configured."""
    config = numba.config
    name, features = config.CPU_NAME, config.CPU_FEATURES
    return (
        binding.get_process_triple(),
        binding.get_host_cpu_name() if name is None else name,
        binding.get_host_cpu_features().flatten() if features is None else features,
        bool(config.ENABLE_AVX),
    )


def file_of(function: Any) -> str:
    """The name of the file of an entry kernel's machine code."""
    return f"{function.__module__}.{function.__name__}.nbc"


def _sources(folder: Any, name: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of all modules of a folder: files, or parts of the wheel of the core."""
    for inside in sorted(folder.iterdir(), key=lambda one: one.name):
        path = f"{name}/{inside.name}"
        if inside.is_dir():
            yield from _sources(inside, path)
        elif inside.name.endswith(".py"):
            yield path, inside.read_bytes()


def cache_directory() -> Path | None:
    """The directory of compiled kernels, made; None when no trustworthy one can be had.

    Numba's cache files are pickles: see `opened` for what is trusted. ``BPELINE_KERNEL_CACHE``
    names another place.
    """
    found = _found()
    return found if isinstance(found, Path) else None


@functools.cache
def _found() -> Path | OSError:
    """The directory, or why there is none."""
    directory = Path(kept_below()) / source_digest()
    try:
        with opened(directory, make=True) as descriptor:
            if os.fstat(descriptor).st_mtime < time.time() - _SECONDS_BETWEEN_MARKS:
                with contextlib.suppress(OSError):
                    os.utime(descriptor)  # the sign that it is in use, for `remove_unused_caches`
            new = not holding(descriptor).files
        if new:
            remove_unused_caches(directory)
    except OSError as error:
        return error
    return directory


def remove_unused_caches(beside: Path, days: float = 30) -> list[Path]:
    """Remove the machine code of other kernel sources that nobody used for some days.

    Only directories that are named like a digest, belong to this user, are no links and hold
    nothing but cache files are removed; a program that still wants one compiles again.

    Args:
        beside: the directory in use, which stays.
        days: since the directory was last used or written.

    Returns:
        What was removed.
    """
    removed = []
    oldest = time.time() - days * 86_400
    with opened(beside.parent) as home:
        for name in _cache_names(home):
            if name != beside.name:
                with contextlib.suppress(OSError):  # in use, not ours, or removed by another
                    if _is_unused(home, name, oldest):
                        os.rmdir(name, dir_fd=home)
                        removed.append(beside.parent / name)
    return removed


def _is_unused(home: int, name: str, oldest: float) -> bool:
    """Whether a cache is ours and old, and holds nothing else; empties it then."""
    with opened_inside(home, name) as descriptor:
        held = holding(descriptor)
        cache_files = all(os.path.splitext(file)[1] in _CACHE_SUFFIXES for file in held.files)
        if os.fstat(descriptor).st_mtime >= oldest or held.others or not cache_files:
            return False
        for file in held.files:
            os.unlink(file, dir_fd=descriptor)
        return True


def _cache_names(home: int) -> list[str]:
    """The names of directories of machine code, whichever kernel sources they belong to."""
    return [name for name in holding(home).others if _DIGEST.fullmatch(name)]


@dataclass(frozen=True, slots=True)
class CacheState:
    """What is kept of compiled kernels.

    Attributes:
        directory: of the present kernel sources; None when nothing can be kept.
        specializations: compiled kernels in it; 0 means that the next run compiles.
        size: their bytes.
        others: directories of other kernel sources.
        others_size: bytes of these.
        refusal: why nothing can be kept.
    """

    directory: Path | None
    specializations: int = 0
    size: int = 0
    others: int = 0
    others_size: int = 0
    refusal: Untrusted | OSError | None = None


def cache_state() -> CacheState:
    """Look at the cache; compiles and loads nothing."""
    directory = _found()
    if isinstance(directory, OSError):
        return CacheState(None, refusal=directory)
    with opened(directory) as descriptor:
        held = holding(descriptor)
    others = []
    with opened(directory.parent) as home:
        for name in _cache_names(home):
            with contextlib.suppress(OSError):  # a link, not ours, or gone
                if name != directory.name:
                    with opened_inside(home, name) as descriptor:
                        others.append(holding(descriptor).size)
    compiled = sum(file.endswith(".nbc") for file in held.files)
    return CacheState(directory, compiled, held.size, len(others), sum(others))


@contextlib.contextmanager
def kept() -> Iterator[int]:
    """A descriptor of the directory of compiled kernels; warns once where there is none.

    Raises:
        OSError: there is none.
    """
    found = _found()
    if isinstance(found, OSError):
        _say_that_nothing_is_kept(found)
        raise found
    with opened(found) as descriptor:
        yield descriptor


@functools.cache
def _say_that_nothing_is_kept(reason: OSError) -> None:
    mend = f"; {reason.mend}" if isinstance(reason, Untrusted) else ""
    said = f"kernels are compiled at every start, as machine code cannot be kept: {reason}{mend}"
    warnings.warn(said, RuntimeWarning, stacklevel=2)
