"""Programs that serve for as long as a command runs: started, waited for, stopped in order.

Knows how to look after them, not what they serve.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bpeline.flows.running import terminable
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

HOST = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.25

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Service:
    """A program to run.

    Attributes:
        name: for people.
        command: the program and its arguments.
        environment: all of it.
        directory: where it runs.
        port: on which it listens here; None for one that does not.
        health: what answers there when it is ready, such as ``/health``.
        takes: how long starting takes as a rule, for people.
        option: how people choose another port.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    port: int | None = None
    health: str = "/health"
    takes: str = "a few seconds"
    option: str = "--port"


@contextmanager
def running(services: Sequence[Service], say: Say) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Start services, each when the one before it answers; stop them at the end.

    SIGTERM ends the block as Ctrl-C does. Services have sessions of their own: Ctrl-C reaches this
    process alone, and they are stopped in order, the last first.

    Args:
        services: what to run.
        say: prints a line.

    Yields:
        name → process.

    Raises:
        InvalidOption: a port is taken.
        RegistryUnreachable: one of them ends by itself or does not start to answer.
        KeyboardInterrupt: when interrupted or terminated.
    """
    for service in services:
        _refuse_taken_port(service)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with terminable(signal.SIGTERM, signal.SIGINT), ExitStack() as stack:
        for service in services:
            say(f"starting {service.name} ({service.takes}) …")
            process = subprocess.Popen(
                service.command,
                env=dict(service.environment),
                cwd=service.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(_stop, process)
            processes[service.name] = process
            _wait_until_ready(service, process)
        yield processes


def wait_for_any(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until one of them ends, which none should.

    Raises:
        RegistryUnreachable: always, in the end.
    """
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise _ended(name, process.returncode)
        time.sleep(_LOOK_SECONDS)


def _refuse_taken_port(service: Service) -> None:
    if service.port is None:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, service.port))
        except OSError as error:
            raise InvalidOption(
                f"port {service.port} is taken: {error.strerror}",
                f"a port nobody listens on, for {service.name}",
                f"type the same command with `{service.option} {service.port + 1}`",
            ) from error


def _wait_until_ready(service: Service, process: subprocess.Popen[bytes]) -> None:
    if service.port is None:
        return
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _ended(service.name, process.returncode)
        try:
            with opener.open(f"http://{HOST}:{service.port}{service.health}", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(_LOOK_SECONDS)
    raise RegistryUnreachable(
        f"{service.name} did not answer within {START_SECONDS:.0f} seconds",
        f"it answers at http://{HOST}:{service.port}{service.health}, as a rule in {service.takes}",
        "try again, or type `bpeline doctor`",
    )


def _ended(name: str, code: int) -> RegistryUnreachable:
    return RegistryUnreachable(
        f"{name} ended by itself (exit code {code})",
        "it runs until this command is stopped",
        "type `bpeline doctor` to see what is wrong",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole session to end, then insist: what it started belongs to it."""
    for demand in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, demand)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return
    process.wait()
