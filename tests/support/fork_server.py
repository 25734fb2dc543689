"""A prepared process that forks for each request: starting Python and MLflow takes seconds.

A request is JSON and three streams, with which the fork runs. Each byte that the client sends
afterwards is a signal for the fork; closing the connection kills it. The server is started fresh,
so no thread of a test runner is forked along.

Also a program: ``fork_server.py MODULE SOCKET`` calls the module's ``prepare()`` once and, in each
fork, ``serve(request)``, which returns the exit code.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

SUPPORT = Path(__file__).parent
STREAMS = (0, 1, 2)
_NO_ANSWER = 70  # exit code where the server is gone

Serve = Callable[[Any], int]


@contextmanager
def fork_server(module: str) -> Iterator[str]:
    """Start the server of a module and yield the path of its socket."""
    folder = tempfile.mkdtemp(prefix="bpeline-forks-")  # no finalizer that a fork would run
    try:
        place = f"{folder}/socket"
        path = os.pathsep.join([str(SUPPORT.parents[1]), str(SUPPORT)])
        with subprocess.Popen(
            [sys.executable, __file__, module, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n", f"it ended with {server.wait()}"
            try:
                yield place
            finally:
                server.terminate()
    finally:
        shutil.rmtree(folder)


def ask(place: str, request: Mapping[str, Any], streams: Sequence[int] = STREAMS) -> socket.socket:
    """Send a request to a server; return the connection for `exit_code`."""
    content = json.dumps(request, default=str).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(place)
    socket.send_fds(server, [b"%20d" % len(content)], streams)
    server.sendall(content)
    return server


def exit_code(server: socket.socket) -> int:
    """Wait for the end of the fork; the code is that of `subprocess`: a signal is negative."""
    return int(server.recv(20) or _NO_ANSWER)


def _listen(module: str, place: str) -> None:
    """Fork for each request, until standard input ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    prepared = import_module(module)
    prepared.prepare()
    gc.collect()
    gc.freeze()
    answers.write("ready\n")
    answers.close()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while sys.stdin not in wait([listening, sys.stdin]):
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _attend(asking, prepared.serve)
        asking.close()


def _attend(asking: socket.socket, serve: Serve) -> NoReturn:
    """In a fork: serve one request in another fork, send it signals, answer with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(asking, 20, len(STREAMS))
    content = b""
    while len(content) < int(length):
        content += asking.recv(int(length) - len(content))
    ending, ended = os.pipe()
    serving = os.fork()
    if serving == 0:
        asking.close()
        os.close(ending)
        for number, stream in zip(STREAMS, streams, strict=True):
            os.dup2(stream, number)
            os.close(stream)
        _end(serve, json.loads(content))
    for opened in (ended, *streams):
        os.close(opened)
    while ending not in wait([asking, ending]):
        number = asking.recv(1)
        os.kill(serving, number[0] if number else signal.SIGKILL)
        if not number:
            break
    _, status = os.waitpid(serving, 0)
    with suppress(OSError):
        asking.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _end(serve: Serve, request: Any) -> NoReturn:
    code = 1
    try:
        code = serve(request)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _listen(*sys.argv[1:])
