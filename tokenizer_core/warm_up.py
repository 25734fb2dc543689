"""Compile entry kernels ahead of time: all, or those a training needs next.

Machine code is stored by `kernels.compiling.machine_code`, so later processes load it.

Compiling is mostly Python, which threads cannot run in parallel. During the first training on a
machine, another process compiles the kernels needed after counting, first to last. After
counting, the training process compiles from last to first. Whichever process comes first compiles a
kernel; the other loads it.
"""

from __future__ import annotations

import queue
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile
from typing import IO, Any

import bpeline
from bpeline.tokenizer_core.another_python import another_python, python_to_run
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.machine import available_processors

_PROCESSES = 2  # the compiler works in one thread at a time
_CORE = "bpeline.tokenizer_core"
# The slowest modules go first, so that parallel processes finish at about the same time.
_LONGEST = (
    f"{_CORE}.algorithms.kernels.wordpiece",
    f"{_CORE}.kernels.encoding.encode_text",
    f"{_CORE}.kernels.merging.merge_step",
    f"{_CORE}.kernels.scanning.cl100k",
)
_AHEAD = """
from bpeline.tokenizer_core.warm_up import compile_after_counting
compile_after_counting()
"""
# Compiles the kernels of each module read from standard input, and prints their number.
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from bpeline.tokenizer_core.warm_up import compile_module
for line in sys.stdin:
    print(compile_module(line.strip()), flush=True)
"""


def modules_of_kernels() -> list[str]:
    """Return the modules that may contain entry kernels, slowest first."""
    names = [
        module.name
        for room in (import_module(f"{_CORE}.kernels"), import_module(f"{_CORE}.algorithms"))
        for module in walk_packages(room.__path__, f"{room.__name__}.")
        if ".kernels." in module.name and not module.ispkg
    ]
    return sorted(names, key=lambda name: name not in _LONGEST)


def compile_module(name: str) -> int:
    """Compile or load the entry kernels of a module, and return their number."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared, entry_kernels

    kernels = entry_kernels(import_module(name))
    compile_declared(*kernels)
    return len(kernels)


def compile_all() -> Iterator[tuple[str, float]]:
    """Compile all missing entry kernels, in helper processes if possible.

    Yields each module with entry kernels (relative to `tokenizer_core`) and its seconds, as they
    finish. Raises `BpelineError` if one cannot be compiled.
    """
    idle = queue.SimpleQueue[_Compiler | _Here]()
    started = [compiler for _ in range(_PROCESSES) if (compiler := _Compiler.started())]
    compilers: Sequence[_Compiler | _Here] = started or [_Here()]
    for one in compilers:
        idle.put(one)
    with ThreadPoolExecutor(len(compilers)) as threads:
        try:
            running = [threads.submit(_compile, name, idle) for name in modules_of_kernels()]
            for future in as_completed(running):
                name, kernels, seconds = future.result()
                if kernels:
                    yield name.removeprefix(f"{_CORE}."), seconds
        finally:
            threads.shutdown(cancel_futures=True)
            for one in compilers:
                one.end()


def _compile(name: str, idle: queue.SimpleQueue[_Compiler | _Here]) -> tuple[str, int, float]:
    compiler = idle.get()
    began = time.monotonic()
    try:
        return name, compiler.compile(name), time.monotonic() - began
    finally:
        idle.put(compiler)


@dataclass(frozen=True, slots=True)
class _Compiler:
    """A process that compiles modules, and its error output."""

    process: subprocess.Popen[str]
    errors: IO[str]

    @classmethod
    def started(cls) -> _Compiler | None:
        python = python_to_run()
        if python is None:
            return None
        root = str(Path(bpeline.__file__).parents[1])
        pipe = subprocess.PIPE
        command = [python, "-P", "-c", _PROGRAM, root]  # -P: ignore modules in this directory
        with ExitStack() as open_files, suppress(OSError):  # no memory for a process or file
            errors = open_files.enter_context(TemporaryFile("w+"))
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)
            open_files.pop_all()  # closed by `end`
            return cls(process, errors)
        return None

    def compile(self, module: str) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{module}\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):  # the process has ended
            self.process.wait()
            self.errors.seek(0)
            raise _not_compiled(module, self.errors.read()) from None

    def end(self) -> None:
        self.process.communicate()
        self.errors.close()


class _Here:
    """Compiles in this process, where no other can be started."""

    def compile(self, module: str) -> int:
        try:
            return compile_module(module)
        except Exception as error:  # compilers raise many types
            raise _not_compiled(module, f"{type(error).__name__}: {error}") from error

    def end(self) -> None:
        """Do nothing."""


def _not_compiled(module: str, said: str) -> BpelineError:
    return BpelineError(
        f"the kernels of {module} cannot be compiled: {said.strip()[-400:]}",
        "expected the versions of numba and llvmlite in constraints.txt",
        "bpeline doctor",
    )


@contextmanager
def compiling_ahead() -> Iterator[Callable[[], None]]:
    """Compile kernels needed after counting in another process, if useful.

    Yields a function to call once after counting, which joins the work and returns when it is
    done. Kernels that are still missing are compiled at first use.
    """
    needed = available_processors() > 1 and _is_needed()
    process = another_python(_AHEAD) if needed else None
    if process is None:
        yield lambda: None
        return
    try:
        yield _compile_from_the_last
    finally:
        process.kill()
        process.communicate()


def compile_after_counting() -> None:
    """Compile or load the kernels that training needs after counting, in order of use."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared

    compile_declared(*kernels_after_counting())


def _compile_from_the_last() -> None:
    from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept, compile_declared

    for kernel in reversed(kernels_after_counting()):
        if not are_kept(kernel):
            compile_declared(kernel)


def _is_needed() -> bool:
    """Return whether kernels are missing and a cache can share them between processes."""
    from bpeline.tokenizer_core.kernels.compiling import compilation
    from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_directory

    if compilation.IS_PLAIN or cache_directory() is None:
        return False
    return not compilation.are_kept(*kernels_after_counting())


def kernels_after_counting() -> tuple[Any, ...]:
    """Return entry kernels of learning, evaluating and publishing, in order of use."""
    from bpeline.tokenizer_core.kernels.counting.word_rows import join_values, mark_rows
    from bpeline.tokenizer_core.kernels.encoding.decode_ids import join_tokens, measure_spans
    from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_spans
    from bpeline.tokenizer_core.kernels.encoding.encode_word import add_gains
    from bpeline.tokenizer_core.kernels.encoding.token_tables import (
        keep_merges,
        measure_tokens,
        spell_tokens,
    )
    from bpeline.tokenizer_core.kernels.encoding.token_trie import fill_trie
    from bpeline.tokenizer_core.kernels.encoding.word_cache import (
        fill_whole_words,
        find_joined_words,
        find_whole_words,
        move_kept,
        move_long,
    )
    from bpeline.tokenizer_core.kernels.memory.python_objects import append_to_lists
    from bpeline.tokenizer_core.kernels.merging.merge_layout import (
        collect_dense_pairs,
        count_dense_pairs,
        fill_initial_state,
    )
    from bpeline.tokenizer_core.kernels.merging.merge_queue import queue_new_pairs
    from bpeline.tokenizer_core.kernels.merging.merge_step import learn
    from bpeline.tokenizer_core.kernels.scanning.find_passages import hash_windows
    from bpeline.tokenizer_core.kernels.tables.pair_tables import fill_merges, fill_slots

    return (
        *(fill_initial_state, count_dense_pairs, fill_slots, collect_dense_pairs),
        *(queue_new_pairs, learn, measure_tokens, spell_tokens, find_joined_words),
        fill_whole_words,
        *(hash_windows, keep_merges, fill_trie),
        *(encode_spans, move_kept, move_long, measure_spans, join_tokens, fill_merges, add_gains),
        *(join_values, mark_rows),
        *(append_to_lists, find_whole_words),
    )
