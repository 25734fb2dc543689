"""The MLflow UI of a workspace, on this machine only, in the foreground."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flows import settings
from registry.opening import open_registry
from registry.ui_links import is_server
from tokenizer_core.errors import InvalidOption, RegistryUnreachable

HOST = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 10.0
VIEW = "workflowType=machine_learning"


def serve_ui(port: int, say: Callable[[str], object]) -> None:
    """Start MLflow's server for the workspace and wait until it is interrupted.

    Args:
        port: to listen on.
        say: prints a line.

    Raises:
        InvalidOption: the port is taken.
        RegistryUnreachable: MLflow's server ended by itself or does not start to answer.
    """
    registry = open_registry()
    uri = registry.tracker.settings.uri
    if is_server(uri):
        say(f"MLflow is a server of its own: {uri.rstrip('/')}/#/models?{VIEW}")
        return
    _refuse_taken(port)
    artifacts = registry.workspace.mlflow_artifacts
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri,
               "--artifacts-destination", artifacts.as_uri(), "--host", HOST,
               "--port", str(port), "--workers", "1"]  # fmt: skip
    say("starting MLflow (10 to 20 seconds) …")
    server = subprocess.Popen(
        command,
        env=settings.mlflow_server_environment(),
        cwd=registry.workspace.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches us alone, and we stop it in order
    )
    try:
        with _terminable():
            _wait_until_it_answers(server, port)
            base = f"http://{HOST}:{port}"
            say(f"tokenizers:   {base}/#/models?{VIEW}")
            say(f"experiments:  {base}/#/experiments?{VIEW}")
            say("Ctrl-C stops it")
            raise _ended(server.wait())
    except KeyboardInterrupt:
        say("\nstopped")
    finally:
        _stop(server)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the server as Ctrl-C does: its own session would outlive us."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InvalidOption(
                f"port {port} is taken: {error.strerror}",
                "a port nobody listens on",
                f"type `bpeline ui --port {port + 1}`",
            ) from error


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise _ended(server.returncode)
        try:
            with opener.open(f"http://{HOST}:{port}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise RegistryUnreachable(
        f"MLflow's server did not answer within {START_SECONDS:.0f} seconds",
        "",
        "try again, or type `bpeline doctor`",
    )


def _ended(code: int) -> RegistryUnreachable:
    return RegistryUnreachable(
        f"MLflow's server ended by itself (exit code {code})",
        "",
        "type `bpeline doctor` to see what is wrong",
    )


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is not None:
        return
    os.killpg(server.pid, signal.SIGTERM)  # the session holds its worker process too
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
