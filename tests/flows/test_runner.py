"""Who runs a flow: decided from the environment and a few milliseconds of looking."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import PIPE

import pytest
from nonsense import MODES, nonsense

from bpeline.flows.running import runner, settings
from bpeline.registry.workspace import Workspace, serving_prefect
from bpeline.tokenizer_core.errors import WorkspaceLocked


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
    monkeypatch.setenv("BPELINE_HOME", str(tmp_path / "workspace"))
    # Of a server that answers: on a busy machine it may take long.
    monkeypatch.setattr(runner, "TALK_SECONDS", 180.0)
    monkeypatch.setattr(runner, "CONNECT_SECONDS", 60.0)


def test_nothing_configured_and_nothing_there_means_this_process_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("nobody was named, and somebody is asked")

    for question in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, question, asked)
    monkeypatch.setattr(time, "sleep", asked)
    assert runner.choose_runner() == runner.Runner(None)


@pytest.mark.night
def test_a_configured_server_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(PREFECT) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert runner.choose_runner() == runner.Runner(url)


def test_a_configured_server_that_is_down_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/api"
        monkeypatch.setenv("PREFECT_API_URL", url)
        chosen = runner.choose_runner()
    assert chosen.prefect_api is None
    assert url in chosen.remark
    assert "PREFECT_API_URL" in chosen.remark
    assert "\n" not in chosen.remark


@pytest.mark.night
def test_a_configured_server_with_an_inner_error_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with server(PREFECT, status=503) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert runner.choose_runner().prefect_api is None


@pytest.mark.night
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


@pytest.mark.night
def test_the_server_of_this_workspace_is_used_while_it_runs(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    with server(PREFECT) as url:
        with serving_prefect(workspace) as serves:
            assert runner.prefect_address() is None  # it does not answer yet
            serves(url)
            assert runner.choose_runner() == runner.Runner(url)
            with pytest.raises(WorkspaceLocked, match="process"):
                serving_prefect(workspace).__enter__()
        assert runner.prefect_address() is None


KEEP = """
import sys
from bpeline.registry.workspace import Workspace, serving_prefect
with serving_prefect(Workspace.open(sys.argv[1])) as serves:
    serves(sys.argv[2])
    print("serves", flush=True)
    sys.stdin.read()
"""


@pytest.mark.night
def test_a_server_whose_command_was_killed_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "workspace"
    command = [sys.executable, "-c", KEEP, str(home)]
    with server(PREFECT) as url:
        with subprocess.Popen([*command, url], stdin=PIPE, stdout=PIPE) as serving:
            assert serving.stdout is not None
            assert serving.stdout.readline() == b"serves\n"
            assert runner.prefect_address() == settings.PrefectAddress(
                url, "`bpeline serve` of this workspace"
            )
            monkeypatch.setenv("BPELINE_HOME", str(tmp_path / "another"))
            assert runner.prefect_address() is None
            monkeypatch.setenv("BPELINE_HOME", str(home))
            serving.kill()
        assert runner.prefect_address() is None
        assert url.encode() in (home / "prefect-server").read_bytes()  # and yet it is not used


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense", "http://"])
def test_addresses_that_make_no_sense_do_not_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", url)
    chosen = runner.choose_runner()
    assert chosen.prefect_api is None
    assert url in chosen.remark
    assert "not the address" in chosen.remark


@pytest.mark.night
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"/api/health": b"<html>OK</html>"}, "Expecting value"),
        ({"/api/health": b"{}"}, "is no Prefect server"),
        ({"/api/health": b"true", "/api/admin/version": b'"2.20"'}, "its version is 2.20, not 3"),
    ],
)
def test_a_server_that_is_not_prefect_3_is_not_used(
    answers: dict[str, bytes], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server(answers) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        chosen = runner.choose_runner()
    assert chosen.prefect_api is None
    assert reason in chosen.remark


@pytest.mark.night
@pytest.mark.parametrize("mode", MODES)
def test_a_prefect_server_of_nonsense_is_not_used_and_costs_seconds(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "TALK_SECONDS", 2.0)
    with nonsense(mode) as asked:
        monkeypatch.setenv("PREFECT_API_URL", f"{asked.url}/api")
        begin = time.monotonic()
        chosen = runner.choose_runner()
    assert time.monotonic() - begin < 60  # all that drips would take hours
    assert chosen.prefect_api is None
    assert "does not answer: " in chosen.remark
    assert "\n" not in chosen.remark


def test_without_a_server_prefect_is_not_imported() -> None:
    program = "import sys\nfrom bpeline.flows.running import choose_runner\nchoose_runner()\n"
    told = subprocess.run(
        [sys.executable, "-c", f"{program}print('prefect' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout == "False\n"


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
