"""``bpeline gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.options import echo_json, json_option, workspace_option
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.requests import GarbageRequest

if TYPE_CHECKING:
    from bpeline.registry.retention import Leftover


@click.command(
    epilog="""\b
Examples:
  bpeline gc                                    # what could go, and how much it is
  bpeline gc --remove
  bpeline gc --days 7 --counts-of 3 --remove    # old versions' counts as well
""",
)
@options_of(GarbageRequest, {"counts_of": {"metavar": "N"}}, but=())
@workspace_option
@json_option
def gc(remove: bool, as_json: bool, **given: Any) -> None:
    """Find, and remove, what no version needs.

    Registered tokenizers stay, and so do the word counts they were trained on, runs that can be
    continued and publications that wait. All else can be made again from the sources.
    """
    from bpeline.flows.sweep_garbage import KINDS, sweep_garbage

    found = sweep_garbage(remove=remove, **given)
    if as_json:
        echo_json({
            "removed": remove,
            "old": list(map(_as_json, found.old)),
            "young": list(map(_as_json, found.young)),
            "unsure": found.unsure,
        })  # fmt: skip
        return
    for kind, name in KINDS.items():
        ones = [one for one in found.old if one.kind == kind]
        if ones:
            click.echo(f"{_megabytes(ones):>12}  {len(ones):,} {name}")
    if found.unsure:
        click.echo(found.unsure)
    done = "removed" if remove else "could go"
    click.echo(f"{_megabytes(found.old):>12}  {done}")
    if found.young:
        click.echo(
            f"{_megabytes(found.young):>12}  stay as they are younger than {found.days:g} days"
        )
    if found.old and not remove:
        click.echo("\nremove it:  bpeline gc --remove")


def _megabytes(ones: Any) -> str:
    return f"{sum(one.size for one in ones) / 1e6:,.1f} MB"


def _as_json(one: Leftover) -> dict[str, Any]:
    return {"kind": one.kind, "key": one.key, "bytes": one.size, "days": round(one.days, 2)}
