"""The program that asks libraries about an export, in forks of a process that has imported it.

What it is asked and what it answers is what it always is; only starting it takes a tenth. For
tests that export by the way: that a library which hangs, or ends its process, costs no more than
an answer is tested in `tests/registry`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fork_server import ask, exit_code, fork_server

from bpeline.registry.certify import asking, reader_program

_PLAIN = 3  # words of a command that names no folder of packages


@contextmanager
def forked_readers() -> Iterator[None]:
    """Let this process, and forks of it, ask so until the block ends."""
    with forking_readers() as readers, asking_by(readers):
        yield


@contextmanager
def asking_by(readers: Any) -> Iterator[None]:
    """Let this process, and forks of it, ask these until the block ends."""
    before = asking.subprocess
    asking.subprocess = readers
    try:
        yield
    finally:
        asking.subprocess = before


@contextmanager
def forking_readers() -> Iterator[Any]:
    """Begin the process that forks; what takes the place of `subprocess` until the block ends."""
    with fork_server("forked_readers") as place:

        def run(
            command: Sequence[str], **asked: Any
        ) -> subprocess.CompletedProcess[str] | subprocess.CompletedProcess[bytes]:
            if len(command) > _PLAIN:
                return subprocess.run(command, **asked)
            return _forked(place, command, **asked)

        yield SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)


def _forked(
    place: str,
    command: Sequence[str],
    *,
    input: str,
    env: Mapping[str, str],
    timeout: float,
    **reading: Any,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` of the program would give."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as asked,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as answer,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
    ):
        asked.write(input)
        asked.seek(0)
        streams = [asked.fileno(), answer.fileno(), said.fileno()]
        with ask(place, {"environment": dict(env)}, streams) as server:
            server.settimeout(timeout)
            try:
                code = exit_code(server)
            except TimeoutError:
                raise subprocess.TimeoutExpired(command, timeout) from None
        answer.seek(0)
        said.seek(0)
        return subprocess.CompletedProcess(command, code, answer.read(), said.read())


def prepare() -> None:
    """Import what the program imports when it is asked."""
    import tiktoken  # noqa: F401
    import tokenizers  # noqa: F401


def serve(request: Mapping[str, Any]) -> int:
    """In a fork: be the program."""
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(reader_program.__file__)]
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    reader_program.main()
    sys.stdout.flush()
    return 0
