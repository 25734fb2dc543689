"""``bpeline server``: one command, and schedules run, and people can look."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import flows
from flows.services import Service, running, wait_for_any
from tokenizer_core.errors import InvalidOption, RegistryUnreachable

ROOT = Path(flows.__file__).parents[1]
PROGRAM = "from flows.cli.main import main; main()"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def asked(url: str, **body: Any) -> Any:
    content = json.dumps(body).encode() if body or url.endswith("filter") else None
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


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
    from flows import services

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


@pytest.mark.server
@pytest.mark.slow
def test_one_command_serves_schedules_and_both_user_interfaces(
    corpus: Path, tmp_path: Path
) -> None:
    prefect, mlflow = free_ports(2)
    home = tmp_path / ".bpeline"
    command = [sys.executable, "-u", "-c", PROGRAM, "server", "--deploy", "--workspace", str(home),
               "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)]  # fmt: skip
    environment = {**ENVIRONMENT, "PREFECT_HOME": str(tmp_path / "prefect")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as served:
        assert served.stdout is not None
        said = []
        for line in served.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        api = f"http://127.0.0.1:{prefect}/api"
        try:
            assert f"http://127.0.0.1:{mlflow}/#/models" in "".join(said)
            deployments = {one["name"]: one for one in asked(f"{api}/deployments/filter")}
            assert "nightly" in deployments
            assert f"deployed: {', '.join(sorted(deployments))}" in "".join(said)
            parameters = {"paths": [str(corpus)], "name": "served", "vocab_size": 300}
            run = asked(
                f"{api}/deployments/{deployments['nightly']['id']}/create_flow_run",
                parameters=parameters,
            )
            assert state_in_the_end(api, run["id"]) == "COMPLETED"
            found = asked(
                f"http://127.0.0.1:{mlflow}/api/2.0/mlflow/registered-models/get?name=served"
            )
            assert found["registered_model"]["latest_versions"][0]["version"] == "1"
        finally:
            served.send_signal(signal.SIGTERM)
            rest = served.stdout.read()
        assert served.wait(60) == 0
        assert rest.strip() == "stopped"
    assert not listens(prefect)
    assert not listens(mlflow)
    shutil.rmtree(tmp_path / "prefect", ignore_errors=True)


def state_in_the_end(api: str, run: str) -> str:
    for _ in range(240):
        state: str = asked(f"{api}/flow_runs/{run}")["state_type"]
        if state in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}:
            return state
        time.sleep(0.5)
    return f"still {state}"
