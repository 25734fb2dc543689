"""Faster and cached compilation through Numba's private API (gains: LOG.md)."""

from __future__ import annotations

import pickle
from contextlib import ExitStack, suppress
from typing import Any, ClassVar

import numba
from llvmlite.binding import Linkage
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.serialize import dumps

from bpeline.tokenizer_core.cache_directory import read_file, turn, write_file
from bpeline.tokenizer_core.kernels.compiling.machine_code import file_of, kept
from bpeline.tokenizer_core.kernels.memory.types import name_of, signature_of


def compiled_entry(function: Any, *, nogil: bool) -> Any:
    """A kernel of its declared signature, compiled or loaded by the first call.

    For argument types without code, Numba calls ``_compile_for_args`` and runs the code that it
    returns: here the only code, if the types are as declared.
    """
    compiled: Any = _compiled(function, _CompilerOfEntries, nogil=nogil)
    compiled._cache = cache = _KeptCode(function)
    compile_or_load = compiled.compile
    accepted_types = []  # keeps them alive: Numba identifies types by number while they exist

    def in_turn(types: Any) -> Any:
        with cache.turn:
            return compile_or_load(types)

    def only_as_declared(*given: Any) -> Any:
        declared = signature_of(function)
        types = declared.types_of(given)
        code = compiled.compile(declared.dtypes)
        if types != declared.dtypes:  # writable arrays, which the same code can read
            accepted_types.append(types)
            compiled._insert([argument_type._code for argument_type in types], code, False)
        compiled._types_active_call.clear()
        return code

    compiled.compile = in_turn
    compiled._compile_for_args = only_as_declared
    return compiled


def compiled_inner(function: Any, *, always_inlined: bool = False) -> Any:
    """A kernel that is compiled into its callers; Python cannot call it."""

    def hold(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    def refuse(*_: Any) -> None:
        raise TypeError(f"{name_of(function)} is called only by kernels; mark it @entry_kernel")

    options = {"nogil": True, "no_cpython_wrapper": True, "forceinline": always_inlined}
    compiled: Any = _compiled(function, _CompilerOfParts, **options)
    compiled.add_overload = hold
    compiled._compile_for_args = refuse
    return compiled


def _compiled(function: Any, compiler: type[Compiler], **options: bool) -> Any:
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    return numba.njit(error_model="numpy", pipeline_class=compiler, **options)(function)


class _Entry(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry kernel and of all kernels that it calls, directly or not."""

    def add_linking_library(self, library: CodeLibrary) -> None:
        # Callers are linked before the functions that they call: LLVM drops unused functions.
        super().add_linking_library(library)
        if isinstance(library, _Part):
            self._linking_libraries += library._linking_libraries

    def _optimize_final_module(self) -> None:
        """Make linked kernels internal, so that LLVM knows that nothing else calls them."""
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr and not function.is_declaration:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _Part(_Entry):
    """The code of an inner kernel, which is neither optimized nor compiled alone."""

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        return 0  # it has no machine code

    @property
    def codegen(self) -> _Part:
        return self

    def set_env(self, _name: str, _environment: Any) -> None:
        pass


class _CompilerOfEntries(Compiler):  # type: ignore[misc]
    library: ClassVar[type[_Entry]] = _Entry

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _CompilerOfParts(_CompilerOfEntries):
    library = _Part


class _KeptCode:
    """The machine code of one entry kernel, in a file of the cache directory.

    `turn` makes other processes wait for the one that compiles, and then load its result.
    """

    cache_path = ""  # for Numba's statistics

    def __init__(self, function: Any) -> None:
        self.name = file_of(function)
        self.turn = ExitStack()

    def load_overload(self, _signature: Any, target: Any) -> Any:
        result = self._load(target)
        if result is None:
            with suppress(OSError), kept() as directory:
                self.turn.enter_context(turn(directory, f"{self.name}.lock"))
                result = self._load(target)
        return result

    def _load(self, target: Any) -> Any:
        # `target.refresh()` would import what compiling needs, which takes a quarter of a second.
        with suppress(Exception), kept() as directory:  # loading raises errors of many types
            parts = pickle.loads(read_file(directory, self.name))
            return CompileResult._rebuild(target, *parts)
        return None

    def save_overload(self, _signature: Any, result: Any) -> None:
        with suppress(OSError), kept() as directory:  # a full disk only delays the next start
            write_file(directory, self.name, dumps(result._reduce()))
