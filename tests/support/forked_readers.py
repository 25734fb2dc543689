"""The program that asks libraries about an export, in forks of a process that has imported it.

What it is asked and what it answers is what it always is; only starting it takes a tenth. For
tests that export by the way: that a library which hangs, or ends its process, costs no more than
an answer is tested in `tests/registry`. Also a program: the process that forks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
_PLAIN = 3  # words of a command that names no folder of packages
_STREAMS = (0, 1, 2)
_ENDING = 3  # where a fork writes its exit code, after its streams
_LARGEST = 1 << 18  # bytes of an environment


@contextmanager
def forked_readers() -> Iterator[None]:
    """Let this process, and forks of it, ask so until the block ends."""
    from bpeline.registry.exports import asking

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", __file__, str(theirs.fileno())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        ours,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=environment
        ) as forking,
    ):
        theirs.close()

        def run(
            command: Sequence[str], **asked: Any
        ) -> subprocess.CompletedProcess[str] | subprocess.CompletedProcess[bytes]:
            if len(command) > _PLAIN:
                return subprocess.run(command, **asked)
            return _forked(ours, command, **asked)

        asking.subprocess = SimpleNamespace(  # type: ignore[assignment]
            run=run, TimeoutExpired=subprocess.TimeoutExpired
        )
        try:
            yield
        finally:
            asking.subprocess = subprocess
            forking.terminate()


def _forked(
    forking: socket.socket,
    command: Sequence[str],
    *,
    input: str,
    env: Mapping[str, str],
    timeout: float,
    **reading: Any,
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` of the program would give."""
    ended, ending = os.pipe()
    with (
        os.fdopen(ended, "rb") as ended_file,
        tempfile.TemporaryFile("w+", encoding="utf-8") as asked,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as answer,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
    ):
        asked.write(input)
        asked.seek(0)
        streams = [asked.fileno(), answer.fileno(), said.fileno(), ending]
        socket.send_fds(forking, [json.dumps(dict(env)).encode()], streams)
        os.close(ending)
        if not select.select([ended_file], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(command, timeout)
        code = int(ended_file.read() or -signal.SIGKILL)  # nothing: it was ended
        answer.seek(0)
        said.seek(0)
        return subprocess.CompletedProcess(command, code, answer.read(), said.read())


def _serve(asking: socket.socket) -> None:
    """Fork for each question, until nobody is left who asks."""
    import tiktoken  # noqa: F401
    import tokenizers  # noqa: F401

    from bpeline.registry.exports import reader_program  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    while True:
        content, given, _, _ = socket.recv_fds(asking, _LARGEST, len(_STREAMS) + 1)
        if not content:
            return
        if os.fork() == 0:
            asking.close()
            _answer(json.loads(content), given)
        for number in given:
            os.close(number)


def _answer(environment: Mapping[str, str], given: Sequence[int]) -> NoReturn:
    """In a fork: be the program."""
    from bpeline.registry.exports import reader_program

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for stream, number in zip(_STREAMS, given, strict=False):
        os.dup2(number, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(reader_program.__file__)]
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    code = 1
    try:
        reader_program.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    with suppress(OSError):
        os.write(given[_ENDING], str(code).encode())
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
