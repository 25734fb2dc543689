"""``bpeline serve``: one command, and schedules run, and people can look."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import Result
from loopback import free_ports, listens, waiting_for

from bpeline.flows.running import settings
from bpeline.flows.serving import local_server
from bpeline.flows.serving import services as looked_after
from bpeline.flows.serving.deploying import Deployed, Order
from bpeline.flows.serving.services import Processes, Service, wait_for_any
from bpeline.registry.opening import open_registry
from bpeline.registry.serving import left_behind
from bpeline.registry.tracking import mlflow_server
from bpeline.registry.workspace import Workspace, serving_prefect
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

ROOT = Path(__file__).parents[2]
PROGRAM = "from bpeline.flows.cli.main import main; main()"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def web_server(port: int, name: str = "a web server") -> Service:
    command = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    return Service(name, command, port)


def running(
    services: list[Service], folder: Path, say: Callable[[str], object] = print
) -> AbstractContextManager[Processes]:
    return looked_after.running(services, ENVIRONMENT, folder, say)


@pytest.mark.night
def test_services_start_in_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    first, second = free_ports(2)
    said: list[str] = []
    with running([web_server(first), web_server(second, "another")], tmp_path, said.append):
        assert listens(first)
        assert listens(second)
    assert not listens(first)
    assert not listens(second)
    assert [line.split(" (")[0] for line in said] == ["starting a web server", "starting another"]


def test_a_service_that_fails_takes_the_others_along(tmp_path: Path) -> None:
    first, second = free_ports(2)
    broken = Service("broken", (sys.executable, "-c", "raise SystemExit(3)"), second)
    with (
        pytest.raises(RegistryUnreachable, match=r"broken.*\b3\b"),
        running([web_server(first), broken], tmp_path),
    ):
        raise AssertionError("one of them does not run")
    assert not listens(first)


def test_a_service_that_ends_later_is_noticed(tmp_path: Path) -> None:
    brief = Service("brief", (sys.executable, "-c", "pass"))
    with pytest.raises(RegistryUnreachable, match="brief"), running([brief], tmp_path) as processes:
        wait_for_any(processes)


def test_nothing_starts_when_a_port_is_taken(tmp_path: Path) -> None:
    free, taken = free_ports(2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        services = [web_server(free), web_server(taken)]
        refused = pytest.raises(InvalidOption, match=f"{taken}")
        with refused, running(services, tmp_path):
            raise AssertionError("one of the ports is taken")
    assert not listens(free)


@pytest.mark.night
def test_a_service_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked_after, "STOP_SECONDS", 0.5)
    (port,) = free_ports(1)
    program = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"subprocess.run([sys.executable, '-m', 'http.server', '{port}', '--bind', '127.0.0.1'])"
    )
    stubborn = Service("stubborn", (sys.executable, "-c", program), port)
    with running([stubborn], tmp_path):
        assert listens(port)
    for _ in range(50):
        if not listens(port):
            return
        time.sleep(0.1)
    raise AssertionError("its child still serves")


PARENT = """
import os, pathlib, signal, sys, time
from bpeline.flows.serving.services import Service, running
service = (sys.executable, "-c", pathlib.Path("service.py").read_text())
more = {**os.environ, "BPELINE_HOME": os.getcwd()}, os.getcwd(), print
port = sys.argv[1]
with running([Service("server", (*service, "serve", port), int(port))], *more):
    with running([Service("worker", (*service, "work", port))], *more):
        while not os.path.exists("runs"):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
"""
SERVICE = """
import http.server, pathlib, signal, subprocess, sys, time, urllib.request
from bpeline.registry.serving import end_with_parent
what, port = sys.argv[1:]
address = f"http://127.0.0.1:{port}/runs"
def ended(*_):
    pathlib.Path("said").write_text(str(urllib.request.urlopen(address).status))
    raise SystemExit
if what == "run":
    signal.signal(signal.SIGTERM, ended)
    pathlib.Path("runs").touch()
else:
    end_with_parent()
if what == "work":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    text = pathlib.Path("service.py").read_text()
    subprocess.Popen([sys.executable, "-c", text, "run", port], start_new_session=True)
if what == "serve":
    http.server.test(http.server.SimpleHTTPRequestHandler, port=int(port), bind="127.0.0.1")
time.sleep(1_000)
"""


@pytest.fixture
def killed(tmp_path: Path) -> int:
    """The port of a server whose parent was killed while its worker ran something."""
    (port,) = free_ports(1)
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "health").touch()
    command = [sys.executable, "-c", PARENT, str(port)]
    ended = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=False)
    assert ended.returncode == -signal.SIGKILL
    return port


@pytest.mark.night
def test_services_and_their_runs_end_with_a_parent_that_was_killed(
    killed: int, tmp_path: Path
) -> None:
    assert left_behind(tmp_path)
    waiting_for("end", lambda: not left_behind(tmp_path) and not listens(killed), 60)
    assert (tmp_path / "said").read_text() == "200", "the server outlives the run, and hears it"


@pytest.mark.night
def test_the_next_start_names_and_ends_what_a_killed_one_left(
    killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (left := left_behind(tmp_path)):
        os.kill(pid, signal.SIGSTOP)  # so that they do not end by themselves
    monkeypatch.setattr(local_server, "STOP_SECONDS", 0.5)
    workspace, said = Workspace(tmp_path), list[str]()
    with pytest.raises(InvalidOption, match=f"process {left[0]}, {left[1]}") as refused:
        local_server._end_left_behind(workspace, said.append, lambda question: False)
    assert f"`kill -9 {left[0]} {left[1]}`" in refused.value.next_step
    local_server._end_left_behind(workspace, said.append, lambda question: str(left[0]) in question)
    assert left_behind(tmp_path) == []
    assert not listens(killed)


@pytest.mark.parametrize("command", [("serve",), ("serve", "--mlflow-only")])
def test_without_a_python_servers_are_refused(
    bpeline: Callable[..., Result], without_python: Path, command: tuple[str, ...]
) -> None:
    result = bpeline(*command)
    assert result.exit_code == 1
    assert str(without_python) in result.stderr
    assert "`bpeline`" in result.stderr


def test_deploy_without_a_server_says_how_to_start_one(
    tmp_path: Path, bpeline: Callable[..., Result]
) -> None:
    result = bpeline("deploy")
    assert result.exit_code == 1
    assert "bpeline serve --deploy" in result.stderr


def test_server_deploys_to_the_one_that_runs_already(
    tmp_path: Path, bpeline: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefect, mlflow = free_ports(2)
    api = f"http://127.0.0.1:{prefect}/api"
    asked: list[str] = []

    def deploy(order: Order, environment: Mapping[str, str]) -> Deployed:
        asked.append(environment["PREFECT_API_URL"])
        return Deployed(str(order.source), ["retrain"], (), order.remove, ())

    monkeypatch.setattr(local_server.deploying, "deploy", deploy)
    arguments = ("serve", "--prefect-port", prefect, "--mlflow-port", mlflow)
    with serving_prefect(open_registry().workspace) as serves:
        serves(api)
        shown = bpeline(*arguments)
        assert asked == []
        deployed = bpeline(*arguments, "--deploy")
    assert asked == [api]
    assert deployed.exit_code == shown.exit_code == 0
    assert "deployed: retrain\n" in deployed.stdout
    assert f"PREFECT_API_URL={api}" in deployed.stdout


@pytest.mark.parametrize(
    ("mounts", "is_remote"),
    [
        ("/dev/a / ext4 rw 0 0\nhost:/x {} nfs4 rw 0 0\n", True),
        ("host:/x / nfs4 rw 0 0\n/dev/a {} ext4 rw 0 0\n", False),
        ("a / overlay rw 0 0\nu@h: {} fuse.sshfs rw 0 0\n", True),
    ],
)
def test_prefect_s_database_lies_in_the_workspace_unless_its_disk_is_remote(
    tmp_path: Path, mounts: str, is_remote: bool
) -> None:
    (tmp_path / "mounts").write_text(mounts.format(tmp_path))
    assert settings.on_network_disk(tmp_path / "w", tmp_path / "mounts") is is_remote
    assert settings.prefect_of(Workspace(tmp_path))["PREFECT_HOME"] == str(tmp_path / "prefect")


@pytest.mark.parametrize("command", [("serve", "--deploy"), ("deploy",)])
@pytest.mark.parametrize("project", ["name = ", "[train]\nfoo = 1", "[train]\nname = '{{x}}'"])
@pytest.mark.usefixtures("without_python")  # no server could start
def test_a_project_is_read_before_anything_is_started(
    tmp_path: Path, bpeline: Callable[..., Result], command: tuple[str, ...], project: str
) -> None:
    (tmp_path / "bpeline.toml").write_text(project)
    refused = bpeline(*command)
    assert refused.exit_code == 2
    assert "bpeline.toml" in refused.stderr


@pytest.mark.night
def test_services_start_at_once(tmp_path: Path) -> None:
    """The first answers only after the second does: neither waits for the other to begin."""
    first, second = free_ports(2)
    waits = (
        "import http.server, socket, time\n"
        f"while socket.socket().connect_ex(('127.0.0.1', {second})): time.sleep(0.05)\n"
        f"http.server.test(http.server.SimpleHTTPRequestHandler, port={first}, bind='127.0.0.1')"
    )
    waiting = Service("a waiting one", (sys.executable, "-c", waits), first)
    with running([waiting, web_server(second)], tmp_path):
        assert listens(first)


@pytest.mark.night
def test_mlflow_s_first_page_is_served_and_hosts_are_checked(tmp_path: Path) -> None:
    registry = open_registry(tmp_path / "workspace")
    registry.tracker.prepare()
    (port,) = free_ports(1)
    environment = {
        **ENVIRONMENT,
        "MLFLOW_BACKEND_STORE_URI": registry.tracker.settings.uri,
        "MLFLOW_ARTIFACTS_DESTINATION": str(registry.tracker.settings.artifact_location),
    }
    command = (sys.executable, "-m", mlflow_server.__name__, "127.0.0.1", str(port))
    service = [Service("MLflow", command, port)]
    with looked_after.running(service, environment, tmp_path, print):
        place = f"http://127.0.0.1:{port}"
        with urlopen(place) as answer:
            page = answer.read().decode()
        assert "static-files/static/js/main" in page
        with urlopen(f"{place}/ajax-api/3.0/mlflow/ui-telemetry") as answer:
            assert json.load(answer)["disable_ui_telemetry"] is True
        foreign = Request(place, headers={"Host": "evil.example"})
        with pytest.raises(HTTPError, match="403"):
            urlopen(foreign)
