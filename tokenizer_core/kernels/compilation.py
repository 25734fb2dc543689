"""How kernels are compiled and where the machine code is kept; knows nothing of what they do."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
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

_KERNELS = Path(__file__).parent


@functools.cache
def source_digest() -> str:
    """Digest of every kernel source and of the compiler's versions: 16 hexadecimal digits.

    Numba's own cache does not notice an edit in another file that a kernel inlines, so the
    directory of the cache is named by all of them: any edit recompiles everything.
    """
    state = hashlib.sha256()
    state.update(f"{sys.version_info[:3]} {numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(_KERNELS.glob("*.py")):
        state.update(path.name.encode())
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


@functools.cache
def cache_directory() -> Path | None:
    """The private directory of compiled kernels, or None when no trustworthy one can be had.

    Numba's cache files are pickles, so the directory must belong to this user and be closed to
    all others (mode 0700). ``BPELINE_KERNEL_CACHE`` names another place.
    """
    home = os.environ.get("BPELINE_KERNEL_CACHE")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        home = os.path.join(base, "bpeline", "kernels")
    directory = Path(home) / source_digest()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None
    if status.st_uid != os.getuid():
        return None
    if status.st_mode & 0o077:
        try:
            directory.chmod(0o700)
        except OSError:
            return None
    return directory


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
    """Compile ``function`` to native code on its first call. The only decorator kernels use.

    The options, and why:

    - ``nogil``: threads are the parallelism; a kernel never touches a Python object.
    - ``error_model="numpy"``: no hidden division checks with their error paths.
    - ``_nrt=False``: arrays passed to helpers are not reference counted (measured: 5 instead
      of 70 ns per byte). It also forbids allocation: the caller owns every array.
    - no ``parallel``, no ``fastmath``: one level of parallelism, exact integers.
    - caching through `cache_directory`, because ``cache=True`` runs stale code after edits.
    """
    compiled = numba.njit(nogil=True, error_model="numpy", _nrt=False)(function)
    if cache_directory() is not None:
        compiled._cache = _SelfHealingCache(function)
    return compiled


def compiled_from_cache(function: Any) -> bool:
    """Whether every specialization of a kernel so far was loaded rather than compiled."""
    return not function.stats.cache_misses
