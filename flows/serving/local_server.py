"""All that schedules need on one machine: a Prefect server, a worker and the MLflow UI.

One command starts them on the loopback address, waits until they answer and stops them. Knows no
flow; what is scheduled says ``prefect.yaml``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import bpeline
from bpeline.flows.running import settings
from bpeline.flows.serving.services import HOST, Service, running, wait_for_any
from bpeline.flows.serving.ui_server import mlflow_pages, mlflow_service
from bpeline.registry.opening import open_registry
from bpeline.registry.workspace import remember_ui_port
from bpeline.tokenizer_core.errors import RegistryUnreachable

POOL = "bpeline"
_PREFECT = (sys.executable, "-m", "prefect")
# In a checkout prefect.yaml and the rules it names are links to those at the top level.
INSTALLED = Path(bpeline.__file__).parent
_RUNS_AT_ONCE = 1  # trainings use all cores and hold the workspace


def serve(prefect_port: int, mlflow_port: int, deploys: bool, say: Callable[[str], object]) -> None:
    """Serve until interrupted.

    Args:
        prefect_port, mlflow_port: to listen on.
        deploys: whether to apply ``prefect.yaml`` once the server answers.
        say: prints a line.

    Raises:
        InvalidOption: a port is taken.
        RegistryUnreachable: a server ended by itself or does not start to answer.
    """
    registry = open_registry()
    api = f"http://{HOST}:{prefect_port}/api"
    home = registry.workspace.root
    environment = settings.prefect_environment(api, home, registry.workspace.store)
    mlflow = mlflow_service(registry, mlflow_port, "--mlflow-port")
    server = prefect_service(prefect_port, environment, home)
    worker = Service(
        "a worker",
        (*_PREFECT, "worker", "start", "--pool", POOL, "--type", "process",
         "--limit", str(_RUNS_AT_ONCE)),
        environment,
        home,
    )  # fmt: skip
    try:
        with running([server, *([mlflow] if mlflow else [])], say) as servers:
            if mlflow:
                remember_ui_port(registry.workspace, mlflow_port)
            make_pool(environment)
            if deploys:
                say(f"deployed: {', '.join(apply_deployments(environment))}")
            with running([worker], say) as workers:
                say("")
                say(f"{'schedules:':<13} http://{HOST}:{prefect_port}/deployments")
                for what, address in mlflow_pages(registry, mlflow_port).items():
                    say(f"{what + ':':<13} {address}")
                say(f"{'commands:':<13} export PREFECT_API_URL={api} BPELINE_HOME={home}")
                say("Ctrl-C stops all")
                wait_for_any({**servers, **workers})
    except KeyboardInterrupt:
        say("\nstopped")


def prefect_service(port: int, environment: Mapping[str, str], directory: Path) -> Service:
    """A Prefect server on the loopback address, its API below ``/api``."""
    return Service(
        "Prefect",
        (*_PREFECT, "server", "start", "--host", HOST, "--port", str(port)),
        environment,
        directory,
        port,
        health="/api/health",
        takes="10 to 20 seconds",
        option="--prefect-port",
    )


def deploy() -> list[str]:
    """Apply ``prefect.yaml`` to the configured Prefect server, or the one on this machine.

    Returns:
        The deployments it names.

    Raises:
        RegistryUnreachable: no server answers, or it refuses.
    """
    from bpeline.flows.running import choose_runner

    chosen = choose_runner()
    if chosen.prefect_api is None:
        raise RegistryUnreachable(
            chosen.remark or "no Prefect server is configured, and none runs on this machine",
            "PREFECT_API_URL, or a server at the usual place",
            "type `bpeline server --deploy`, or `prefect server start`",
        )
    workspace = open_registry().workspace
    environment = settings.prefect_environment(chosen.prefect_api, workspace.root, workspace.store)
    make_pool(environment)
    return apply_deployments(environment)


def make_pool(environment: Mapping[str, str]) -> None:
    """Make the work pool that deployments name, unless it is there."""
    make = ("work-pool", "create", POOL, "--type", "process", "--overwrite")
    _ask_prefect(make, environment, "make the work pool")


def apply_deployments(environment: Mapping[str, str]) -> list[str]:
    """Apply ``prefect.yaml``; returns the names of its deployments."""
    path = INSTALLED / "prefect.yaml"
    places = {**environment, "BPELINE_INSTALLED": str(INSTALLED)}
    _ask_prefect(("--no-prompt", "deploy", "--all", "--prefect-file", str(path)), places, "deploy")
    return _deployments_in(path)


def _deployments_in(path: Path) -> list[str]:
    """Their names, without a reader of YAML: the file is Prefect's to read."""
    lines = path.read_text(encoding="utf-8").splitlines()
    named = "  - name:"
    below = lines[lines.index("deployments:") :]
    return [line.removeprefix(named).strip() for line in below if line.startswith(named)]


def _ask_prefect(arguments: tuple[str, ...], environment: Mapping[str, str], what: str) -> None:
    done = subprocess.run(
        (*_PREFECT, *arguments),
        env=dict(environment),
        cwd=INSTALLED,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RegistryUnreachable(
            f"Prefect could not {what}: {said[-1] if said else 'it says nothing'}",
            "a Prefect server of version 3.8 or newer",
            "type `prefect version` to see the server, then try again",
        )
