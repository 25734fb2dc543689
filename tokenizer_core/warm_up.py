"""Every entry kernel compiled before it is needed, for the one signature that it declares.

The machine code goes where `kernels.compiling.machine_code` keeps it, so later processes load it.
"""

from __future__ import annotations

import queue
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile
from typing import IO

import bpeline
from bpeline.tokenizer_core.another_python import python_to_run
from bpeline.tokenizer_core.errors import BpelineError

_PROCESSES = 2  # the compiler works in one thread at a time
_CORE = "bpeline.tokenizer_core"
# What takes longest, so that processes that share the work end at about the same time.
_LONGEST = (
    f"{_CORE}.algorithms.wordpiece.kernels.merge_score",
    f"{_CORE}.kernels.encoding.encode_text",
    f"{_CORE}.kernels.merging.merge_step",
    f"{_CORE}.kernels.scanning.cl100k",
)
# Compiles the kernels of each module that is named to it, and answers how many there are.
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from bpeline.tokenizer_core.warm_up import compile_module
for line in sys.stdin:
    print(compile_module(line.strip()), flush=True)
"""


def modules_of_kernels() -> list[str]:
    """The modules in which entry kernels may be, those that take longest first."""
    names = [
        module.name
        for room in (import_module(f"{_CORE}.kernels"), import_module(f"{_CORE}.algorithms"))
        for module in walk_packages(room.__path__, f"{room.__name__}.")
        if ".kernels." in module.name and not module.ispkg
    ]
    return sorted(names, key=lambda name: name not in _LONGEST)


def compile_module(name: str) -> int:
    """Compile, or load, the entry kernels of a module in this process; how many it has."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared, entry_kernels

    kernels = entry_kernels(import_module(name))
    compile_declared(*kernels)
    return len(kernels)


def compile_all() -> Iterator[tuple[str, float]]:
    """Compile every entry kernel that is not compiled yet, in processes beside this one.

    Where none can be started, in this one.

    Yields:
        Each module that has entry kernels, named from `tokenizer_core` on, and the seconds it
        took, as they end.

    Raises:
        BpelineError: a module cannot be compiled.
    """
    idle = queue.SimpleQueue[_Compiler | _Here]()
    started = [compiler for _ in range(_PROCESSES) if (compiler := _Compiler.started())]
    compilers: Sequence[_Compiler | _Here] = started or [_Here()]
    for one in compilers:
        idle.put(one)
    with ThreadPoolExecutor(len(compilers)) as threads:
        try:
            running = [threads.submit(_compile, name, idle) for name in modules_of_kernels()]
            for done in as_completed(running):
                name, kernels, seconds = done.result()
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
    """A process that compiles modules; what it says of errors."""

    process: subprocess.Popen[str]
    errors: IO[str]

    @classmethod
    def started(cls) -> _Compiler | None:
        """A new one; None where there is no Python to run, or no room for it."""
        python = python_to_run()
        if python is None:
            return None
        root = str(Path(bpeline.__file__).parents[1])
        pipe = subprocess.PIPE
        command = [python, "-P", "-c", _PROGRAM, root]  # a typing.py here is somebody's
        with ExitStack() as open_files, suppress(OSError):  # no room for a process, or for a file
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
        except (BrokenPipeError, ValueError):  # it ended and answers nothing
            self.process.wait()
            self.errors.seek(0)
            raise _not_compiled(module, self.errors.read()) from None

    def end(self) -> None:
        self.process.communicate()
        self.errors.close()


class _Here:
    """This process, where it can start no other."""

    def compile(self, module: str) -> int:
        try:
            return compile_module(module)
        except Exception as error:  # what the compiler raises is of many kinds
            raise _not_compiled(module, f"{type(error).__name__}: {error}") from error

    def end(self) -> None:
        """Nothing was started."""


def _not_compiled(module: str, said: str) -> BpelineError:
    return BpelineError(
        f"the kernels of {module} cannot be compiled: {said.strip()[-400:]}",
        "the versions of numba and llvmlite in constraints.txt",
        "bpeline doctor",
    )
