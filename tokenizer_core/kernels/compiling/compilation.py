"""How kernels are compiled and where the machine code is kept; knows nothing of what they do."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import llvmlite
import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)

from bpeline.tokenizer_core.kernels.compiling.cache_directory import (
    Untrusted,
    holding,
    kept_below,
    opened,
    opened_inside,
    read_file,
    write_file,
)

Function = TypeVar("Function", bound=Callable[..., Any])

_DIGEST = re.compile(r"[0-9a-f]{16}")
_CACHE_SUFFIXES = {".nbi", ".nbc", ".tmp"}
_SECONDS_BETWEEN_MARKS = 86_400
_CORE = "bpeline.tokenizer_core"


@functools.cache
def source_digest() -> str:
    """Digest of every kernel source and of the compiler's versions: 16 hexadecimal digits.

    Numba's own cache does not notice an edit in another file that a kernel inlines, so the
    directory of the cache is named by all of them: any edit recompiles everything.
    """
    state = hashlib.sha256()
    state.update(f"{sys.version_info[:3]} {numba.__version__} {llvmlite.__version__}".encode())
    core = resources.files(_CORE)
    for room in ("kernels", "algorithms"):
        for name, content in _sources(core / room, room):
            if room == "kernels" or b"\n@kernel" in content:
                state.update(name.encode())
                state.update(content)
    return state.hexdigest()[:16]


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


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Names a kernel's machine code, stamped by the sources' digest; where it is, `_Files` know."""

    def __init__(self, function: Any) -> None:
        self._line = function.__code__.co_firstlineno

    def ensure_cache_path(self) -> None:
        """Nothing: what cannot be written is not kept."""

    def get_cache_path(self) -> str:
        return ""

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Any, _file: str) -> _Locator:
        return cls(function)


class _CacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _Files(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index and data files, read and written by name in the directory that is trusted."""

    def load(self, key: Any) -> Any:
        with _kept() as self._directory:
            return super().load(key)

    def save(self, key: Any, data: Any) -> None:
        with _kept() as self._directory:
            super().save(key, data)

    def flush(self) -> None:
        with _kept() as self._directory:
            super().flush()

    def _load_index(self) -> Any:
        try:
            stamp, overloads = pickle.loads(read_file(self._directory, self._index_name))
        except FileNotFoundError:
            return {}
        return overloads if stamp == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: Any) -> None:
        content = self._dump(((self._version, self._source_stamp), overloads))
        write_file(self._directory, self._index_name, content)

    def _load_data(self, name: str) -> Any:
        return pickle.loads(read_file(self._directory, name))

    def _save_data(self, name: str, data: Any) -> None:
        write_file(self._directory, name, self._dump(data))


@contextlib.contextmanager
def _kept() -> Iterator[int]:
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


class _SelfHealingCache(FunctionCache):  # type: ignore[misc]
    """A truncated or foreign cache file means: compile again, never fail."""

    _impl_class = _CacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _Files("", self._impl.filename_base, source_digest())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        _start_without_scipy()
        try:
            return super().load_overload(signature, target_context)
        except Exception:  # Numba lets EOFError, UnpicklingError and others through
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError:  # a full or read-only disk costs the next start a compilation, not this run
            return


@functools.cache
def _start_without_scipy() -> None:
    """Import what Numba knows of arrays without SciPy's linear algebra, which takes 0.1 s.

    Numba looks once whether SciPy is there. Told so beforehand, it imports SciPy when somebody
    compiles a function that needs it, as it does anyway.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    looks = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = looks
    arraymath.ensure_blas = looks
    arraymath._HAVE_BLAS = find_spec("scipy") is not None


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
    compiled._cache = _SelfHealingCache(function)
    return compiled
