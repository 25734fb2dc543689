"""The MLflow UI of a workspace, on this machine only, in the foreground."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bpeline.flows.running import settings
from bpeline.flows.serving.services import HOST, Service, running, wait_for_any
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.tracking import is_server, ui_base
from bpeline.registry.workspace import remember_ui_port

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
    service = mlflow_service(registry, port)
    if service is None:
        say(f"MLflow is a server of its own: {mlflow_pages(registry, port)['tokenizers']}")
        return
    try:
        with running([service], say) as processes:
            remember_ui_port(registry.workspace, port)
            for what, address in mlflow_pages(registry, port).items():
                say(f"{what + ':':<13} {address}")
            say("Ctrl-C stops it")
            wait_for_any(processes)
    except KeyboardInterrupt:
        say("\nstopped")


def mlflow_service(registry: Registry, port: int, option: str = "--port") -> Service | None:
    """MLflow's server over the workspace's own store; None when MLflow is a server elsewhere."""
    uri = registry.tracker.settings.uri
    if is_server(uri):
        return None
    command = (
        sys.executable, "-m", "mlflow", "server",
        "--host", HOST, "--port", str(port), "--workers", "1",
    )  # fmt: skip
    artifacts = registry.tracker.settings.artifact_location or ""
    return Service(
        "MLflow",
        command,
        settings.mlflow_server_environment(uri, artifacts),
        registry.workspace.root,
        port,
        takes="10 to 20 seconds",
        option=option,
    )


def mlflow_pages(registry: Registry, port: int) -> dict[str, str]:
    """What people look at, and where; in the view that shows models and runs."""
    uri = registry.tracker.settings.uri
    base = ui_base(uri, port)
    return {
        "tokenizers": f"{base}/#/models?{VIEW}",
        "experiments": f"{base}/#/experiments?{VIEW}",
    }
