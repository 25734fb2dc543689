"""An alias asked of an MLflow server by one request: the right answer, or MLflow's client asks."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bpeline.registry.tracking.server_alias import version_of_alias
from bpeline.registry.tracking.tracked import TrackedVersion
from bpeline.tokenizer_core.errors import RegistryUnreachable


def answer(number: int) -> bytes:
    tags = [{"key": "digest", "value": "d" * 64}, {"key": "empty"}]
    version = {"name": "news", "version": str(number), "run_id": "r", "tags": tags}
    return json.dumps({"model_version": version}).encode()


class Server(HTTPServer):
    """Answers in the same way until told otherwise.

    Attributes:
        status, body: of its answers.
        moved_to: where else it says that the answer is; empty for nowhere.
        asked: paths of requests. authorized: the header with credentials of the last one.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.status, self.body, self.moved_to = 200, answer(1), ""
        self.asked: list[str] = []
        self.authorized: str | None = None
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorized = self.headers["Authorization"]
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        if self.server.moved_to:
            self.send_header("Location", self.server.moved_to)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def test_it_is_one_documented_request_and_a_moved_alias_is_seen(server: Server) -> None:
    for number in (1, 2):
        server.body = answer(number)
        assert version_of_alias(f"{server.url}/", "news", "a b") == TrackedVersion(
            "news", number, "d" * 64, "r", {"digest": "d" * 64, "empty": ""}
        )
    asked = "/api/2.0/mlflow/registered-models/alias?name=news&alias=a+b"
    assert server.asked == [asked, asked]
    assert server.authorized is None


def test_credentials_are_those_of_mlflow_s_client(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent(url: str) -> str | None:
        assert version_of_alias(url, "news", "champion")
        return server.authorized

    def basic(text: str) -> str:
        return f"Basic {base64.b64encode(text.encode()).decode()}"

    named = server.url.replace("://", "://me:s%40y@")
    assert sent(named) == basic("me:s@y")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    assert sent(server.url) == "Bearer t0ken"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "user")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pass")
    assert sent(server.url) == sent(named) == basic("user:pass")
    monkeypatch.setenv("MLFLOW_TRACKING_INSECURE_TLS", "true")  # which only the client knows
    assert version_of_alias(server.url, "news", "champion") is None


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_what_the_server_refuses_the_client_asks_again(server: Server, status: int) -> None:
    server.status = status
    assert version_of_alias(server.url, "news", "champion") is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_follow_no_redirect(server: Server, status: int) -> None:
    with running() as other:
        server.status, server.moved_to = status, f"{other.url}/"
        named = server.url.replace("://", "://me:hunter2@")
        assert version_of_alias(named, "news", "champion") is None
        assert len(server.asked) == 1
        assert other.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"7", b"null", b"<html>", b'{"model_version": 3}', b"[" * 100_000,
        b'{"model_version": {"name": "news", "version": "x"}}', b'{"a": "\xff"}',
        answer(1).replace(b"news", b"other"), b" " * (2 << 20) + answer(1),
    ],
)  # fmt: skip
def test_what_is_no_answer_of_mlflow_s_the_client_asks_again(server: Server, body: bytes) -> None:
    server.body = body
    assert version_of_alias(server.url, "news", "champion") is None


def test_a_server_that_is_away_is_said_to_be_away() -> None:
    with pytest.raises(RegistryUnreachable, match="does not answer") as refused:
        version_of_alias("http://me:hunter2@127.0.0.1:9", "news", "champion")
    assert "hunter2" not in str(refused.value)
