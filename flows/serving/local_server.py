"""The servers of a workspace on this machine: MLflow UI, Prefect and a worker.

They listen on the loopback address while one command runs in the foreground. A project's file or
``prefect.yaml`` contains the schedules.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import bpeline
from bpeline.flows.requests import find_project, read_project
from bpeline.flows.running import choose_runner, settings
from bpeline.flows.serving import deploying, prefect_server, prefect_worker
from bpeline.flows.serving.deploying import Deployed
from bpeline.flows.serving.project_deployments import (
    check_schedules,
    project_tags,
    read_deployments,
    write_deployments,
)
from bpeline.flows.serving.services import HOST, STOP_SECONDS, Say, Service, running, wait_for_any
from bpeline.flows.wording import as_typed
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.serving import (
    SECRET_VARIABLE,
    end_family,
    ending_orphans,
    left_behind,
    sign_in_token,
)
from bpeline.registry.tracking import is_server, mlflow_server
from bpeline.registry.workspace import (
    Workspace,
    make_server_secret,
    served_prefect,
    served_ui_port,
    serving_prefect,
    serving_ui,
)
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

# In a checkout, prefect.yaml and its rules are links to the files at the top level.
INSTALLED = Path(bpeline.__file__).parent
_LOOK_SECONDS = 0.25
_VIEW = "workflowType=machine_learning"  # the view with models and runs

Ask = Callable[[str], bool]


def serve_ui(port: int, say: Say, ask: Ask, password: bool = True) -> None:
    """Serve the workspace's MLflow UI on a port until interrupted.

    If it is served there already, print another address and return.

    Args:
        ask: asks whether to kill services of a killed command.
        password: False gives access to every user of this machine.
    """
    registry = open_registry()
    services = _mlflow(registry, port, "--port")
    if not services:
        say(f"MLflow is an external server: {_mlflow_pages(registry, port)['tokenizers']}")
        return
    secret = make_server_secret(registry.workspace.server_secret_file) if password else ""
    if served_ui_port(registry.workspace) == port:
        _show(_mlflow_pages(registry, port, secret), say)
        return
    _end_left_behind(registry.workspace, say, ask)
    environment = _environment(registry, secret)
    try:
        with (
            ending_orphans(STOP_SECONDS),
            running(services, environment, registry.workspace.root, say) as processes,
            serving_ui(registry.workspace, port),
        ):
            _show(_mlflow_pages(registry, port, secret), say)
            say(_meaning(secret, "bpeline serve --mlflow-only"))
            say("Ctrl-C stops it")
            wait_for_any(processes)
    except KeyboardInterrupt:
        say("\nstopped")


def serve(
    prefect_port: int,
    mlflow_port: int,
    deploys: bool,
    say: Say,
    ask: Ask,
    password: bool = True,
) -> None:
    """Serve Prefect, a worker and the MLflow UI until interrupted.

    With ``deploys``, the project's file or ``prefect.yaml`` is deployed once the server answers. If
    this workspace is served there already, deploy to that server, print other addresses and
    return. For other arguments see `serve_ui`.
    """
    registry = open_registry()
    home = registry.workspace.root
    order = _read_order(registry) if deploys else None  # before servers start
    api = f"http://{HOST}:{prefect_port}/api"
    secret = make_server_secret(registry.workspace.server_secret_file) if password else ""
    places = settings.prefect_of(registry.workspace)
    environment = _environment(registry, secret, PREFECT_API_URL=api, **places)
    mlflow = _mlflow(registry, mlflow_port, "--mlflow-port")
    worker = Service("a worker", _worker(registry.workspace.id))

    def apply() -> None:
        if order is not None:
            for line in _deploy(environment, order).lines():
                say(as_typed(line))

    def show() -> None:
        schedules = f"http://{HOST}:{prefect_port}/deployments"
        _show({
            "schedules": _opening(schedules, prefect_port, secret),
            "commands": f"export PREFECT_API_URL={api} BPELINE_HOME={shlex.quote(str(home))}",
            **_for_clients("Prefect", "PREFECT_API_AUTH_STRING=bpeline:", registry, secret),
            **_mlflow_pages(registry, mlflow_port, secret),
        }, say)  # fmt: skip

    if served_prefect(registry.workspace) == api:
        apply()
        show()
        return
    _end_left_behind(registry.workspace, say, ask)
    try:
        with (
            serving_prefect(registry.workspace) as serves,
            ending_orphans(STOP_SECONDS),
            running([prefect_service(prefect_port), *mlflow], environment, home, say) as servers,
            serving_ui(registry.workspace, mlflow_port) if mlflow else nullcontext(),
        ):
            serves(api)
            apply()
            with running([worker], environment, home, say) as workers:
                say("")
                show()
                say(_meaning(secret, "bpeline serve"))
                say("Ctrl-C stops all")
                wait_for_any({**servers, **workers})
    except KeyboardInterrupt:
        say("\nstopped")


def prefect_service(port: int) -> Service:
    """Return a Prefect server on the loopback address, with its API below ``/api``."""
    command = _python(prefect_server.__name__, HOST, str(port))
    return Service("Prefect", command, port, "/api", "--prefect-port")


def _worker(queue: str) -> Sequence[str]:
    deployments = str(INSTALLED / "prefect.yaml")
    return _python(prefect_worker.__name__, queue, deployments)


def _python(*command: str) -> Sequence[str]:
    """Return the command that runs a module; raise WorkerLost without a Python."""
    python = required_python(
        "servers need processes of their own", "run this by the `bpeline` that pip installed"
    )
    return (python, "-m", *command)


def deploy(remove: bool = False, force: bool = False) -> Deployed:
    """Deploy the schedules of this directory's project, else of bpeline's own file.

    The server is the one that is configured, else the workspace's own.

    Args:
        remove: whether to remove deployments that the project no longer has.
        force: whether to replace changes made in Prefect, and deployments of another MLflow.
    """
    registry = open_registry()
    order = replace(_read_order(registry), remove=remove, force=force)
    chosen = choose_runner()
    if chosen.prefect_api is None:
        raise RegistryUnreachable(
            chosen.remark
            or "no Prefect server is configured, and this workspace has no running `bpeline serve`",
            "expected a server in PREFECT_API_URL or a Prefect profile, or `bpeline serve`",
            "type `bpeline serve --deploy`, or set PREFECT_API_URL",
        )
    environment = _environment(registry, "", PREFECT_API_URL=chosen.prefect_api)
    return _deploy(environment, order)


def _environment(registry: Registry, secret: str, **more: str) -> dict[str, str]:
    """Return the environment of a workspace's servers and of their flows."""
    store = registry.tracker.settings
    more[SECRET_VARIABLE] = str(registry.workspace.server_secret_file) if secret else ""
    return settings.server_environment(
        BPELINE_HOME=str(registry.workspace.root),
        BPELINE_STORE=registry.workspace.store,
        BPELINE_QUEUE=registry.workspace.id,
        BPELINE_INSTALLED=str(INSTALLED),
        MLFLOW_BACKEND_STORE_URI=store.uri,
        MLFLOW_ARTIFACTS_DESTINATION=store.artifact_location or "",
        **more,
    )


def _read_order(registry: Registry) -> deploying.Order:
    """Read the project's file, else bpeline's ``prefect.yaml``; check its schedules."""
    settings.prepare_prefect(quiet_terminal=True)
    path = source = INSTALLED / "prefect.yaml"
    tags: tuple[str, ...] = ()
    if (file := find_project()) is not None:
        project = read_project(file)
        written = write_deployments(project, path, registry.workspace.root)
        source, path, tags = file, written, project_tags(project)
    check_schedules(source, read_deployments(path)["deployments"])
    return deploying.Order(source.resolve(), path, registry.make_store(), tags)


def _deploy(environment: Mapping[str, str], order: deploying.Order) -> Deployed:
    """Deploy a file, and note a ``prefect.yaml`` in the directory that was not read."""
    deployed = deploying.deploy(order, environment)
    if order.tags and not (order.remove or deployed.names or deployed.left):
        raise InvalidOption(
            f"{order.source} schedules nothing",
            "expected a table [schedule] with at least one time",
            f'add `retrain = "0 3 * * *"` below [schedule] in {order.source}',
        )
    beside = Path.cwd() / "prefect.yaml"
    if beside.is_file() and not beside.samefile(order.path):
        note = f"not read: {beside}; to deploy it, type `prefect deploy --all`"
        deployed = replace(deployed, notes=[*deployed.notes, note])
    return deployed


def _mlflow(registry: Registry, port: int, option: str) -> list[Service]:
    """Return the MLflow server of the workspace's store; empty if it runs elsewhere."""
    if is_server(registry.tracker.settings.uri):
        return []
    registry.tracker.prepare()
    # The store is set in the environment: it may contain a password, and arguments are public.
    command = _python(mlflow_server.__name__, HOST, str(port))
    return [Service("MLflow", command, port, option=option)]


def _mlflow_pages(registry: Registry, port: int, secret: str = "") -> dict[str, str]:
    settings = replace(registry.tracker.settings, ui_port=port)
    base = settings.ui
    if is_server(settings.uri):
        secret = ""
    client = f"MLFLOW_TRACKING_URI={base} MLFLOW_TRACKING_TOKEN="
    return {
        "tokenizers": f"{_opening(f'{base}/', port, secret)}#/models?{_VIEW}",
        "experiments": f"{base}/#/experiments?{_VIEW}",
        **_for_clients("MLflow", client, registry, secret),
    }


def _for_clients(name: str, variables: str, registry: Registry, secret: str) -> dict[str, str]:
    """Return the command that gives the password to other programs, unseen."""
    file = shlex.quote(str(registry.workspace.server_secret_file))
    return {name: f"export {variables}$(cat {file})"} if secret else {}


def _opening(address: str, port: int, secret: str) -> str:
    """Return an address that signs a browser in."""
    return f"{address}?token={sign_in_token(secret, port)}" if secret else address


def _meaning(secret: str, command: str) -> str:
    if secret:
        return (
            "each address with a token opens in one browser, within ten minutes; "
            f"`{command}` in another terminal prints new ones"
        )
    return (
        "NO PASSWORD: every user of this machine can replace models, and with them code that is "
        "loaded; through Prefect, users, and websites in your browser, can run commands as you"
    )


def _end_left_behind(workspace: Workspace, say: Say, ask: Ask) -> None:
    """End services of a killed command, if they do not end by themselves."""
    if not (pids := left_behind(workspace.root)):
        return
    say(f"waiting for services of a command that was killed (process {_listed(pids)}) …")
    deadline = time.monotonic() + STOP_SECONDS
    while pids and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        pids = left_behind(workspace.root)
    if pids and not ask(f"Kill what still serves this workspace (process {_listed(pids)})?"):
        raise InvalidOption(
            f"services of a command that was killed still serve {workspace.root}: process "
            f"{_listed(pids)}",
            "expected services to end with their command",
            f"type `kill -9 {' '.join(map(str, pids))}`, then the same command again",
        )
    for pid in pids:
        end_family(pid, _LOOK_SECONDS)


def _listed(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids))


def _show(addresses: Mapping[str, str], say: Say) -> None:
    for title, address in addresses.items():
        say(f"{title + ':':<13} {address}")
