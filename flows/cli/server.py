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
    stop_moving()  # the progress line would hide the question
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
    "--deploy", "deploys", is_flag=True, help="Also deploy bpeline.toml or else prefect.yaml."
)
@click.option("--mlflow-only", is_flag=True, help="Serve only the MLflow UI of the workspace.")
@click.option(
    "--no-password",
    "password",
    flag_value=False,
    default=True,
    show_default=False,
    help="No password: all users of this machine can change models and run commands as you.",
)
@project_option
def serve(
    prefect_port: int, mlflow_port: int, deploys: bool, mlflow_only: bool, password: bool
) -> None:
    """Run a Prefect server, a worker and the MLflow UI until Ctrl-C.

    The servers listen on the loopback address and require the password of the workspace; the
    printed addresses log a browser in. While they run, the same command prints new addresses, and
    --deploy deploys to the running server.
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
    help="Resume what was paused in Prefect, and replace deployments of another MLflow.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Also remove deployments that are no longer in bpeline.toml.",
)
@project_option
def deploy(force: bool, remove: bool, as_json: bool) -> None:
    """Deploy the schedule of the project to Prefect.

    Deploys bpeline.toml or else prefect.yaml. Deployments, schedules and automations paused in
    Prefect stay paused and are listed. Deployments that the file no longer has are listed and keep
    running until --remove.
    """
    from bpeline.flows.serving import local_server

    deployment = local_server.deploy(remove, force)
    result = {
        "deployed": deployment.names, "left": deployment.left, "removed": deployment.removed,
        "file": deployment.file, "notes": deployment.notes,
    }  # fmt: skip
    answer(as_json, result, map(as_typed, deployment.lines()))
