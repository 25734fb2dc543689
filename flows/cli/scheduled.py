"""``bpeline drift`` and ``bpeline gc``, whose flows deployments also schedule."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import (
    answer,
    command,
    dry_run_option,
    project_for,
    project_option,
    reached,
    require_answer,
    typed_again,
    yes_option,
)
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.cli.text_arguments import with_standard_input
from bpeline.flows.requests import DriftRequest, GarbageRequest
from bpeline.flows.wording import as_typed
from bpeline.registry.environment import addresses
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.flows.collect_garbage import CollectedGarbage
    from bpeline.registry.upkeep import Leftover

EXIT_CODES = {"drifted": 3, "not drifted": 0, "not judged": 4}  # with --fail-on-drift


@command(
    "bpeline drift news@champion incoming/*.txt",
    "bpeline drift",
    "bpeline drift news incoming/ --source 'german:language=de=incoming/de/*.txt' --json",
    "bpeline drift news@champion incoming/ --fail-on-drift; case $? in 3) bpeline train …;; esac",
)
@click.argument("reference", metavar="NAME@ALIAS", required=False)
@click.argument("paths", nargs=-1)
@project_option
@options_of(
    DriftRequest,
    {
        "sources": {"option": "--source", "metavar": "NAME=FILES"},
        "rules": {"metavar": "FILE.toml"},
        "separator": {"metavar": "TEXT|none"},
        "workers": {"option": "--threads"},
    },
    but=("name", "paths", "alias"),
)
@click.option(
    "--fail-on-drift",
    is_flag=True,
    help="Exit with 3 on drift; otherwise with 4 if a rule cannot be judged, or if promotion rules "
    "refused a training on that text.",
)
def drift(
    reference: str | None, paths: tuple[str, ...], as_json: bool, fail_on_drift: bool, **given: Any
) -> None:
    """Measure how far new text in PATHS has drifted from a version.

    Without NAME@ALIAS, the champion of the project in bpeline.toml is compared with the text of its
    [drift] table or else its corpus. With the project's name, PATHS replace only these files.

    Compares bytes per token, words split into many tokens, the word distribution and new frequent
    words, each with a confidence interval. Rules decide: drifted, not drifted, or not judged (too
    little text). Each call is recorded in MLflow; its word counts are cached.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.watch_drift import watch_drift

    name, _, alias = (reference or "").partition("@")
    if "/" in name or (not alias and "@" in (reference or "")):
        raise InvalidOption(
            f"{reference!r} is not an alias",
            "expected NAME@ALIAS, or NAME for its champion",
            "type `bpeline drift news@champion new/*.txt`",
        )
    if project := project_for(reference, needed=reference is None):
        typed = {key: v for key, v in {**given, "paths": paths}.items() if v not in (None, ())}
        replaced = {"paths": (), "sources": ()} if paths or given["sources"] else project.watched
        given = {**given, **project.drift, **replaced, **typed}
        paths, default_alias, _ = (given.pop(key, None) for key in ("paths", "alias", "name"))
        if reference is None:
            name, alias = project.name, default_alias or ""
    home = str(addresses().home.absolute())
    read = with_standard_input(paths, None)
    with progress.listening(progress.for_stream(sys.stderr)):
        report = watch_drift.fn(name, read, alias or None, workspace=home, **given)
    lines = ["", *map(as_typed, report.lines())]
    if report.link:
        lines[-1] = reached(lines[-1])
    answer(as_json, report.as_dict(), lines)
    if fail_on_drift and (code := EXIT_CODES["not judged" if report.stuck else report.outcome]):
        raise SystemExit(code)


@command(
    "bpeline gc --dry-run",
    "bpeline gc --yes",
    "bpeline gc --days 7 --counts-of 3     # also word counts of old versions",
)
@options_of(GarbageRequest, {"counts_of": {"metavar": "N"}}, but=("remove",))
@dry_run_option
@yes_option
def gc(dry_run: bool, yes: bool, as_json: bool, **given: Any) -> None:
    """Remove files that no version needs, after confirmation.

    Keeps registered versions, their word counts, unfinished runs and waiting publications.
    Everything else can be created again from the sources.
    """
    from bpeline.flows.collect_garbage import collect_garbage

    require_answer(dry_run or yes, as_json)
    garbage = collect_garbage.fn(remove=yes and not dry_run, **given)
    if garbage.old and not (dry_run or yes):
        for line in _garbage_lines(garbage, removed=False):
            click.echo(line)
        click.confirm("\nRemove these files?", abort=True)
        garbage = collect_garbage.fn(remove=True, **given)
    lines = _garbage_lines(garbage, removed=not dry_run)
    if garbage.old and dry_run:
        lines.append(as_typed(f"\nremove it:  {typed_again('--yes')}"))
    old, young = (list(map(_as_json, leftovers)) for leftovers in (garbage.old, garbage.young))
    result = {"removed": not dry_run, "old": old, "young": young, "unsure": garbage.unsure}
    answer(as_json, result, lines)


def _garbage_lines(found: CollectedGarbage, removed: bool) -> list[str]:
    from bpeline.flows.collect_garbage import KINDS

    lines = []
    for kind, name in KINDS.items():
        leftovers = [leftover for leftover in found.old if leftover.kind == kind]
        if leftovers:
            lines.append(f"{_megabytes(leftovers)}  {len(leftovers):,} {name}")
    if found.unsure:
        lines.append(found.unsure)
    lines.append(f"{_megabytes(found.old)}  {'removed' if removed else 'can be removed'}")
    if found.young:
        lines.append(f"{_megabytes(found.young)}  younger than {found.days:g} days, kept")
    return lines


def _megabytes(ones: Sequence[Leftover]) -> str:
    from bpeline.flows.wording import megabytes

    return f"{megabytes(sum(leftover.size for leftover in ones)):>12}"


def _as_json(one: Leftover) -> dict[str, Any]:
    return {"kind": one.kind, "key": one.key, "bytes": one.size, "days": round(one.days, 2)}
