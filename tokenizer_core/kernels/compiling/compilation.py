"""How kernels are compiled, and which reasons there are to do it by public functions alone.

With a version of Numba that it was not tried with, or with ``BPELINE_PLAIN_NUMBA=1``, nothing
private to Numba is used: kernels are as right, and slower, as every process compiles them.
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

TRIED = (0, 68), (0, 69)  # versions of Numba: from the first, below the second
_ENTRY = "is_entry"


def why_plain() -> str:
    """Why only public functions of Numba are used; empty where that is not so."""
    if os.environ.get("BPELINE_PLAIN_NUMBA", "") not in ("", "0"):
        return "BPELINE_PLAIN_NUMBA is set: kernels are slower and compiled at every start"
    if TRIED[0] <= tuple(map(int, re.findall(r"\d+", numba.__version__)[:2])) < TRIED[1]:
        return ""
    return (
        f"Numba {numba.__version__} is none of the versions from {TRIED[0][0]}.{TRIED[0][1]} and "
        f"below {TRIED[1][0]}.{TRIED[1][1]} that were tried: kernels are slower and compiled at "
        "every start"
    )


if numba.config.DISABLE_JIT:
    raise BpelineError(
        "Numba's compiler is switched off: NUMBA_DISABLE_JIT is set, or DISABLE_JIT in "
        ".numba_config.yaml here",
        "kernels compiled by Numba",
        "type `unset NUMBA_DISABLE_JIT`, or remove that line of .numba_config.yaml",
    )
IS_PLAIN = bool(why_plain())
if not IS_PLAIN:
    from bpeline.tokenizer_core.kernels.compiling import private_numba
elif "BPELINE_PLAIN_NUMBA" not in why_plain():
    warnings.warn(why_plain(), RuntimeWarning, stacklevel=2)


def kernel(function: Function) -> Function:
    """Make native code of what only kernels call; types are those it is called with.

    The options of all kernels, and why:

    - ``nogil``: threads are the parallelism; a kernel never touches a Python object.
    - ``error_model="numpy"``: no hidden division checks with their error paths.
    - ``_nrt=False``: arrays passed to helpers are not reference counted (measured: 5 instead
      of 70 ns per byte). It also forbids allocation: the caller owns every array.
    - no ``parallel``, no ``fastmath``: one level of parallelism, exact integers.
    - caching through `cache_directory`, because ``cache=True`` runs stale code after edits.
    """
    return _plain(function) if IS_PLAIN else private_numba.compiled_inner(function)


def inlined_kernel(function: Function) -> Function:
    """`kernel` for what must never be called: it stands in a loop, and LLVM would think it large.

    A call there saves and loads every register that the loop holds, vectors among them.
    """
    if IS_PLAIN:
        return _plain(function)
    return private_numba.compiled_inner(function, always_inlined=True)


def entry_kernel(function: Function) -> Function:
    """Make native code of what Python calls, for the types that its annotations declare.

    It is compiled, or loaded, when it is first called or by `compile_declared`, and for no other
    types ever: a call with others raises a TypeError that names the argument.
    """
    return _entry(function, nogil=True)


def entry_kernel_holding_gil(function: Function) -> Function:
    """`entry_kernel` for what uses Python objects, which no other thread may change then.

    For short work only: all Python threads wait for it.
    """
    return _entry(function, nogil=False)


def is_entry(value: object) -> bool:
    """Whether a value is a kernel that Python may call."""
    return hasattr(getattr(value, "py_func", None), _ENTRY)


def entry_kernels(module: ModuleType) -> list[Any]:
    """Those that a module defines."""
    return [
        value
        for value in vars(module).values()
        if is_entry(value) and value.py_func.__module__ == module.__name__
    ]


def compile_declared(*kernels: Any) -> None:
    """Compile, or load, entry kernels before they are called."""
    for one in kernels:
        one.compile(signature_of(one.py_func).dtypes)


def are_kept(*kernels: Any) -> bool:
    """Whether the machine code of entry kernels seems to be kept, so nothing will be compiled."""
    if IS_PLAIN:
        return False
    with suppress(OSError), machine_code.kept() as directory:
        names = {machine_code.file_of(one.py_func) for one in kernels}
        return names <= set(holding(directory).files)
    return False


def _entry(function: Function, *, nogil: bool) -> Function:
    setattr(function, _ENTRY, True)
    if IS_PLAIN:
        return _plain(function, nogil=nogil)
    return private_numba.compiled_entry(function, nogil=nogil)


def _plain(function: Function, *, nogil: bool = True) -> Function:
    return numba.njit(nogil=nogil, error_model="numpy")(function)
