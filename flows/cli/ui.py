"""``bpeline ui``."""

from __future__ import annotations

import click

from bpeline.flows.cli.options import command


@command("bpeline ui", "bpeline ui --port 5010 --workspace /srv/bpeline", prints_json=False)
@click.option("--port", type=click.IntRange(1, 65535), default=5000)
def ui(port: int) -> None:
    """Open the workspace's MLflow UI on this machine; Ctrl-C stops it."""
    from bpeline.flows.serving import serve_ui

    serve_ui(port, say=click.echo)
