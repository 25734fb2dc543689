"""Helper processes: find a Python, and start one that ends with this process."""

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

# Programs that embed Python may report their own executable; starting it again could open a
# window or a server.
_NAMES = re.compile(r"[.v]?(python|pypy|graalpy)[-.\w]*", re.IGNORECASE)
_BEGINNING = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from bpeline.tokenizer_core.another_python import end_with
end_with(sys.stdin)
"""


def python_to_run() -> str | None:
    """Return the path of a Python like this one, or None if it is unknown.

    Frozen programs and programs that embed Python use `multiprocessing.set_executable`.
    """
    executable = sys.executable or ""
    spawn_path = ""
    if spawn := sys.modules.get("multiprocessing.spawn"):  # only if already imported
        spawn_path = os.fsdecode(spawn.get_executable() or "")
    candidates = (
        "" if getattr(sys, "frozen", False) else executable,
        "" if spawn_path == executable else spawn_path,
    )
    return next(filter(_is_python, candidates), None)


def _is_python(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    names = os.path.basename(path), os.path.basename(os.path.realpath(path))
    return any(_NAMES.fullmatch(name) for name in names)


def required_python(purpose: str, instead: str) -> str:
    """Return the path of a Python like this one; `WorkerLost` if it is unknown.

    Args:
        purpose: what the process does, for the message.
        instead: an alternative without a process, in the imperative.
    """
    python = python_to_run()
    if python is None:
        frozen = ", in a frozen program" if getattr(sys, "frozen", False) else ""
        raise WorkerLost(
            f"cannot start a process: sys.executable is {sys.executable!r}{frozen}, "
            "not a Python that can be run",
            f"expected a Python of this version with the same packages: {purpose}",
            f"{instead}, or set the executable at the start of the program: "
            "`multiprocessing.set_executable('/usr/bin/python3')`",
        )
    return python


@contextmanager
def spawning_by(python: str) -> Iterator[None]:
    """Make multiprocessing use this Python if it has no usable one.

    It copies ``sys.executable`` at import, before some programs that embed Python set it.
    """
    from multiprocessing import spawn

    previous = spawn.get_executable()
    if _is_python(os.fsdecode(previous or "")):
        yield
        return
    spawn.set_executable(python)
    try:
        yield
    finally:
        spawn.set_executable(previous)


def another_python(
    program: str, *arguments: str, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes] | None:
    """Start a process that runs ``program``, ends with this one and prints nothing.

    Returns None if there is no Python or no memory. ``sys`` is imported; ``arguments`` are
    ``sys.argv[1:]``.
    """
    python = python_to_run()
    if python is None:
        return None
    root = str(Path(bpeline.__file__).parents[1])
    try:
        return subprocess.Popen(
            # -P: the current directory may hold a typing.py of another program.
            [python, "-P", "-c", _BEGINNING + program, root, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C in the terminal reaches only this process
        )
    except OSError:
        return None


def end_with(pipe: IO[Any]) -> None:
    """End this process when the process at the other end of a pipe ends."""

    def wait() -> None:
        pipe.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
