"""All that is private to Numba, as in the versions it was tried with; knows nothing of kernels.

Nothing here is imported where Numba is another version: see `compilation`.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, ClassVar

import numba
from llvmlite.binding import Linkage, parse_assembly
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler

from bpeline.tokenizer_core.cache_directory import (
    holding,
    read_file,
    turn,
    write_file,
)
from bpeline.tokenizer_core.kernels.compiling.machine_code import kept, source_digest
from bpeline.tokenizer_core.kernels.compiling.signatures import name_of, signature_of

_NAMES_ALONE = "bpeline_names_alone"  # declared by a module that says what is defined, not how


def compiled_entry(function: Any, *, nogil: bool) -> Any:
    """A kernel of one signature, its declared one, compiled or loaded at the first call.

    For arguments of types that it has no code for Numba calls ``_compile_for_args``, and then the
    code that this gives. Here it gives the one there is, where they are as declared.
    """
    compiled: Any = _compiled(function, _CompilerOfWholes, nogil=nogil)
    compiled._cache = cache = _SelfHealingCache(function)
    compile_or_load = compiled.compile
    accepted = []  # Numba knows types by numbers as long as somebody holds them

    def in_turn(types: Any) -> Any:
        with cache.turn:  # taken where nothing is kept yet
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


@functools.cache
def code_of(compiled: Any) -> Any:
    """The machine code of an entry kernel, without what finds out types and chooses by them."""
    declared = signature_of(compiled.py_func).dtypes
    compiled.compile(declared)
    return compiled.overloads[declared].entry_point


def are_kept(kernels: Iterable[Any]) -> bool:
    """Whether the machine code of all these entry kernels seems to be kept; does not load it."""
    try:
        with kept() as directory:
            return {one._cache.index_name for one in kernels} <= set(holding(directory).files)
    except OSError:
        return False


def compiled_inner(function: Any, *, always_inlined: bool = False) -> Any:
    """A kernel that becomes a part of the machine code of those that call it.

    It is not kept by itself and has no wrapper that takes Python's objects apart (measured: a
    fifth of all compiling), so Numba must not find it when Python calls.
    """

    def hold(made: Any) -> None:
        compiled.overloads[tuple(made.signature.args)] = made

    def refuse(*_: Any) -> None:
        raise TypeError(f"only kernels call {name_of(function)}; mark it @entry_kernel")

    compiled: Any = _compiled(
        function,
        _CompilerOfParts,
        nogil=True,
        no_cpython_wrapper=True,
        forceinline=always_inlined,
    )
    compiled.add_overload = hold
    compiled._compile_for_args = refuse
    return compiled


def _compiled(function: Any, compiler: type[Compiler], **options: bool) -> Any:
    options |= {"_nrt": False, "no_cfunc_wrapper": True}
    return numba.njit(error_model="numpy", pipeline_class=compiler, **options)(function)


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry, and of all kernels that it calls, directly or not."""

    def add_linking_library(self, library: CodeLibrary) -> None:
        if not isinstance(library, _Part) and _is_whole(library):
            raise TypeError(f"kernels call no entries; {library.name} is marked @entry_kernel")
        # What calls comes before what is called: LLVM leaves out what nothing calls yet.
        super().add_linking_library(library)
        if isinstance(library, _Part):
            self._linking_libraries += library._linking_libraries

    def _optimize_final_module(self) -> None:
        """Tell LLVM first that nobody else calls the kernels that were linked in.

        Whatever has one caller becomes a part of that, and no argument is handed over that is not
        used: of a state of twenty arrays each call copied 175 words.
        """
        for one in self._final_module.functions:
            if one.linkage == Linkage.linkonce_odr and not one.is_declaration:
                one.linkage = Linkage.internal
        super()._optimize_final_module()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """What is kept: machine code, and the names in it.

        Numba keeps LLVM's whole module beside machine code, for others to be linked with; with a
        kept entry nothing is. Parsing it took two fifths of loading.
        """
        self._ensure_finalized()
        return self.name, "object", (self._get_compiled_object(), _names_in(self._final_module))


def _is_whole(library: CodeLibrary) -> bool:
    """Whether it is an entry's, compiled or loaded."""
    if isinstance(library, _Whole):
        return True
    kept = library._shared_module
    return kept is not None and any(one.name == _NAMES_ALONE for one in kept.functions)


def _names_in(module: Any) -> bytes:
    """A module of nothing but the names that another defines for others, as bitcode."""
    own = {Linkage.internal, Linkage.private}
    functions = [
        one.name for one in module.functions if not one.is_declaration and one.linkage not in own
    ]
    values = [one.name for one in module.global_variables if not one.is_declaration]
    lines = [f"declare void @{_NAMES_ALONE}()"]
    lines += [f'define void @"{name}"() {{ unreachable }}' for name in functions]
    lines += [f'@"{name}" = global i8 0' for name in values]
    bitcode: bytes = parse_assembly("\n".join(lines)).as_bitcode()
    return bitcode


class _Part(_Whole):
    """The code of one inner kernel, which only becomes a part of that of entries.

    Numba would optimize it, with all that it calls, and make machine code of it: for each kernel,
    so what is called at a depth of six is optimized seven times, although the entry's code is
    optimized as a whole and alone is run.
    """

    def finalize(self) -> None:
        """Nothing: entries are linked from what Numba wrote."""
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """0, which means that there is no such machine code."""
        return 0

    @property
    def codegen(self) -> _Part:
        """What would be told which Python objects the machine code uses."""
        return self

    def set_env(self, _name: str, _environment: Any) -> None:
        """Nothing: there is no machine code, and kernels use no Python objects."""


class _CompilerOfWholes(Compiler):  # type: ignore[misc]
    library: ClassVar[type[_Whole]] = _Whole

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _CompilerOfParts(_CompilerOfWholes):
    library = _Part


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Names a kernel's machine code, stamped by the sources' digest; `_Files` knows where it is."""

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
        with kept() as self._directory:
            return super().load(key)

    def save(self, key: Any, data: Any) -> None:
        with kept() as self._directory:
            super().save(key, data)

    def flush(self) -> None:
        with kept() as self._directory:
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


class _SelfHealingCache(FunctionCache):  # type: ignore[misc]
    """A truncated or foreign cache file means: compile again, never fail.

    What one process compiles no other compiles at the same time: it waits, and loads it.

    Attributes:
        index_name: of the file that says what is kept.
        turn: taken by loading what is not kept; the caller ends it when it is compiled and saved.
    """

    _impl_class = _CacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._cache_file = _Files("", self._impl.filename_base, source_digest())
        self.index_name: str = self._cache_file._index_name
        self.turn = contextlib.ExitStack()

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The kept code, else None: it is compiled then.

        Numba first gathers all that it knows how to compile (0.25 s), which machine code does not
        need; its compiler does so again.
        """
        code = self._load_or_heal(signature, target_context)
        if code is None:
            with contextlib.suppress(OSError), kept() as directory:
                self.turn.enter_context(turn(directory, f"{self._impl.filename_base}.lock"))
                code = self._load_or_heal(signature, target_context)
        if code is None:
            _start_without_scipy()
        return code

    def _load_or_heal(self, signature: Any, target_context: Any) -> Any:
        try:
            return self._load_overload(signature, target_context)
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
