"""Who runs a flow: decided from the environment and a few milliseconds of looking."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bpeline.flows.running import runner, settings


@contextmanager
def server(answers: dict[str, bytes], status: int = 200) -> Iterator[str]:
    """A tiny HTTP server; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in answers
            self.send_response(status if found else 404)
            self.end_headers()
            self.wfile.write(answers.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/api"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


PREFECT = {"/api/health": b"true", "/api/admin/version": b'"3.8.8"'}


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setattr(settings, "LOCAL_SERVER", f"http://127.0.0.1:{free_port()}/api")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_nothing_configured_and_nothing_there_means_this_process_at_once() -> None:
    begin = time.monotonic()
    assert runner.choose_runner() == runner.Runner(None)
    assert time.monotonic() - begin < 1


@pytest.mark.slow
def test_a_configured_server_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(PREFECT) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert runner.choose_runner() == runner.Runner(url)


def test_a_configured_server_that_is_down_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)
    chosen = runner.choose_runner()
    assert chosen.prefect_api is None
    assert url in chosen.remark
    assert "PREFECT_API_URL" in chosen.remark
    assert "\n" not in chosen.remark


@pytest.mark.slow
def test_a_configured_server_with_an_inner_error_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with server(PREFECT, status=503) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert runner.choose_runner().prefect_api is None


@pytest.mark.slow
def test_the_active_profile_counts_as_configured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "prefect"
    home.mkdir()
    with server(PREFECT) as url:
        (home / "profiles.toml").write_text(
            f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{url}"\n[profiles.other]\n'
        )
        assert runner.choose_runner() == runner.Runner(url)
        monkeypatch.setenv("PREFECT_PROFILE", "other")
        assert runner.choose_runner() == runner.Runner(None)


@pytest.mark.parametrize("content", ["not toml [", 'active = "gone"', "profiles = 3", ""])
def test_a_broken_profile_is_no_profile(content: str, tmp_path: Path) -> None:
    (tmp_path / "prefect").mkdir()
    (tmp_path / "prefect" / "profiles.toml").write_text(content)
    assert settings.configured_prefect() is None


@pytest.mark.slow
def test_a_server_at_the_usual_place_is_used_only_if_it_is_prefect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with server(PREFECT) as url:
        monkeypatch.setattr(settings, "LOCAL_SERVER", url)
        assert runner.choose_runner() == runner.Runner(url)
    with server({"/api/health": b"<html>OK</html>"}) as url:
        monkeypatch.setattr(settings, "LOCAL_SERVER", url)
        assert runner.choose_runner() == runner.Runner(None)
    with server({"/api/health": b"true"}) as url:
        monkeypatch.setattr(settings, "LOCAL_SERVER", url)
        assert runner.choose_runner() == runner.Runner(None)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense", "http://"])
def test_addresses_that_make_no_sense_do_not_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", url)
    chosen = runner.choose_runner()
    assert chosen.prefect_api is None
    assert url in chosen.remark


def test_a_server_that_speaks_something_else_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            for _ in range(2):
                connection, _ = other.accept()
                connection.sendall(b"-ERR unknown command\r\n")
                connection.close()

        speaking = threading.Thread(target=speak)
        speaking.start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{other.getsockname()[1]}/api")
        assert "does not answer" in runner.choose_runner().remark
        socket.create_connection(other.getsockname()).close()
        speaking.join()


def test_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in ("PREFECT_LOGGING_LEVEL", "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DO_NOT_TRACK", "mine")
    with monkeypatch.context():
        before = dict(os.environ)
        try:
            settings.prepare_prefect("http://127.0.0.1:1/api", quiet_terminal=True)
            assert os.environ["DO_NOT_TRACK"] == "mine"
            assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:1/api"
            assert os.environ["PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"] == "false"
        finally:
            os.environ.clear()
            os.environ.update(before)
