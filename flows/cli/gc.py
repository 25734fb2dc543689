"""``bpeline gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flows.cli.options import echo_json, json_option, workspace_option

if TYPE_CHECKING:
    from registry.retention import Leftover

_NAMES = {
    "table": "word counts of corpora",
    "shard": "word counts of chunks",
    "run": "checkpoints of runs",
    "version": "files of tokenizers that are not registered",
}


@click.command(
    epilog="""\b
Examples:
  bpeline gc                                    # what could go, and how much it is
  bpeline gc --remove
  bpeline gc --days 7 --counts-of 3 --remove    # old versions' counts as well
""",
)
@click.option(
    "--days", type=float, default=30, show_default=True, help="What is younger than this stays."
)
@click.option(
    "--counts-of",
    type=int,
    metavar="N",
    help="Keep word counts for the newest N versions of each name, and for those with an alias.  "
    "[default: for all versions]",
)
@click.option("--remove", is_flag=True, help="Remove it. Without, only say what there is.")
@workspace_option
@json_option
def gc(days: float, counts_of: int | None, remove: bool, as_json: bool) -> None:
    """Find, and remove, what no version needs.

    Registered tokenizers stay, and so do the word counts they were trained on, runs that can be
    continued and publications that wait. All else can be made again from the sources.
    """
    from registry.opening import open_registry
    from registry.retention import find_leftovers, remove_leftovers

    registry = open_registry(make=False)
    found = (remove_leftovers if remove else find_leftovers)(
        registry, days=days, counts_of=counts_of
    )
    if as_json:
        echo_json({
            "removed": remove,
            "old": list(map(_as_json, found.old)),
            "young": list(map(_as_json, found.young)),
            "unsure": found.unsure,
        })  # fmt: skip
        return
    for kind, name in _NAMES.items():
        ones = [one for one in found.old if one.kind == kind]
        if ones:
            click.echo(f"{_megabytes(ones):>12}  {len(ones):,} {name}")
    if found.unsure:
        click.echo(found.unsure)
    done = "removed" if remove else "could go"
    click.echo(f"{_megabytes(found.old):>12}  {done}")
    if found.young:
        click.echo(f"{_megabytes(found.young):>12}  stay as they are younger than {days:g} days")
    if found.old and not remove:
        click.echo("\nremove it:  bpeline gc --remove")


def _megabytes(ones: Any) -> str:
    return f"{sum(one.size for one in ones) / 1e6:,.1f} MB"


def _as_json(one: Leftover) -> dict[str, Any]:
    return {"kind": one.kind, "key": one.key, "bytes": one.size, "days": round(one.days, 2)}
