"""``bpeline delete`` and ``bpeline dismiss``: what nobody wants any more."""

from __future__ import annotations

from dataclasses import asdict

import click

from bpeline.flows.cli.options import answer, command


@command("bpeline dismiss 4f1c09ab77d2", "bpeline dismiss 4f1c --json")
@click.argument("run")
def dismiss(run: str, as_json: bool) -> None:
    """Forget the unfinished RUN: nothing continues or publishes it, MLflow shows it as killed.

    RUN is the beginning of an id that `bpeline resume --list` shows. What only this run needed,
    checkpoints and word counts, can then be removed: `bpeline gc --remove`.
    """
    from bpeline.registry.opening import open_registry
    from bpeline.registry.run_ends import dismiss as dismiss_run

    done = dismiss_run(open_registry(make=False), run)
    answer(as_json, asdict(done), [f"run {done.id} ({done.name}) is dismissed"])
