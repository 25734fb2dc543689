"""How kernels are compiled; knows nothing of what they do.

Numba's internals are used where Numba is one of the versions that they were tried with. Elsewhere
kernels are as right, and slower: compiled in every process, by its public functions alone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import numba

from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.kernels.compiling.signatures import signature_of

Function = TypeVar("Function", bound=Callable[..., Any])

# The versions of Numba whose internals `numba_internals` uses: from the first, below the second.
TRIED = (0, 68), (0, 69)
WITHOUT_INTERNALS = (
    f"Numba {numba.__version__} is none of the versions from {TRIED[0][0]}.{TRIED[0][1]} and below "
    f"{TRIED[1][0]}.{TRIED[1][1]} that were tried: kernels are slower and compiled at every start"
)
_ENTRY = "is_entry"


def internals_are_known() -> bool:
    """Whether this is a version of Numba whose internals can be used."""
    found = tuple(map(int, re.findall(r"\d+", numba.__version__)[:2]))
    return TRIED[0] <= found < TRIED[1]


if numba.config.DISABLE_JIT:
    raise BpelineError(
        "Numba's compiler is switched off: NUMBA_DISABLE_JIT is set, or DISABLE_JIT in "
        ".numba_config.yaml here",
        "kernels compiled by Numba",
        "type `unset NUMBA_DISABLE_JIT`, or remove that line of .numba_config.yaml",
    )
if not internals_are_known():
    warnings.warn(WITHOUT_INTERNALS, RuntimeWarning, stacklevel=2)


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
    if internals_are_known():
        from bpeline.tokenizer_core.kernels.compiling.numba_internals import compiled_inner

        return compiled_inner(function)
    return _compiled_by_public_means(function, nogil=True)


def inlined_kernel(function: Function) -> Function:
    """`kernel` for what must never be called: it stands in a loop, and LLVM would think it large.

    A call there saves and loads every register that the loop holds, vectors among them.
    """
    if internals_are_known():
        from bpeline.tokenizer_core.kernels.compiling.numba_internals import compiled_inner

        return compiled_inner(function, always_inlined=True)
    return _compiled_by_public_means(function, nogil=True)


def entry_kernel(function: Function) -> Function:
    """Make native code of what Python calls, for the types that its annotations declare.

    It is compiled, or loaded, when it is first called or by `compile_declared`, and for no other
    types ever: a call with others raises a TypeError that names the argument.
    """
    return _entry(function, nogil=True)


def entry_kernel_holding_gil(function: Function) -> Function:
    """`entry_kernel` for what reads Python objects, which no other thread may change then.

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


def machine_code(kernel: Any) -> Callable[..., Any]:
    """An entry kernel, compiled or loaded, as a function that sees no types in its arguments.

    For what is called for every short text, with numbers alone: finding out that they are numbers
    takes 0.07 µs. The kernel is held by its module.
    """
    code: Callable[..., Any] = kernel
    if internals_are_known():
        from bpeline.tokenizer_core.kernels.compiling.numba_internals import code_of

        code = code_of(kernel)
    return code


def are_kept(*kernels: Any) -> bool:
    """Whether the machine code of entry kernels seems to be kept, so nothing will be compiled."""
    if not internals_are_known():
        return False
    from bpeline.tokenizer_core.kernels.compiling import numba_internals

    return numba_internals.are_kept(kernels)


def _entry(function: Function, *, nogil: bool) -> Function:
    setattr(function, _ENTRY, True)
    if internals_are_known():
        from bpeline.tokenizer_core.kernels.compiling.numba_internals import compiled_entry

        return compiled_entry(function, nogil=nogil)
    return _compiled_by_public_means(function, nogil=nogil)


def _compiled_by_public_means(function: Function, *, nogil: bool) -> Function:
    return numba.njit(nogil=nogil, error_model="numpy")(function)
