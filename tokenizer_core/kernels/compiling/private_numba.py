"""What is private to Numba: kernels that are faster, sooner compiled, and kept (gains: LOG.md)."""

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
    """A kernel of one signature, its declared one, compiled or loaded at the first call.

    Numba calls ``_compile_for_args`` for arguments of types that it has no code for, and then the
    code that this returns: the one there is, where they are as declared.
    """
    compiled: Any = _compiled(function, _CompilerOfEntries, nogil=nogil)
    compiled._cache = cache = _KeptCode(function)
    compile_or_load = compiled.compile
    accepted = []  # Numba knows types by numbers as long as they exist

    def in_turn(types: Any) -> Any:
        with cache.turn:
            return compile_or_load(types)

    def only_as_declared(*given: Any) -> Any:
        declared = signature_of(function)
        types = declared.types_of(given)
        code = compiled.compile(declared.dtypes)
        if types != declared.dtypes:  # writable arrays, which the same code reads
            accepted.append(types)
            compiled._insert([one._code for one in types], code, False)
        compiled._types_active_call.clear()
        return code

    compiled.compile = in_turn
    compiled._compile_for_args = only_as_declared
    return compiled


def compiled_inner(function: Any, *, always_inlined: bool = False) -> Any:
    """A kernel that becomes a part of those that call it; Python cannot call it."""

    def hold(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    def refuse(*_: Any) -> None:
        raise TypeError(f"only kernels call {name_of(function)}; mark it @entry_kernel")

    options = {"nogil": True, "no_cpython_wrapper": True, "forceinline": always_inlined}
    compiled: Any = _compiled(function, _CompilerOfParts, **options)
    compiled.add_overload = hold
    compiled._compile_for_args = refuse
    return compiled


def _compiled(function: Any, compiler: type[Compiler], **options: bool) -> Any:
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    return numba.njit(error_model="numpy", pipeline_class=compiler, **options)(function)


class _Entry(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry, and of all kernels that it calls, directly or not."""

    def add_linking_library(self, library: CodeLibrary) -> None:
        # What calls comes before what is called: LLVM leaves out what nothing calls yet.
        super().add_linking_library(library)
        if isinstance(library, _Part):
            self._linking_libraries += library._linking_libraries

    def _optimize_final_module(self) -> None:
        """Tell LLVM first that nothing else calls the kernels that were linked in."""
        for one in self._final_module.functions:
            if one.linkage == Linkage.linkonce_odr and not one.is_declaration:
                one.linkage = Linkage.internal
        super()._optimize_final_module()


class _Part(_Entry):
    """The code of an inner kernel, which is neither optimized nor made machine code by itself."""

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        return 0  # there is no such machine code

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
    """The machine code of one entry, in a file of the trusted directory; else it is compiled again.

    What one process compiles no other compiles at the same time: it waits in `turn`, and loads it.
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
        # Not by way of `target.refresh()`: what compiling needs takes a quarter of a second.
        with suppress(Exception), kept() as directory:  # of many kinds
            parts = pickle.loads(read_file(directory, self.name))
            return CompileResult._rebuild(target, *parts)
        return None

    def save_overload(self, _signature: Any, result: Any) -> None:
        with suppress(OSError), kept() as directory:  # a full disk costs the next start time
            write_file(directory, self.name, dumps(result._reduce()))
