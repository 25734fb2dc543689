"""A real MLflow server, and a proxy before it that loses, spoils and delays what passes through."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from loopback import free_ports

from bpeline.registry.tracking import mlflow_server

Fault = Literal[
    "refused",  # the connection ends before anything is forwarded
    "reply lost",  # carried out, never answered
    "503 before",  # not carried out, and said so
    "503 after",  # carried out, and denied
    "slow",  # carried out, answered a little at a time
    "half a body",  # carried out, the answer ends in its middle
    "no JSON",  # carried out, answered with something else
    "an empty answer",  # not carried out, answered with {} as if all were well
    "server killed",  # the server dies while it carries it out, and is started again
    "server stopped",  # it stands still for a while, then does all that it was asked meanwhile
]


class Proxy(ThreadingHTTPServer):
    """Forwards to an MLflow server, with faults at chosen requests.

    Attributes:
        requests: (method, path) of those that came since `reset`.
        faults: number of a request since `reset` → its fault; told by `path` if given, else all.
        path: faults and numbers concern only requests whose path ends so; "" for all.
        down: whether it answers 503 to everything without forwarding.
        server: where it forwards to.
        after: seconds that a server works at the request at which it is killed or stopped.
        still: seconds for which it is stopped.
        ready: not set while it is being started again, or stands still.
    """

    daemon_threads = True

    def __init__(self, server: MlflowServer) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.server = server
        self.after = 0.0
        self.still = 0.0
        self.down = False
        self.lock = threading.Lock()
        self.ready = threading.Event()
        self.ready.set()
        self.reset()

    def reset(self, faults: dict[int, Fault] | None = None, path: str = "") -> None:
        """Count requests from 0 again, with these faults among them."""
        self.requests: list[tuple[str, str]] = []
        self.faults = faults or {}
        self.path = path

    def fault_of(self, method: str, path: str) -> Fault | None:
        """The fault of the request that has just come."""
        if not path.endswith(self.path):
            return None
        with self.lock:
            self.requests.append((method, path))
            return self.faults.get(len(self.requests) - 1)

    def restart(self) -> None:
        """Kill the server, and start it again."""
        self.ready.clear()
        time.sleep(self.after)
        self.server.restart()
        self.ready.set()

    def stop_for_a_while(self) -> None:
        """Let the server stand still, and go on."""
        self.ready.clear()
        time.sleep(self.after)
        self.server.send(signal.SIGSTOP)
        time.sleep(self.still)
        self.server.send(signal.SIGCONT)
        self.ready.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that did not wait for an answer."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Forwarder(BaseHTTPRequestHandler):
    server: Proxy

    def forward(self) -> None:
        body = self._whole_body()
        fault = self.server.fault_of(self.command, self.path)
        if self.server.down or fault == "503 before":
            self.send_error(503)
            return
        if fault == "refused":
            self.close_connection = True
            return
        if fault == "server killed":
            threading.Thread(target=self._forwarded, args=(body,), daemon=True).start()
            self.server.restart()
            self.close_connection = True
            return
        if fault == "server stopped":
            threading.Thread(target=self.server.stop_for_a_while).start()
        if fault == "an empty answer":
            self._answer(200, "application/json", b"{}")
            return
        status, kind, content = self._forwarded(body)
        if fault == "reply lost":
            self.close_connection = True
            return
        if fault == "503 after":
            self.send_error(503)
            return
        if fault == "no JSON":
            content = b"<html>a page of some other server</html>"
        self._answer(status, kind, content, fault)

    def _answer(self, status: int, kind: str, content: bytes, fault: Fault | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "half a body":
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif fault == "slow":
            for byte in range(0, len(content), max(1, len(content) // 5)):
                self.wfile.write(content[byte : byte + max(1, len(content) // 5)])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(content)

    def _forwarded(self, body: bytes) -> tuple[int, str, bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.server.port, timeout=30)
        own = {"Host", "Connection", "Transfer-Encoding", "Content-Length"}
        headers = {key: value for key, value in self.headers.items() if key not in own}
        try:
            upstream.request(self.command, self.path, body, headers)
            answer = upstream.getresponse()
            return (
                answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
            )  # fmt: skip
        except (OSError, http.client.HTTPException):  # killed before or in its answer
            return 502, "text/plain", b""
        finally:
            upstream.close()

    def _whole_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@dataclass(slots=True)
class MlflowServer:
    """A server of a folder; started again after a kill, it serves what it had committed.

    Attributes:
        backend: the URL of its database; a SQLite file in the folder when it is empty.
    """

    folder: Path
    backend: str = field(default="", repr=False)
    port: int = 0
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.port = self.port or free_ports(1)[0]
        # MLflow's application in one process; its own command imports everything in two.
        command = [sys.executable, "-m", mlflow_server.__name__, "127.0.0.1", str(self.port)]
        surroundings = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_BACKEND_STORE_URI": self.backend or f"sqlite:///{self.folder}/mlflow.sqlite",
            "MLFLOW_ARTIFACTS_DESTINATION": str(self.folder / "artifacts"),
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=surroundings, stdout=log, stderr=log, start_new_session=True
            )
        for _ in range(1_200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.25)
        raise AssertionError("the server does not answer")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and its workers."""
        if self.process is not None:
            os.killpg(self.process.pid, number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it and its workers."""
        if self.process is not None:
            self.send(number)
            self.process.wait(timeout=120)

    def restart(self) -> None:
        """Kill it in the middle of whatever it does, and start it again."""
        self.stop(signal.SIGKILL)
        self.restarts += 1
        self.start()


@contextmanager
def running_server(folder: Path, backend: str = "") -> Iterator[MlflowServer]:
    """A server for as long as the block lasts."""
    server = MlflowServer(folder, backend)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running_proxy(server: MlflowServer) -> Iterator[Proxy]:
    """A proxy before a server for as long as the block lasts."""
    proxy = Proxy(server)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
