"""Another Python beside this one, which imports our modules and ends with this one.

Knows how it is begun, and how it learns that this one has ended; not what it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import bpeline

_BEGINNING = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from bpeline.tokenizer_core.another_python import end_with
end_with(sys.stdin)
"""


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
    if not sys.executable:  # a program that holds Python does not always know where one is
        return None
    root = str(Path(bpeline.__file__).parents[1])
    try:
        return subprocess.Popen(
            # -P: a typing.py in the current directory is another program's.
            [sys.executable, "-P", "-c", _BEGINNING + program, root, *arguments],
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
