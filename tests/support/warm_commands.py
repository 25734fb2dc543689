"""The command ``bpeline`` in processes that import nothing: forks of one that has imported it all.

What a shell, a page or a test types runs as typed, in a process of its own with its streams,
directory and environment; only starting it takes a hundredth of what it takes people. For what is
not about how a process starts, what it reads while it imports, or signals of others: a command may
send itself one. Beside it ``python``, which knows ``-c PROGRAM``. Also a program: the process that
forks.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
_STREAMS = (0, 1, 2)
_for_ever = ExitStack()  # what is entered, and never left: nothing else keeps it from its end
_TYPED = (
    "train text.txt --name warm --vocab-size 300 --held-out 0.1",
    "encode warm@candidate text",
    "show warm/1",
    "compare warm/1 warm/1",
    "versions",
)
# Asks the process at a socket: streams, then what is typed; then it ends as the command did.
# Its first line names no path, which may hold a space: a shell begins Python, which sees a string.
_CLIENT = """#!/bin/sh
''''exec {python} -IS "$0" "$@" # '''
import json, os, signal, socket, sys
asked = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
asked["python"] = {is_python}
content = json.dumps(asked).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({place!r})
    socket.send_fds(server, [b"%20d" % len(content)], [0, 1, 2])
    server.sendall(content)
    code = int(server.recv(20) or 70)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def warm_commands() -> Iterator[Path]:
    """A folder with ``bpeline``, to be put first on PATH or run by its path, and ``own/python``."""
    with tempfile.TemporaryDirectory(prefix="bpeline-warm-") as folder:
        place = Path(folder) / "socket"
        for name in ("bpeline", "own/python"):
            program = Path(folder) / name
            program.parent.mkdir(exist_ok=True)
            asking = {"is_python": program.name == "python", "place": str(place)}
            program.write_text(_CLIENT.format(python=shlex.quote(sys.executable), **asking))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, __file__, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n", f"it ended with {server.wait()}"
            try:
                yield Path(folder)
            finally:
                server.terminate()


def _serve(place: str) -> None:
    """Fork for whoever asks, until standard input ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    listening.listen()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _warm_up()
    answers.write("ready\n")
    answers.close()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        ready = select.select([listening, sys.stdin], [], [])[0]
        if sys.stdin in ready:
            return
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _attend(asking)
        asking.close()


def _warm_up() -> None:
    """Do once what commands do: import, load kernels, let SQLAlchemy compile."""
    import gc
    import shutil
    from importlib import import_module

    from forked_readers import forked_readers
    from shared_statements import compiled_once

    from bpeline import script
    from bpeline.flows.cli.main import COMMANDS, cli
    from bpeline.registry import environment

    gc.set_threshold(script.NEW_OBJECTS)
    for file in COMMANDS:
        import_module(f"bpeline.flows.cli.{file}")
    import_module("mlflow.tracking")  # or each fork would begin a process that imports it
    _for_ever.enter_context(compiled_once())
    _for_ever.enter_context(forked_readers())
    here = Path.cwd()
    with (
        tempfile.TemporaryDirectory(prefix="bpeline-warm-") as place,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        os.chdir(place)
        shutil.copyfile(os.__file__, "text.txt")
        for typed in _TYPED:
            with suppress(SystemExit):
                cli(typed.split(), prog_name="bpeline")
        os.chdir(here)
    environment._configured = environment._project = None
    gc.collect()
    gc.freeze()


def _attend(asking: socket.socket) -> NoReturn:
    """In a fork: run one command in another one, say how it ended; end it if nobody asks more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(asking, 20, len(_STREAMS))
    content = b""
    while len(content) < int(length):
        content += asking.recv(1 << 16)
    ending, ended = os.pipe()
    command = os.fork()
    if command == 0:
        asking.close()
        os.close(ending)
        _run(json.loads(content), streams)
    os.close(ended)
    for stream in streams:
        os.close(stream)
    if asking in select.select([asking, ending], [], [])[0]:  # it sends nothing: it was killed
        os.kill(command, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        asking.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """In a fork of the fork: be the command."""
    from bpeline import script
    from bpeline.registry import environment

    for number, stream in zip(_STREAMS, streams, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    # As Python opens them, and keeps them while others take their places.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc] # noqa: SIM115
        2, "w", errors="backslashreplace", buffering=1, closefd=False
    )
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    environment._set_by_us.clear()  # what MLflow reads there is said anew
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"] = main = ModuleType("__main__")
    if asked["python"]:
        _, program, *arguments = asked["arguments"]
        sys.argv = ["-c", *arguments]
    else:
        program, sys.argv = "main()", ["bpeline", *asked["arguments"]]
        main.main = script.main  # type: ignore[attr-defined]
    code: Any = 0
    try:
        exec(program, main.__dict__)
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n" if code else "")
        code = int(bool(code))
    # As Python ends; libraries say what they have not said yet.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
