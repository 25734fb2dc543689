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
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[2]
_PLAIN = 3  # words of a command that names no folder of packages
_STREAMS = (0, 1, 2)
_ENDING = 3  # where a fork writes its number and then its exit code, after its streams
_NUMBER = 8  # bytes of a process's number
_LARGEST = 1 << 18  # bytes of an environment


@contextmanager
def forked_readers() -> Iterator[None]:
    """Let this process, and forks of it, ask so until the block ends."""
    with forking_readers() as readers, asking_by(readers):
        yield


@contextmanager
def asking_by(readers: Any) -> Iterator[None]:
    """Let this process, and forks of it, ask these until the block ends."""
    from bpeline.registry.exports import asking

    before = asking.subprocess
    asking.subprocess = readers
    try:
        yield
    finally:
        asking.subprocess = before


@contextmanager
def forking_readers() -> Iterator[Any]:
    """Begin the process that forks; what takes the place of `subprocess` until the block ends."""
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

        try:
            yield SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
        finally:
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
    end = time.monotonic() + timeout
    ended, ending = os.pipe()
    with (
        os.fdopen(ended, "rb", buffering=0) as ended_file,
        tempfile.TemporaryFile("w+", encoding="utf-8") as asked,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as answer,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
    ):
        asked.write(input)
        asked.seek(0)
        streams = [asked.fileno(), answer.fileno(), said.fileno(), ending]
        socket.send_fds(forking, [json.dumps(dict(env)).encode()], streams)
        os.close(ending)
        number = b""
        try:
            number = _said(ended_file, _NUMBER, end)
            code = int(_said(ended_file, _LARGEST, end) or -signal.SIGKILL)  # it was ended
        except BaseException as error:
            if number:  # one that is not there yet ends when nobody hears its number
                with suppress(ProcessLookupError):
                    os.kill(int.from_bytes(number, "little"), signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(command, timeout) from None
            raise
        answer.seek(0)
        said.seek(0)
        return subprocess.CompletedProcess(command, code, answer.read(), said.read())


def _said(file: IO[bytes], most: int, end: float) -> bytes:
    """The next that is written, up to ``most`` bytes; nothing where nobody is left who writes."""
    if not select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
        raise TimeoutError
    return file.read(most)


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
        os.write(given[_ENDING], os.getpid().to_bytes(_NUMBER, "little"))
        reader_program.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    with suppress(OSError):
        os.write(given[_ENDING], str(code).encode())
    os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
