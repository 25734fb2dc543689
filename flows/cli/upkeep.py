"""Commands: doctor and delete."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

import click

from bpeline.flows.cli.aliases import by_option, reason_option
from bpeline.flows.cli.commands import (
    answer,
    command,
    dry_run_option,
    echo_json,
    require_answer,
    say_coloured,
    typed_again,
    yes_option,
)
from bpeline.flows.wording import as_typed
from bpeline.registry.environment import this_user
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bpeline.registry.opening import Registry
    from bpeline.registry.upkeep import DeletedVersion

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@command(
    "bpeline doctor",
    "bpeline doctor --json",
    "bpeline doctor --compile",
    "bpeline doctor --fix",
    "bpeline doctor --dismiss 4f1c09ab77d2",
)
@click.option(
    "--compile",
    "compile_first",
    is_flag=True,
    help="First compile all native code that is not compiled yet, so that no later command has to.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="First make good what is lost or disagrees: a catalogue is made anew from the files of "
    "versions, MLflow and the records of word counts; versions that MLflow lost, or that a shared "
    "store holds and nobody published, are registered; what MLflow says of a number is accepted.",
)
@click.option(
    "--dismiss",
    metavar="RUN",
    help="Only give up an unfinished run, named by the beginning of an id of `bpeline resume "
    "--list`: nothing continues or publishes it, and `bpeline gc` may remove its checkpoints.",
)
def doctor(compile_first: bool, fix: bool, dismiss: str | None, as_json: bool) -> None:
    """Look for what could go wrong: versions, kernels, workspace, servers, disk.

    Exit code 1 if something is broken.
    """
    if dismiss is not None:
        if fix or compile_first:
            raise InvalidOption(
                "--dismiss was given together with --fix or --compile",
                "expected one of them: --dismiss examines nothing",
                f"type `bpeline doctor --dismiss {dismiss}`",
            )
        _dismiss(dismiss, as_json)
        return
    from bpeline.flows.cli.diagnosis import compile_kernels, examine, fix_stores

    findings = []
    looks = [*[compile_kernels] * compile_first, *[fix_stores] * fix, examine]
    for finding in chain.from_iterable(look() for look in looks):  # one after the other
        findings.append(finding)
        if not as_json:
            say_coloured(f"{finding.state:<7}", COLOURS[finding.state])
            click.echo(f"{finding.subject:<16} {finding.found}")
            if finding.advice:
                click.echo(f"{'':<24}{finding.advice}")
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    if any(finding.state == "broken" for finding in findings):
        raise SystemExit(1)


@command(
    "bpeline delete news/3 --dry-run         # what would go, and what stays",
    'bpeline delete news/3 --reason "holds addresses"',
    "bpeline delete news --yes               # all versions",
    "bpeline delete news@staging             # the alias, no version",
)
@click.argument("reference", metavar="REF")
@dry_run_option
@yes_option
@reason_option
@by_option
def delete(reference: str, dry_run: bool, yes: bool, reason: str, by: str, as_json: bool) -> None:
    """Delete a version everywhere: MLflow, files, catalogue, shared copies. Asks first.

    REF is name/number, a name for all of its versions, or name@alias for the alias alone. A version
    that an alias points to is refused. Who deleted it, when and why stays in the history, and the
    number is never used again. After an interruption, type the same command or `bpeline resume`.
    """
    from bpeline.flows.pages import show_name_page
    from bpeline.registry.aliases import remove_alias
    from bpeline.registry.opening import open_registry
    from bpeline.registry.records import ByAlias
    from bpeline.registry.upkeep import (
        delete_versions,
        find_deletable,
        parse_deletable,
        stays_after_deletion,
    )

    wanted, who = parse_deletable(reference), by or this_user()
    registry = open_registry(make=False)
    require_answer(dry_run or yes, as_json)
    again = as_typed(f"\ndo it:  {typed_again('--yes')}")
    if isinstance(wanted, ByAlias):
        line = f"{wanted} would be removed; the version it points to stays"
        if dry_run:
            answer(as_json, {"removed": False, "alias": str(wanted)}, [line, again])
            return
        if not yes:
            click.echo(line)
            click.confirm("Remove it?", abort=True)
        move = remove_alias(registry, wanted.name, wanted.alias, by=who, reason=reason)
        before = "" if move.from_number is None else f" (before: {move.name}/{move.from_number})"
        show_name_page(registry, wanted.name)
        told = {"removed": True, "alias": str(wanted), "from": move.from_number}
        answer(as_json, told, [f"{wanted} points nowhere now{before}"])
        return
    if dry_run or not yes:
        found = find_deletable(registry, wanted)
    if not dry_run:
        if not yes:
            for line in _deletion_lines(registry, found, removed=False):
                click.echo(line)
            click.confirm("\nDelete this?", abort=True)
        found = delete_versions(registry, wanted, who, reason)
        show_name_page(registry, wanted if isinstance(wanted, str) else wanted.name)
    lines = _deletion_lines(registry, found, removed=not dry_run)
    told = {
        "removed": not dry_run,
        "versions": [asdict(one) for one in found],
        "stays": stays_after_deletion(registry),
    }
    answer(as_json, told, [*lines, *[again] * dry_run])


def _deletion_lines(
    registry: Registry, versions: Sequence[DeletedVersion], removed: bool
) -> list[str]:
    from bpeline.registry.upkeep import stays_after_deletion

    lines = []
    for one in versions:
        lines.append(f"{one.reference}  {one.digest[:12]}  {'deleted' if removed else 'could go'}")
        lines += [f"  {'went' if removed else 'goes'}:   {sentence}" for sentence in one.goes]
        lines += [f"  stays:  {sentence}" for sentence in one.stays]
    return lines + [as_typed(f"stays:    {one}") for one in stays_after_deletion(registry)]


def _dismiss(run: str, as_json: bool) -> None:
    from bpeline.registry.opening import open_registry
    from bpeline.registry.upkeep import dismiss

    done = dismiss(open_registry(make=False), run)
    answer(as_json, done.as_values(), [f"run {done.id} ({done.name}) is dismissed"])
