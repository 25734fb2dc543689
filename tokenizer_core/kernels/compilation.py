"""How kernels are compiled and where the machine code is kept; knows nothing of what they do."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import llvmlite
import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    _CacheLocator,
)

Function = TypeVar("Function", bound=Callable[..., Any])

_DIGEST = re.compile(r"[0-9a-f]{16}")
_CACHE_SUFFIXES = {".nbi", ".nbc", ".tmp"}
_SECONDS_BETWEEN_MARKS = 86_400


@functools.cache
def source_digest() -> str:
    """Digest of every kernel source and of the compiler's versions: 16 hexadecimal digits.

    Numba's own cache does not notice an edit in another file that a kernel inlines, so the
    directory of the cache is named by all of them: any edit recompiles everything.
    """
    state = hashlib.sha256()
    state.update(f"{sys.version_info[:3]} {numba.__version__} {llvmlite.__version__}".encode())
    for source in sorted(resources.files(__package__).iterdir(), key=lambda one: one.name):
        if source.name.endswith(".py"):  # a file, or a part of the wheel of the core
            state.update(source.name.encode())
            state.update(source.read_bytes())
    return state.hexdigest()[:16]


@functools.cache
def cache_directory() -> Path | None:
    """The private directory of compiled kernels, or None when no trustworthy one can be had.

    Numba's cache files are pickles, so the directory must belong to this user and be closed to
    all others (mode 0700); one that others could write to is emptied first.
    ``BPELINE_KERNEL_CACHE`` names another place.
    """
    home = os.environ.get("BPELINE_KERNEL_CACHE")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        home = os.path.join(base, "bpeline", "kernels")
    directory = Path(home) / source_digest()
    try:
        new = not directory.exists()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None
    if status.st_uid != os.getuid():
        return None
    if status.st_mode & 0o077:
        try:
            directory.chmod(0o700)
            if status.st_mode & 0o022:  # others could put files there, and these are pickles
                for path in directory.iterdir():
                    path.unlink()
        except OSError:
            return None
    if new:
        remove_unused_caches(directory)
    elif status.st_mtime < time.time() - _SECONDS_BETWEEN_MARKS:
        with contextlib.suppress(OSError):
            os.utime(directory)  # the sign that it is in use, for `remove_unused_caches`
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
    for other in cache_directories(beside.parent):
        try:
            status = other.lstat()
            unused = status.st_mtime < oldest and status.st_uid == os.getuid()
            if other.name == beside.name or not unused:
                continue
            files = list(other.iterdir())
            if any(file.suffix not in _CACHE_SUFFIXES or file.is_dir() for file in files):
                continue
            for file in files:
                file.unlink(missing_ok=True)
            other.rmdir()
        except OSError:  # another process removes it too, or has just begun to use it
            continue
        removed.append(other)
    return removed


def cache_directories(home: Path) -> list[Path]:
    """The directories of machine code below ``home``, whichever kernel sources they belong to."""
    try:
        return sorted(
            path
            for path in home.iterdir()
            if _DIGEST.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        )
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class CacheState:
    """What is kept of compiled kernels.

    Attributes:
        directory: of the present kernel sources; None when nothing can be kept.
        specializations: compiled kernels in it; 0 means that the next run compiles.
        size: their bytes.
        others: directories of other kernel sources.
        others_size: bytes of these.
    """

    directory: Path | None
    specializations: int = 0
    size: int = 0
    others: int = 0
    others_size: int = 0


def cache_state() -> CacheState:
    """Look at the cache; compiles and loads nothing."""
    directory = cache_directory()
    if directory is None:
        return CacheState(None)
    others = [path for path in cache_directories(directory.parent) if path != directory]
    return CacheState(
        directory,
        len(list(directory.glob("*.nbc"))),
        _bytes_in(directory),
        len(others),
        sum(map(_bytes_in, others)),
    )


def _bytes_in(directory: Path) -> int:
    size = 0
    for path in directory.glob("*"):
        with contextlib.suppress(OSError):  # another process replaces it
            size += path.lstat().st_size
    return size


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Places a kernel's machine code in `cache_directory`, stamped by the sources' digest."""

    def __init__(self, function: Any, directory: Path) -> None:
        self._directory = str(directory)
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return self._directory

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Any, _file: str) -> _Locator | None:
        directory = cache_directory()
        return None if directory is None else cls(function, directory)


class _CacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _SelfHealingCache(FunctionCache):  # type: ignore[misc]
    """A truncated or foreign cache file means: compile again, never fail."""

    _impl_class = _CacheFiles

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except Exception:  # Numba lets EOFError, UnpicklingError and others through
            self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError:  # a full or read-only disk costs the next start a compilation, not this run
            return


def kernel(function: Function) -> Function:
    """Compile ``function`` to native code on its first call. The decorator kernels use.

    The options, and why:

    - ``nogil``: threads are the parallelism; a kernel never touches a Python object.
    - ``error_model="numpy"``: no hidden division checks with their error paths.
    - ``_nrt=False``: arrays passed to helpers are not reference counted (measured: 5 instead
      of 70 ns per byte). It also forbids allocation: the caller owns every array.
    - no ``parallel``, no ``fastmath``: one level of parallelism, exact integers.
    - caching through `cache_directory`, because ``cache=True`` runs stale code after edits.
    """
    return _compiled(function, nogil=True)


def kernel_holding_gil(function: Function) -> Function:
    """`kernel` for what reads the memory of Python objects, which no other thread may change then.

    For short work only: all Python threads wait for it.
    """
    return _compiled(function, nogil=False)


def _compiled(function: Function, nogil: bool) -> Function:
    compiled: Any = numba.njit(nogil=nogil, error_model="numpy", _nrt=False)(function)
    if cache_directory() is not None:
        compiled._cache = _SelfHealingCache(function)
    return compiled
