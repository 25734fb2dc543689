"""Publishing through a real MLflow server whose replies get lost on the way."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from registry import environment, load_tokenizer
from registry.alias_lookup import tracked_alias
from registry.opening import open_registry
from registry.publication import Publication
from registry.publish import publish_outbox, publish_version
from registry.resolution import StaleAlias
from tokenizer_core.errors import RegistryUnreachable

pytestmark = [pytest.mark.slow, pytest.mark.server]

CREATE = "/model-versions/create"


class Proxy(ThreadingHTTPServer):
    """Forwards to the MLflow server; may swallow replies to creations, or everything.

    Attributes:
        losing: how many replies to creations it will still swallow, after they were carried out.
        down: whether it answers 503 to everything without forwarding.
        created: how many creations reached the server.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Forwarder)
        self.target = port
        self.losing = 0
        self.down = False
        self.created = 0

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Forwarder(BaseHTTPRequestHandler):
    server: Proxy

    def forward(self) -> None:
        body = self.whole_body()
        if self.server.down:
            self.send_error(503)
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=30)
        headers = {
            key: value
            for key, value in self.headers.items()
            if key not in {"Host", "Connection", "Transfer-Encoding", "Content-Length"}
        }
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if self.path.endswith(CREATE):
            self.server.created += 1
            if self.server.losing:
                self.server.losing -= 1
                self.close_connection = True
                return  # carried out, and never answered
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def whole_body(self) -> bytes:
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


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running MLflow server."""
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.sqlite",
        "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip
    surroundings = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    surroundings["PATH"] = f"{Path(sys.executable).parent}:{surroundings['PATH']}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=surroundings, stdout=log, stderr=log, start_new_session=True
        )
        try:
            for _ in range(120):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log").read_text()
                    time.sleep(0.5)
            yield port
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


@pytest.fixture
def proxy(server: int, home: Path) -> Iterator[Proxy]:
    proxy = Proxy(server)
    thread = threading.Thread(target=proxy.serve_forever)
    thread.start()
    environment.configure(tracking_uri=proxy.uri)
    yield proxy
    proxy.shutdown()
    thread.join()
    proxy.server_close()


@pytest.mark.parametrize("losing", [0, 1, 10])
def test_however_many_replies_are_lost_one_version_remains(
    proxy: Proxy, made: Callable[..., Publication], losing: int
) -> None:
    registry = open_registry()
    publication = made(b"the", name=f"lost-{losing}")
    proxy.losing, proxy.created = losing, 0
    version = publish_version(registry.workspace, registry.catalogue, registry.tracker, publication)
    assert version.newly_registered
    assert version.reference == f"lost-{losing}/1"
    assert proxy.created >= 1
    found = registry.tracker.versions(publication.name)
    assert [(one.number, one.digest) for one in found] == [(1, publication.digest)]
    assert load_tokenizer(f"lost-{losing}@candidate").digest == publication.digest


def test_what_a_server_missed_is_published_when_it_is_back(
    proxy: Proxy, made: Callable[..., Publication], tmp_path: Path
) -> None:
    registry = open_registry()
    publication = made(b"the", name="missed")
    proxy.down = True
    begin = time.monotonic()
    with pytest.raises(RegistryUnreachable, match="finished and kept in"):
        publish_version(registry.workspace, registry.catalogue, registry.tracker, publication)
    assert time.monotonic() - begin < 60
    proxy.down = False
    (version,) = publish_outbox(registry.workspace, registry.catalogue, registry.tracker)
    assert version.reference == "missed/1"
    environment.configure(workspace=tmp_path / "another machine")
    assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
    there = open_registry()
    told = there.tracker.version_of_alias("missed", "candidate")
    asked = tracked_alias(proxy.uri, "missed", "candidate")
    assert asked is not None
    assert told is not None
    assert (asked.number, asked.digest) == (told.number, told.digest)
    assert asked.mlflow_run_id == told.mlflow_run_id
    assert tracked_alias(proxy.uri, "missed", "nobody") is None
    proxy.down = True
    with pytest.warns(StaleAlias, match="missed/1"):
        assert load_tokenizer("missed@candidate").digest == publication.digest
    assert load_tokenizer("missed/1").digest == publication.digest
