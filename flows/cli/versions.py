"""``bpeline versions`` and ``bpeline show``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from bpeline.flows.cli.options import echo_json, json_option, workspace_option

BYTES_PER_TOKEN = "compression/bytes_per_token"


@click.command(
    epilog="""\b
Examples:
  bpeline versions
  bpeline versions news --json
""",
)
@click.argument("name", required=False)
@workspace_option
@json_option
def versions(name: str | None, as_json: bool) -> None:
    """List the registered versions (of NAME)."""
    from dataclasses import asdict

    from bpeline.registry.versions import list_versions

    found = list_versions(name)
    if as_json:
        echo_json([asdict(version) for version in found])
        return
    if not found:
        whose = f"of {name} " if name else ""
        click.echo(f"no version {whose}is registered; type `bpeline train --demo` to make one")
        return
    rows = [("version", "vocab", "bytes/token", "digest", "created (UTC)", "aliases")]
    for version in found:
        ratio = version.metrics.get(BYTES_PER_TOKEN)
        rows.append((
            version.reference,
            f"{version.vocab_size:,}",
            "" if ratio is None else f"{ratio:.4f}",
            version.digest[:12],
            version.created_at[:16].replace("T", " "),
            " ".join(version.aliases),
        ))  # fmt: skip
    _echo_table(rows)


@click.command(
    epilog="""\b
Examples:
  bpeline show news@candidate
  bpeline show news/3 --json
""",
)
@click.argument("reference", metavar="REF")
@workspace_option
@json_option
def show(reference: str, as_json: bool) -> None:
    """Show one version: digest, aliases, metrics, lineage.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.versions import version_details
    from bpeline.flows.wording import aligned, statistics_table

    details = version_details(reference)
    if as_json:
        echo_json(details)
        return
    for title, values in details.items():
        if not values:
            continue
        if title == "sources":
            click.echo("\nsources")
            for line in aligned(statistics_table(values)):
                click.echo(f"  {line}")
            continue
        if not isinstance(values, dict):
            click.echo(f"{title:<16} {_text(values)}")
            continue
        click.echo(f"\n{title}")
        for key, value in values.items():
            click.echo(f"  {key:<38} {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return str(value)


def _echo_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
