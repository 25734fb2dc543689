"""Ctrl-C and SIGTERM end every command within two seconds, in the step that takes longest."""

from __future__ import annotations

import os
import random
import select
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fcntl import ioctl
from functools import partial
from pathlib import Path
from subprocess import PIPE
from termios import FIONREAD

import psutil
import pytest
from click.testing import Result
from every_command import COMMANDS
from loopback import free_ports, waiting_for
from published import copied

from bpeline.flows.cli.main import FILE_OF
from bpeline.registry.opening import open_registry

Command = Callable[..., Result]
Process = subprocess.Popen[bytes]

# The job of a shell that runs in the background ignores Ctrl-C.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from bpeline.script import main
main()
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Two seconds are promised, ten for servers. A loaded machine may take longer; a command that does
# not hear the signal takes at least a minute.
PATIENCE = 20.0
START_SECONDS = 120.0
CPU_SECONDS = 3.0  # more than starting takes, and less than the work below

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
ADDRESS_OF = {
    "MLflow": "MLFLOW_TRACKING_URI",
    "Prefect": "PREFECT_API_URL",
    "the hub": "HF_ENDPOINT",
    "S3": "AWS_ENDPOINT_URL",
}
# What each command waits for: a server that accepts connections and never answers, standard input,
# a catalogue that another process holds, or its own work.
WAITS_FOR = {
    **{command: "standard input" if "-" in command.split() else "MLflow" for command in COMMANDS},
    "compress text.txt -o small": "",
    "compress /dev/stdin -o small": "standard input",
    "compress large.txt -o small": "work",
    "compress --expand text.txt": "",
    "compress --expand /dev/stdin -o large": "standard input",
    "decode v/1 104 105": "MLflow",
    "deploy": "Prefect",
    "doctor --dismiss 00000000": "the catalogue",
    "drift v@candidate large.txt": "work",
    "evaluate --sets": "the catalogue",
    "init text.txt --name v": "",
    "init s3://bucket/text.txt --name v": "S3",
    "promote v/1": "the catalogue",
    "export v/1 --output hf://me/there": "the hub",
    "resume": "the catalogue",
    "serve --help": "",
    "serve --mlflow-only --mlflow-port PORT": "the line Ctrl-C",
    "serve --prefect-port PORT --mlflow-port PORT": "the line Ctrl-C",
    f"sql '{ENDLESS}'": "work",
    "train steps.txt --algorithm char-bpe --merges 3000 --show-steps": "work",
    "sweep large.txt --name sizes --sizes 20000": "work",
    "train large.txt --name other --vocab-size 200000": "work",
    "--help": "",
    "nonsense": "",
}
EVERY_COMMAND = [command for command, awaited in WAITS_FOR.items() if awaited]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with a workspace that holds two versions, an export and texts."""
    folder = folder_after(begin="small")
    words = random.Random(1).randbytes(48 << 20).hex("\n", 5)
    (folder / "large.txt").write_text(words)
    (folder / "steps.txt").write_text(words[:90_000])
    return folder


@contextmanager
def waiting(command: str, folder: Path) -> Iterator[Process]:
    """A command in a workspace, once it waits for what `WAITS_FOR` says; killed in the end."""
    awaited = WAITS_FOR[command]
    for port in free_ports(command.count("PORT")):
        command = command.replace("PORT", str(port), 1)
    environment = {**os.environ, "BPELINE_HOME": str(folder / ".bpeline"),
                   "AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "secret"}  # fmt: skip
    catalogue = sqlite3.connect(folder / ".bpeline/catalogue.sqlite")
    with socket.create_server(("127.0.0.1", 0)) as server, closing(catalogue):
        if awaited in ADDRESS_OF:
            address = f"http://127.0.0.1:{server.getsockname()[1]}"
            environment[ADDRESS_OF[awaited]] = f"{address}/api" if awaited == "Prefect" else address
        elif awaited == "the catalogue":
            catalogue.execute("BEGIN EXCLUSIVE")
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *shlex.split(command)], cwd=folder, env=environment,
            bufsize=0, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            try:
                process.stdin.write(b"low lower\n")
                ready = partial(_is_waiting, awaited, process, server)
                waiting_for(awaited, ready, START_SECONDS)
                time.sleep(1)  # so that it is in native code
                yield process
            finally:
                process.kill()


def _is_waiting(awaited: str, process: Process, server: socket.socket) -> bool:
    seen = psutil.Process(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.poll() is None, process.communicate()
    if awaited in ADDRESS_OF:  # the system accepts a connection, and nobody answers
        return bool(select.select([server], [], [], 0)[0])
    if awaited == "standard input":
        return ioctl(process.stdin, FIONREAD, bytes(4)) == bytes(4)
    if awaited == "the catalogue":
        return any(file.path.endswith("catalogue.sqlite") for file in seen.open_files())
    if awaited == "the line Ctrl-C":
        return any(b"Ctrl-C" in line for line in process.stdout)
    return sum(seen.cpu_times()[:2]) > CPU_SECONDS


def require_an_end(command: str, number: signal.Signals, folder: Path, *, again: bool) -> None:
    """Send signals to a command that waits: it ends soon, and so do its children."""
    is_server = WAITS_FOR[command] == "the line Ctrl-C"
    with waiting(command, folder) as process:
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        if again:  # it changes nothing
            time.sleep(0.01)
            process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE)
    told = errors.decode()
    assert process.returncode == (0 if is_server else 128 + number), told
    if not is_server:
        name = "terminated" if number == signal.SIGTERM else "interrupted"
        assert f"{name};" in told
    assert "Traceback" not in told
    _, alive = psutil.wait_procs(family, PATIENCE)
    # A container may have no process that collects those of dead parents.
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


def test_every_command_waits_for_something_in_this_table() -> None:
    assert {*FILE_OF} - {command.split()[0] for command in EVERY_COMMAND} == set()


@pytest.mark.night
@pytest.mark.combinations
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_ends_soon(
    command: str, number: signal.Signals, trained: Path, tmp_path: Path, bpeline: Command
) -> None:
    copied(trained, tmp_path)
    require_an_end(command, number, tmp_path, again=number == signal.SIGINT)
    assert open_registry().workspace.lock_holder() is None
    listed = bpeline("versions")
    assert listed.exit_code == 0, listed.output
    assert "v/2" in listed.output


@pytest.mark.night
def test_ctrl_c_ends_a_command_in_native_code(trained: Path) -> None:
    """SQLite waits for a lock, and DuckDB adds numbers, without looking for signals."""
    require_an_end("promote v/1", signal.SIGINT, trained, again=True)
    require_an_end(f"sql '{ENDLESS}'", signal.SIGTERM, trained, again=False)


@pytest.mark.night
def test_a_server_ends_within_ten_seconds_though_a_service_does_not(trained: Path) -> None:
    with waiting("serve --mlflow-only --mlflow-port PORT", trained) as process:
        (service,) = psutil.Process(process.pid).children()
        service.suspend()
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert not service.is_running() or service.status() == psutil.STATUS_ZOMBIE
