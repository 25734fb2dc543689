"""``bpeline serve`` and ``bpeline deploy``."""

from __future__ import annotations

import sys

import click

from bpeline.flows.cli.commands import answer, command, project_option
from bpeline.flows.running import stop_moving
from bpeline.flows.wording import as_typed
from bpeline.tokenizer_core.errors import InvalidOption

_PORT = click.IntRange(1, 65535)


def _ask(question: str) -> bool:
    stop_moving()  # the line of a terminal would hide the question
    return sys.stdin.isatty() and click.confirm(question)


@command(
    "bpeline serve --deploy",
    "bpeline serve --prefect-port 4210 --mlflow-port 5010 --workspace /srv/bpeline",
    "bpeline serve --mlflow-only",
    prints_json=False,
)
@click.option("--prefect-port", type=_PORT, default=4200)
@click.option("--mlflow-port", type=_PORT, default=5000)
@click.option(
    "--deploy", "deploys", is_flag=True, help="Apply bpeline.toml, else prefect.yaml, as well."
)
@click.option("--mlflow-only", is_flag=True, help="Serve the workspace's MLflow UI alone.")
@click.option(
    "--no-password",
    "password",
    flag_value=False,
    default=True,
    show_default=False,
    help="Ask nobody: every user of this machine can then change models and run commands as you.",
)
@project_option
def serve(
    prefect_port: int, mlflow_port: int, deploys: bool, mlflow_only: bool, password: bool
) -> None:
    """Run a Prefect server, a worker and the MLflow UI on this machine; Ctrl-C stops them.

    They listen on the loopback address and ask for the workspace's password; the printed addresses
    let a browser in. Run again while it runs, the command prints new addresses; --deploy deploys to
    the running server.
    """
    from bpeline.flows import serving

    if mlflow_only:
        if deploys:
            raise InvalidOption(
                "--deploy was given together with --mlflow-only",
                "expected one of them: deployments need the Prefect server",
                "type `bpeline serve --deploy`",
            )
        serving.serve_ui(mlflow_port, say=click.echo, ask=_ask, password=password)
        return
    serving.serve(prefect_port, mlflow_port, deploys, say=click.echo, ask=_ask, password=password)


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
