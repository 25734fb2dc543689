"""``bpeline repair``."""

from __future__ import annotations

import click

from bpeline.flows.cli.options import echo_json, json_option, workspace_option


@click.command(
    epilog="""\b
Examples:
  bpeline repair            # what is wrong, what would be done, what cannot be known again
  bpeline repair --write
""",
)
@click.option("--write", is_flag=True, help="Do it; without, only say what would be done.")
@workspace_option
@json_option
def repair(write: bool, as_json: bool) -> None:
    """Make good a catalogue or an MLflow that is lost, or that disagrees with the other.

    The catalogue is made anew from the files of versions, from MLflow and from the records of word
    counts. Versions of an MLflow that is gone wait to be registered in the one that is there now.
    """
    from dataclasses import asdict

    from bpeline.registry.opening import open_registry
    from bpeline.registry.repair import repair as repair_stores

    told = repair_stores(open_registry(make=False), write=write)
    if as_json:
        echo_json(asdict(told))
        return
    if not told.found:
        click.echo("catalogue, files and MLflow agree; nothing to repair")
        return
    for title, lines in (
        ("found", told.found),
        ("done" if write else "would be done", told.done),
        ("cannot be known again", told.lost),
    ):
        if lines:
            click.echo(f"{title}:")
            for line in lines:
                click.echo(f"  {line}")
    if not write:
        click.echo("\ndo it:  bpeline repair --write")
