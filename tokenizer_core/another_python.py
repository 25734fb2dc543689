"""Another Python process: where a Python is, and one that imports our modules and ends with us."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import bpeline
from bpeline.tokenizer_core.errors import WorkerLost

# A program that holds Python may give its own name instead, and starting it again is not what is
# meant: it may open a window, or serve.
_NAMES = re.compile(r"[.v]?(python|pypy|graalpy)[-.\w]*", re.IGNORECASE)
_BEGINNING = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from bpeline.tokenizer_core.another_python import end_with
end_with(sys.stdin)
"""


def python_to_run() -> str | None:
    """The path of a Python like this one; None where this process knows none.

    That is ``sys.executable``, or where it is none (as in programs that hold Python, and in frozen
    ones) what `multiprocessing.set_executable` was told.
    """
    itself = sys.executable or ""
    told = ""
    if spawn := sys.modules.get("multiprocessing.spawn"):  # nobody told it where it is not imported
        told = os.fsdecode(spawn.get_executable() or "")
    known = ("" if getattr(sys, "frozen", False) else itself, "" if told == itself else told)
    return next(filter(_is_python, known), None)


def _is_python(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    names = os.path.basename(path), os.path.basename(os.path.realpath(path))
    return any(_NAMES.fullmatch(name) for name in names)


def required_python(purpose: str, instead: str) -> str:
    """The path of a Python like this one, where nothing can be done without a process.

    Args:
        purpose: what runs in a process, as a clause.
        instead: what to do where there is none, as a demand.

    Raises:
        WorkerLost: this process knows no Python.
    """
    python = python_to_run()
    if python is None:
        frozen = ", in a frozen program" if getattr(sys, "frozen", False) else ""
        raise WorkerLost(
            f"no process could be started: sys.executable is {sys.executable!r}{frozen}, "
            "which is no Python that can be run",
            f"a Python of this version with the same packages: {purpose}",
            f"{instead}, or say at the program's start where there is one: "
            "`multiprocessing.set_executable('/usr/bin/python3')`",
        )
    return python


@contextmanager
def spawning_by(python: str) -> Iterator[None]:
    """Let multiprocessing begin its processes by a Python where what it keeps is none.

    It keeps what ``sys.executable`` was when it was imported: in a program that holds Python, and
    sets that later, the program itself.
    """
    from multiprocessing import spawn

    kept = spawn.get_executable()
    if _is_python(os.fsdecode(kept or "")):
        yield
        return
    spawn.set_executable(python)
    try:
        yield
    finally:
        spawn.set_executable(kept)


def another_python(
    program: str, *arguments: str, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes] | None:
    """Begin a process that runs a program; None where there is no Python to run, or no room for it.

    It ends with this process, whatever ends this one. What it prints is lost.

    Args:
        program: Python, in which ``sys`` is imported.
        arguments: its ``sys.argv[1:]``.
        pass_fds: the numbers of open files that it is to have.
    """
    python = python_to_run()
    if python is None:
        return None
    root = str(Path(bpeline.__file__).parents[1])
    try:
        return subprocess.Popen(
            # -P: a typing.py in the current directory is another program's.
            [python, "-P", "-c", _BEGINNING + program, root, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            start_new_session=True,  # the terminal's Ctrl-C is for this process
        )
    except OSError:
        return None


def end_with(pipe: IO[Any]) -> None:
    """End this process when whoever holds the other end of a pipe has ended."""

    def wait() -> None:
        pipe.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
