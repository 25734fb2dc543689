"""Decorators that compile kernels.

With an untested version of Numba, or with ``BPELINE_PLAIN_NUMBA=1``, only Numba's public API is
used. Results are the same, but kernels are slower and every process compiles them.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

import numba

from bpeline.tokenizer_core.cache_directory import holding
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.kernels.compiling import machine_code
from bpeline.tokenizer_core.kernels.memory.types import signature_of

Function = TypeVar("Function", bound=Callable[..., Any])

TRIED = (0, 68), (0, 69)  # tested versions of Numba: from the first, below the second
_ENTRY = "is_entry"


def why_plain() -> str:
    """The reason to use only Numba's public API, or an empty string."""
    if os.environ.get("BPELINE_PLAIN_NUMBA", "") not in ("", "0"):
        return "BPELINE_PLAIN_NUMBA is set: kernels are slower and compiled at every start"
    if TRIED[0] <= tuple(map(int, re.findall(r"\d+", numba.__version__)[:2])) < TRIED[1]:
        return ""
    return (
        f"Numba {numba.__version__} is untested (expected from {TRIED[0][0]}.{TRIED[0][1]} and "
        f"below {TRIED[1][0]}.{TRIED[1][1]}): kernels are slower and compiled at "
        "every start"
    )


if numba.config.DISABLE_JIT:
    raise BpelineError(
        "Numba's compiler is disabled: NUMBA_DISABLE_JIT is set, or DISABLE_JIT in "
        ".numba_config.yaml here",
        "expected kernels compiled by Numba",
        "type `unset NUMBA_DISABLE_JIT`, or remove that line of .numba_config.yaml",
    )
IS_PLAIN = bool(why_plain())
if not IS_PLAIN:
    from bpeline.tokenizer_core.kernels.compiling import private_numba
elif "BPELINE_PLAIN_NUMBA" not in why_plain():
    warnings.warn(why_plain(), RuntimeWarning, stacklevel=2)


def kernel(function: Function) -> Function:
    """Compile a function that only kernels call; argument types are inferred.

    The options of all kernels, and why:

    - ``nogil``: threads run in parallel; a kernel does not use Python objects.
    - ``error_model="numpy"``: no hidden division checks with their error paths.
    - ``_nrt=False``: arrays passed to helpers are not reference counted (measured: 5 instead
      of 70 ns per byte). It also forbids allocation: the caller owns every array.
    - no ``parallel``, no ``fastmath``: one level of parallelism, exact integers.
    - caching by `machine_code`, because ``cache=True`` runs stale code after edits.
    """
    return _plain(function) if IS_PLAIN else private_numba.compiled_inner(function)


def inlined_kernel(function: Function) -> Function:
    """A `kernel` that is always inlined: for loop bodies that LLVM finds too large.

    A call would save and load every register that the loop uses, vectors among them.
    """
    if IS_PLAIN:
        return _plain(function)
    return private_numba.compiled_inner(function, always_inlined=True)


def entry_kernel(function: Function) -> Function:
    """Compile a function that Python calls, for the argument types it declares.

    It is compiled or loaded by its first call or by `compile_declared`. A call with other types
    raises a TypeError that names the argument.
    """
    return _entry(function, nogil=True)


def entry_kernel_holding_gil(function: Function) -> Function:
    """An `entry_kernel` that holds the GIL, because it uses Python objects.

    For short work only: all other Python threads wait.
    """
    return _entry(function, nogil=False)


def is_entry(value: object) -> bool:
    return hasattr(getattr(value, "py_func", None), _ENTRY)


def entry_kernels(module: ModuleType) -> list[Any]:
    return [
        value
        for value in vars(module).values()
        if is_entry(value) and value.py_func.__module__ == module.__name__
    ]


def compile_declared(*kernels: Any) -> None:
    """Compile or load entry kernels before their first call."""
    for entry in kernels:
        entry.compile(signature_of(entry.py_func).dtypes)


def are_kept(*kernels: Any) -> bool:
    """Whether the cache holds these entry kernels, so that none is compiled."""
    if IS_PLAIN:
        return False
    with suppress(OSError), machine_code.kept() as directory:
        names = {machine_code.file_of(entry.py_func) for entry in kernels}
        return names <= set(holding(directory).files)
    return False


def _entry(function: Function, *, nogil: bool) -> Function:
    setattr(function, _ENTRY, True)
    if IS_PLAIN:
        return _plain(function, nogil=nogil)
    return private_numba.compiled_entry(function, nogil=nogil)


def _plain(function: Function, *, nogil: bool = True) -> Function:
    return numba.njit(nogil=nogil, error_model="numpy")(function)
