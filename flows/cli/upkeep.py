"""``bpeline doctor`` and ``bpeline delete``."""

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
    help="First compile all kernels, so that later commands start faster.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="First rebuild a lost catalogue, and register versions that MLflow lost or that were "
    "never published. If numbers disagree, MLflow's are used.",
)
@click.option(
    "--dismiss",
    metavar="RUN",
    help="Only discard an unfinished run: the start of an id from `bpeline resume --list`. Then "
    "`bpeline gc` may remove its checkpoints.",
)
def doctor(compile_first: bool, fix: bool, dismiss: str | None, as_json: bool) -> None:
    """Check package versions, kernels, workspace, servers and disk.

    Exit code 1 if something is broken.
    """
    if dismiss is not None:
        if fix or compile_first:
            raise InvalidOption(
                "--dismiss was given together with --fix or --compile",
                "expected one of them: --dismiss checks nothing",
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
    "bpeline delete news/3 --dry-run         # show what would be deleted",
    'bpeline delete news/3 --reason "holds addresses"',
    "bpeline delete news --yes               # all versions",
    "bpeline delete news@staging             # only the alias",
)
@click.argument("reference", metavar="REF")
@dry_run_option
@yes_option
@reason_option
@by_option
def delete(reference: str, dry_run: bool, yes: bool, reason: str, by: str, as_json: bool) -> None:
    """Delete a version everywhere, after confirmation.

    It is deleted from MLflow, files, catalogue and shared store. REF is name/number, a name for all
    of its versions, or name@alias for the alias only. A version with an alias cannot be deleted.
    The history records the deletion, and the number is not used again. After an interruption, run
    the same command or `bpeline resume`.
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

    target, user = parse_deletable(reference), by or this_user()
    registry = open_registry(make=False)
    require_answer(dry_run or yes, as_json)
    again = as_typed(f"\nto delete:  {typed_again('--yes')}")
    if isinstance(target, ByAlias):
        line = f"{target} would be removed; the version it points to stays"
        if dry_run:
            answer(as_json, {"removed": False, "alias": str(target)}, [line, again])
            return
        if not yes:
            click.echo(line)
            click.confirm("Remove it?", abort=True)
        move = remove_alias(registry, target.name, target.alias, by=user, reason=reason)
        before = "" if move.from_number is None else f" (before: {move.name}/{move.from_number})"
        show_name_page(registry, target.name)
        result = {"removed": True, "alias": str(target), "from": move.from_number}
        answer(as_json, result, [f"{target} was removed{before}"])
        return
    if dry_run or not yes:
        versions = find_deletable(registry, target)
    if not dry_run:
        if not yes:
            for line in _deletion_lines(registry, versions, removed=False):
                click.echo(line)
            click.confirm("\nDelete this?", abort=True)
        versions = delete_versions(registry, target, user, reason)
        show_name_page(registry, target if isinstance(target, str) else target.name)
    lines = _deletion_lines(registry, versions, removed=not dry_run)
    result = {
        "removed": not dry_run,
        "versions": [asdict(version) for version in versions],
        "stays": stays_after_deletion(registry),
    }
    answer(as_json, result, [*lines, *[again] * dry_run])


def _deletion_lines(
    registry: Registry, versions: Sequence[DeletedVersion], removed: bool
) -> list[str]:
    from bpeline.registry.upkeep import stays_after_deletion

    lines = []
    for item in versions:
        lines.append(
            f"{item.reference}  {item.digest[:12]}  {'deleted' if removed else 'to delete'}"
        )
        lines += [f"  {'went' if removed else 'goes'}:   {sentence}" for sentence in item.goes]
        lines += [f"  stays:  {sentence}" for sentence in item.stays]
    return lines + [as_typed(f"stays:    {item}") for item in stays_after_deletion(registry)]


def _dismiss(run: str, as_json: bool) -> None:
    from bpeline.registry.opening import open_registry
    from bpeline.registry.upkeep import dismiss

    dismissed = dismiss(open_registry(make=False), run)
    answer(as_json, dismissed.as_values(), [f"run {dismissed.id} ({dismissed.name}) is dismissed"])
