"""``bpeline server``: one command, and schedules run, and people can look."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from loopback import free_ports, listens

from bpeline import flows
from bpeline.flows.serving.services import Service, running, wait_for_any
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

ROOT = Path(flows.__file__).parents[1]
PROGRAM = "from bpeline.flows.cli.main import main; main()"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def web_server(port: int, folder: Path, name: str = "a web server") -> Service:
    command = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    return Service(name, command, ENVIRONMENT, folder, port, health="/")


def test_services_start_in_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    first, second = free_ports(2)
    said: list[str] = []
    with running(
        [web_server(first, tmp_path), web_server(second, tmp_path, "another")], said.append
    ):
        assert listens(first)
        assert listens(second)
    assert not listens(first)
    assert not listens(second)
    assert [line.split(" (")[0] for line in said] == ["starting a web server", "starting another"]


def test_a_service_that_fails_takes_the_others_along(tmp_path: Path) -> None:
    first, second = free_ports(2)
    broken = Service("broken", (sys.executable, "-c", "raise SystemExit(3)"), ENVIRONMENT, tmp_path,
                     second)  # fmt: skip
    with (
        pytest.raises(RegistryUnreachable, match=r"broken ended by itself \(exit code 3\)"),
        running([web_server(first, tmp_path), broken], print),
    ):
        raise AssertionError("one of them does not run")
    assert not listens(first)


def test_a_service_that_ends_later_is_noticed(tmp_path: Path) -> None:
    brief = Service("brief", (sys.executable, "-c", "pass"), ENVIRONMENT, tmp_path)
    with pytest.raises(RegistryUnreachable, match="brief"), running([brief], print) as processes:
        wait_for_any(processes)


def test_nothing_starts_when_a_port_is_taken(tmp_path: Path) -> None:
    free, taken = free_ports(2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        services = [web_server(free, tmp_path), web_server(taken, tmp_path)]
        with pytest.raises(InvalidOption, match=f"port {taken} is taken"), running(services, print):
            raise AssertionError("one of the ports is taken")
    assert not listens(free)


def test_a_service_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.flows.serving import services

    monkeypatch.setattr(services, "STOP_SECONDS", 0.5)
    (port,) = free_ports(1)
    program = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"subprocess.run([sys.executable, '-m', 'http.server', '{port}', '--bind', '127.0.0.1'])"
    )
    stubborn = Service("stubborn", (sys.executable, "-c", program), ENVIRONMENT, tmp_path, port,
                       health="/")  # fmt: skip
    with running([stubborn], print):
        assert listens(port)
    for _ in range(50):
        if not listens(port):
            return
        time.sleep(0.1)
    raise AssertionError("its child still serves")


def test_deploy_without_a_server_says_how_to_start_one(
    tmp_path: Path, bpeline: Callable[..., Result]
) -> None:
    result = bpeline("deploy")
    assert result.exit_code == 1
    assert "bpeline server --deploy" in result.stderr
