"""``bpeline server``, ``bpeline deploy`` and ``bpeline ui``."""

from __future__ import annotations

import sys

import click

from bpeline.flows.cli.commands import answer, command, project_option
from bpeline.flows.running import stop_moving
from bpeline.flows.wording import as_typed

_PORT = click.IntRange(1, 65535)
_password_option = click.option(
    "--no-password",
    "password",
    flag_value=False,
    default=True,
    show_default=False,
    help="Ask nobody: every user of this machine can then change models and run commands as you.",
)


def _ask(question: str) -> bool:
    stop_moving()  # the line of a terminal would hide the question
    return sys.stdin.isatty() and click.confirm(question)


@command(
    "bpeline server --deploy",
    "bpeline server --prefect-port 4210 --mlflow-port 5010 --workspace /srv/bpeline",
    prints_json=False,
)
@click.option("--prefect-port", type=_PORT, default=4200)
@click.option("--mlflow-port", type=_PORT, default=5000)
@click.option(
    "--deploy", "deploys", is_flag=True, help="Apply bpeline.toml, else prefect.yaml, as well."
)
@_password_option
@project_option
def server(prefect_port: int, mlflow_port: int, deploys: bool, password: bool) -> None:
    """Run all that schedules need on this machine; Ctrl-C stops it.

    That is a Prefect server, a worker that runs what is due, and the workspace's MLflow UI, all on
    the loopback address. They ask for the workspace's password; the addresses that are printed let
    a browser in. Typed again while it runs, the command prints new addresses; --deploy deploys to
    the server that runs.
    """
    from bpeline.flows.serving import serve

    serve(prefect_port, mlflow_port, deploys, say=click.echo, ask=_ask, password=password)


@command(
    "bpeline deploy",
    "bpeline deploy --workspace /srv/bpeline",
    "bpeline deploy --project ~/news/bpeline.toml",
    "bpeline deploy --remove",
)
@click.option(
    "--force",
    is_flag=True,
    help="Let run again what was paused in Prefect, and replace deployments of another MLflow.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Also remove what bpeline.toml scheduled before, and names no more.",
)
@project_option
def deploy(force: bool, remove: bool, as_json: bool) -> None:
    """Tell Prefect what runs when: what bpeline.toml schedules, else what prefect.yaml does.

    Deployments, schedules and automations that were paused in Prefect stay paused, and are listed;
    all else is what the file says. What it scheduled before and names no more, or under another
    name, is said and goes on until it is removed.
    """
    from bpeline.flows.serving import local_server

    done = local_server.deploy(remove, force)
    told = {
        "deployed": done.names, "left": done.left, "removed": done.removed,
        "file": done.file, "notes": done.notes,
    }  # fmt: skip
    answer(as_json, told, map(as_typed, done.lines()))


@command("bpeline ui", "bpeline ui --port 5010 --workspace /srv/bpeline", prints_json=False)
@click.option("--port", type=_PORT, default=5000)
@_password_option
def ui(port: int, password: bool) -> None:
    """Open the workspace's MLflow UI on this machine; Ctrl-C stops it.

    It asks for the workspace's password; the address that is printed lets a browser in. Typed again
    while it runs, the command prints a new address.
    """
    from bpeline.flows.serving import serve_ui

    serve_ui(port, say=click.echo, ask=_ask, password=password)
