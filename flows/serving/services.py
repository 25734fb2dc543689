"""Service programs that run as long as a command: start, wait, stop in order."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from subprocess import DEVNULL
from typing import NamedTuple

from bpeline.flows.running import stop_moving, terminable
from bpeline.registry.serving import end_family, parent_variable
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

HOST = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 10.0  # from Ctrl-C until all services have ended
ANSWER_SECONDS = 3.0
_LOOK_SECONDS = 0.25

Say = Callable[[str], object]
# Our ends of the pipes that tell services of our exit. Services of inner blocks inherit them, so
# that services of outer blocks end last.
_ours: list[int] = []
Processes = Mapping[str, subprocess.Popen[bytes]]


class Service(NamedTuple):
    """A program to run.

    Attributes:
        path: prefix of ``/health``, which answers when the service is ready.
        option: command line option for another port.
    """

    name: str
    command: Sequence[str]
    port: int | None = None
    path: str = ""
    option: str = "--port"


@contextmanager
def running(
    services: Sequence[Service], environment: Mapping[str, str], directory: Path, say: Say
) -> Iterator[Processes]:
    """Start services together and wait until all answer; stop them after the block.

    SIGTERM ends the block like Ctrl-C. Services have their own sessions, so Ctrl-C reaches only
    this process, which stops them in reverse order. If this process is killed, they end by
    themselves, those of inner blocks first.

    Raises:
        KeyboardInterrupt: when interrupted or terminated.
    """
    for service in services:
        if service.port is not None:
            _refuse_taken_port(service, service.port)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    limit = terminable(signal.SIGTERM, signal.SIGINT, seconds=0.9 * STOP_SECONDS)
    with limit, ExitStack() as stack:
        end, ours = os.pipe()
        stack.callback(os.close, end)
        environment = {**environment, **parent_variable(end)}
        inherited = [end, *_ours]
        stack.callback(_close_ours, ours)
        _ours.append(ours)
        for service in services:
            say(f"starting {service.name} {'(5 to 15 seconds) ' if service.port else ''}…")
            process = subprocess.Popen(
                service.command, env=environment, cwd=directory, start_new_session=True,
                stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, pass_fds=inherited,
            )  # fmt: skip
            stack.callback(_stop, process)
            processes[service.name] = process
        for service in services:
            if service.port is not None:
                _wait_until_ready(service, processes)
        yield processes


def wait_for_any(processes: Processes) -> None:
    """Wait until one of the services ends, which raises RegistryUnreachable."""
    stop_moving()
    while True:
        _require_all_running(processes)
        time.sleep(_LOOK_SECONDS)


def _refuse_taken_port(service: Service, port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise InvalidOption(
            f"port {port} is in use: {error.strerror}",
            f"expected a free port for {service.name}",
            f"type the same command with `{service.option} {port + 1}`",
        ) from error


def answers(url: str, seconds: float) -> bool:
    """Return whether ``/health`` below an address answers without a server error."""
    address = f"{url.rstrip('/')}/health"
    local = urllib.parse.urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
    proxies = [urllib.request.ProxyHandler({})] if local else []
    try:
        with urllib.request.build_opener(*proxies).open(address, timeout=seconds):
            return True
    except urllib.error.HTTPError as refusal:
        return refusal.code < HTTPStatus.INTERNAL_SERVER_ERROR
    except (OSError, ValueError, http.client.HTTPException):
        return False


def _wait_until_ready(service: Service, processes: Processes) -> None:
    """Wait until a service answers; fail if another one ends meanwhile."""
    url = f"http://{HOST}:{service.port}{service.path}"
    deadline = time.monotonic() + START_SECONDS
    while not answers(url, ANSWER_SECONDS):
        _require_all_running(processes)
        if time.monotonic() > deadline:
            raise RegistryUnreachable(
                f"{service.name} did not answer within {START_SECONDS:.0f} seconds",
                f"expected an answer at {url}/health, usually in 5 to 15 seconds",
                "try again, or type `bpeline doctor`",
            )
        time.sleep(_LOOK_SECONDS)


def _require_all_running(processes: Processes) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise RegistryUnreachable(
                f"{name} ended unexpectedly (exit code {process.returncode})",
                "expected it to run until this command is stopped",
                "type `bpeline doctor` to see what is wrong",
            )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a service and its children to end, then kill them."""
    threading.Thread(target=process.wait, daemon=True).start()  # reaps it, so that its end is seen
    end_family(process.pid, STOP_SECONDS / 2)
    process.wait()


def _close_ours(descriptor: int) -> None:
    _ours.remove(descriptor)
    os.close(descriptor)
