"""``bpeline versions`` and ``bpeline show``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.options import FILE, answer, command, echo_json, reached
from bpeline.tokenizer_core.redaction import in_one_line
from bpeline.tokenizer_core.tables import Table

BYTES_PER_TOKEN = "compression/bytes_per_token"
OTHER_TEXT = "*"


@command(
    "bpeline versions", "bpeline versions news --json", "bpeline versions news --html news.html"
)
@click.argument("name", required=False)
@click.option(
    "--html",
    type=FILE,
    help="Also write a page about NAME: cost over time, figures, who was champion when, drift.",
)
def versions(name: str | None, html: Path | None, as_json: bool) -> None:
    """List the registered versions (of NAME), and those that were deleted."""
    if html is not None:
        from bpeline.flows.versions import write_name_page

        write_name_page(name, html)
    from bpeline.flows.wording import as_typed
    from bpeline.registry.versions import deleted_versions, list_versions

    found = list_versions(name)
    deleted = [] if as_json else deleted_versions(name)
    gone = [f"{one.reference}  {one.digest[:12]}  {one}" for one in deleted]
    wrote = [] if html is None else [f"\nwrote {html}"]
    if not found:
        whose = f"of {name} " if name else ""
        line = as_typed(f"no version {whose}is registered; type `bpeline train --demo` to make one")
        answer(as_json, [], [line, *gone, *wrote])
        return
    rows = []
    for version in found:
        ratio = version.metrics.get(BYTES_PER_TOKEN)
        rows.append((
            version.reference,
            f"{version.vocab_size:,}",
            "" if ratio is None else f"{ratio:.4f}{'' if version.comparable else OTHER_TEXT}",
            version.digest[:12],
            version.created_at[:16].replace("T", " "),
            " ".join(version.aliases),
        ))  # fmt: skip
    columns = ("version", "vocab", "bytes/token", "digest", "created (UTC)", "aliases")
    lines = Table(columns, rows, left=range(len(columns))).lines()
    if any(BYTES_PER_TOKEN in one.metrics and not one.comparable for one in found):
        lines.append(as_typed(
            f"{OTHER_TEXT} measured on other text than the evaluation set of its name, so these "
            "figures do not compare: `bpeline evaluate REF` measures a version on it"
        ))  # fmt: skip
    lines += [f"{one.reference} was refused: {one.stuck}" for one in found if one.stuck]
    answer(as_json, [asdict(version) for version in found], [*lines, *gone, *wrote])


@command(
    "bpeline show news@candidate", "bpeline show news/3 --json", "bpeline show news/4 --recipe"
)
@click.argument("reference", metavar="REF")
@click.option(
    "--recipe",
    is_flag=True,
    help="Of a version that extends another: for each new id the old ids that its text was before.",
)
def show(reference: str, recipe: bool, as_json: bool) -> None:
    """Show one version: digest, aliases, metrics, lineage.

    REF is name@alias, name/number or a digest.
    """
    if recipe:
        _show_recipe(reference, as_json)
        return
    from bpeline.flows.versions import version_details
    from bpeline.flows.wording import statistics_table

    details = version_details(reference)
    if as_json:
        echo_json(details)
        return
    for title, values in details.items():
        if not values:
            continue
        if title == "sources":
            click.echo("\nsources")
            for line in statistics_table(values).lines():
                click.echo(f"  {line}")
            continue
        if title == "development":
            click.echo("\ndevelopment texts")
            rows = [
                (one["name"], one["digest"][:12], f"{one['documents']:,}", f"{one['bytes']:,}",
                 ", ".join(one["files"]))
                for one in values
            ]  # fmt: skip
            for line in Table(("source", "digest", "documents", "bytes", "files"), rows).lines():
                click.echo(f"  {line}")
            continue
        if not isinstance(values, dict):
            said = reached(values) if title == "link" else _text(values)
            click.echo(f"{title:<16} {said}")
            continue
        click.echo(f"\n{title}")
        for key, value in values.items():
            click.echo(f"  {in_one_line(key):<38} {_text(value)}")


def _show_recipe(reference: str, as_json: bool) -> None:
    from bpeline.flows.derive import recipe_of

    found = recipe_of(reference)
    rows = [(str(one.id), one.token, " ".join(map(str, one.old_ids))) for one in found]
    table = Table(("id", "token", "old ids"), rows)
    answer(as_json, [asdict(one) for one in found], table.lines())


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return in_one_line(str(value))
