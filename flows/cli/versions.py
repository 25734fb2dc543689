"""``bpeline versions``, ``show``, ``report`` and ``verify``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.aliases import show_history
from bpeline.flows.cli.commands import FILE, answer, command, echo_json, reached
from bpeline.flows.wording import as_typed
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.redaction import in_one_line
from bpeline.tokenizer_core.tables import Table

BYTES_PER_TOKEN = "compression/bytes_per_token"
OTHER_TEXT = "*"


@command("bpeline versions", "bpeline versions news --json", "bpeline versions news -o news.html")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=FILE,
    help="Also write an HTML page about NAME: metrics over time, champions and drift.",
)
def versions(name: str | None, output: Path | None, as_json: bool) -> None:
    """List registered versions (of NAME) and deleted ones."""
    if output is not None:
        from bpeline.flows.pages import write_name_page

        write_name_page(name, output)
    from bpeline.registry.versions import deleted_versions, list_versions

    listed = list_versions(name)
    deleted = [] if as_json else deleted_versions(name)
    deleted_lines = [f"{item.reference}  {item.digest[:12]}  {item}" for item in deleted]
    wrote = [] if output is None else [f"\nwrote {output}"]
    if not listed:
        whose = f"of {name} " if name else ""
        line = as_typed(f"no version {whose}is registered; type `bpeline train --demo` to make one")
        answer(as_json, [], [line, *deleted_lines, *wrote])
        return
    rows = []
    for version in listed:
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
    if any(BYTES_PER_TOKEN in item.metrics and not item.comparable for item in listed):
        lines.append(as_typed(
            f"{OTHER_TEXT} not measured on the evaluation set of its name, so not comparable: "
            "`bpeline evaluate REF` measures it"
        ))  # fmt: skip
    lines += [f"{item.reference} was refused: {item.stuck}" for item in listed if item.stuck]
    answer(as_json, [asdict(version) for version in listed], [*lines, *deleted_lines, *wrote])


@command(
    "bpeline show news@candidate",
    "bpeline show news/3 --json",
    "bpeline show news/4 --recipe",
    "bpeline show news --alias champion     # history of the alias",
)
@click.argument("reference", metavar="REF|NAME")
@click.option(
    "--recipe",
    is_flag=True,
    help="For an extended version: show the old ids that each new id replaces.",
)
@click.option("--alias", help="For NAME: show only the moves of this alias.")
def show(reference: str, recipe: bool, alias: str | None, as_json: bool) -> None:
    """Show one version, or the history of NAME.

    For REF (name@alias, name/number or a digest): digest, aliases, metrics and lineage. For NAME:
    alias moves with user and reason, and deleted versions, newest first.
    """
    from bpeline.registry.records import is_name

    if is_name(reference):
        if recipe:
            raise InvalidOption(
                f"--recipe was given with the name {reference}",
                "expected an extended version",
                f"type `bpeline show {reference}@candidate --recipe`",
            )
        show_history(reference, alias, as_json)
        return
    if alias is not None:
        raise InvalidOption(
            f"--alias was given with the version {reference}",
            "expected a name: --alias selects from its history",
            "type `bpeline show NAME --alias ALIAS`",
        )
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
                (dev["name"], dev["digest"][:12], f"{dev['documents']:,}", f"{dev['bytes']:,}",
                 ", ".join(dev["files"]))
                for dev in values
            ]  # fmt: skip
            for line in Table(("source", "digest", "documents", "bytes", "files"), rows).lines():
                click.echo(f"  {line}")
            continue
        if not isinstance(values, dict):
            text = reached(values) if title == "link" else _text(values)
            click.echo(f"{title:<16} {text}")
            continue
        click.echo(f"\n{title}")
        for key, value in values.items():
            click.echo(f"  {in_one_line(key):<38} {_text(value)}")


def _show_recipe(reference: str, as_json: bool) -> None:
    from bpeline.flows.deriving import recipe_of

    recipes = recipe_of(reference)
    rows = [
        (str(recipe.id), recipe.token, " ".join(map(str, recipe.old_ids))) for recipe in recipes
    ]
    table = Table(("id", "token", "old ids"), rows)
    answer(as_json, [asdict(recipe) for recipe in recipes], table.lines())


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return in_one_line(str(value))


@command(
    "bpeline report news@candidate --open",
    "bpeline report news/3 -o news-3.html",
    "bpeline report news/4 --against news/3",
)
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=FILE, help="Output file.  [default: NAME-NUMBER.html]")
@click.option("--against", metavar="REF", help="Version to compare with.  [default: the champion]")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
def report(
    reference: str, output: Path | None, against: str | None, show: bool, as_json: bool
) -> None:
    """Write a self-contained HTML report about a version.

    REF is name@alias, name/number or a digest. The page has figures and charts, notable tokens, the
    personal-data screening, the comparison with the champion, a playground that encodes text, and
    the whole vocabulary with its merges.
    """
    from bpeline.flows.versions import write_report
    from bpeline.flows.wording import megabytes

    path = write_report(reference, output, against)
    size = path.stat().st_size
    result = {"path": str(path.absolute()), "bytes": size}
    answer(as_json, result, [f"wrote {path} ({megabytes(size)})"])
    if show:
        click.launch(path.absolute().as_uri())


@command("bpeline verify news/3", "bpeline verify news@champion --reuse-counts --json")
@click.argument("reference", metavar="REF")
@click.option(
    "--reuse-counts",
    is_flag=True,
    help="Start from the cached word counts instead of the corpus; verifies only the merges.",
)
def verify(reference: str, reuse_counts: bool, as_json: bool) -> None:
    """Train a version again and check that the result is identical.

    REF is name@alias, name/number or a digest. Reads and counts the files, learns the merges, and
    compares corpus, word counts, tokenizer and files by digest. Exit code 0 if all are equal, 1 if
    something differs, has changed or is missing.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.verify_version import lines_of, verify_version

    with progress.listening(progress.for_stream(sys.stderr)):
        verification = verify_version(reference, reuse_counts=reuse_counts)
    lines = list(lines_of(verification))
    changed = verification.verdict in ("inputs gone", "inputs changed")
    if changed and verification.counts_suffice and not reuse_counts:
        lines.append("to verify only the merges, add --reuse-counts")
    answer(as_json, verification.as_dict(), lines)
    if not verification.holds:
        raise SystemExit(1)
