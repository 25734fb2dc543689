"""``bpeline server`` and ``bpeline deploy``."""

from __future__ import annotations

import click

from bpeline.flows.cli.options import echo_json, json_option, workspace_option

_PORT = click.IntRange(1, 65535)


@click.command(
    epilog="""\b
Examples:
  bpeline server --deploy
  bpeline server --prefect-port 4210 --mlflow-port 5010 --workspace /srv/bpeline
""",
)
@click.option("--prefect-port", type=_PORT, default=4200, show_default=True)
@click.option("--mlflow-port", type=_PORT, default=5000, show_default=True)
@click.option("--deploy", "deploys", is_flag=True, help="Apply prefect.yaml as well.")
@workspace_option
def server(prefect_port: int, mlflow_port: int, deploys: bool) -> None:
    """Run all that schedules need on this machine; Ctrl-C stops it.

    That is a Prefect server, a worker that runs what is due, and the workspace's MLflow UI, all on
    the loopback address.
    """
    from bpeline.flows.serving import serve

    serve(prefect_port, mlflow_port, deploys, say=click.echo)


@click.command(
    epilog="""\b
Example:
  bpeline deploy --workspace /srv/bpeline
""",
)
@workspace_option
@json_option
def deploy(as_json: bool) -> None:
    """Apply prefect.yaml: what runs when, in this workspace."""
    from bpeline.flows.serving import local_server

    names = local_server.deploy()
    if as_json:
        echo_json({"deployed": names})
    else:
        click.echo(f"deployed: {', '.join(names)}")
