"""``bpeline promote``, ``bpeline rollback`` and the history of aliases."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import FILE, answer, command, project_option
from bpeline.registry.environment import this_user
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tables import Table

if TYPE_CHECKING:
    from bpeline.registry.aliases import AliasChange
    from bpeline.registry.catalogue import AliasMove
    from bpeline.registry.evaluation import Verdict
    from bpeline.registry.opening import Registry
    from bpeline.registry.records import Tombstone

reason_option = click.option(
    "--reason", default="", show_default=False, help="Reason, recorded in the history."
)
by_option = click.option(
    "--by", default="", show_default=False, help="Name to record.  [default: your user name]"
)


@command(
    'bpeline promote news@candidate --reason "2 % fewer tokens on German"',
    "bpeline promote news/7 --to staging",
    "bpeline promote news@candidate --rules promotion.toml",
    'bpeline promote news@champion --lock --reason "model 7 learns with it"',
)
@click.argument("reference", metavar="REF")
@click.option("--to", "alias", default=CHAMPION, help="Alias to move.")
@click.option(
    "--rules",
    "rules_file",
    type=FILE,
    help="Promotion rules (.toml), checked against the version that the alias points to.  "
    "[default: those in bpeline.toml, for versions with the project's name]",
)
@click.option("--no-rules", is_flag=True, help="Skip the rules in bpeline.toml.")
@click.option("--lock", is_flag=True, help="Lock the alias: later moves need --force.")
@click.option(
    "--force",
    is_flag=True,
    help="Move a locked alias and unlock it. With rules, also allow a version that lacks special "
    "tokens of the current one.",
)
@project_option
@reason_option
@by_option
def promote(
    reference: str, alias: str, rules_file: Path | None, no_rules: bool, lock: bool, force: bool,
    reason: str, by: str, as_json: bool,
) -> None:  # fmt: skip
    """Move an alias to a version.

    REF is name@alias, name/number or a digest. Programs that load NAME@champion then get it.

    \b
    Promotion rules say what must improve, and how much worse a metric may get:
      gain = 0.01
      [[rule]]
      metric = "compression/bytes_per_token"
      direction = "higher"
      tolerance = 0.005

    Both versions are measured on the evaluation set of their name. If the alias points nowhere,
    the best other version measured on the set is used. A single version is only checked against
    limits (limit = 3.5). A refusal is recorded in the history and in MLflow. Exit codes: 3 if a
    rule fails, 4 if one could not be judged.
    """
    from bpeline.flows.publishing import promote as promote_version
    from bpeline.registry.evaluation import read_rules
    from bpeline.registry.opening import open_registry

    if rules_file and no_rules:
        raise InvalidOption(
            "--rules was given together with --no-rules",
            "expected one of them",
            "leave one of them out",
        )
    rules_file = rules_file or (None if no_rules else _rules_of_project(reference))
    promotion_rules = read_rules(rules_file) if rules_file else None
    registry = open_registry(make=False)
    change = promote_version(
        reference,
        alias,
        by or this_user(),
        reason,
        _note,
        registry,
        rules=promotion_rules,
        lock=lock,
        force=force,
    )
    _say(change, registry, as_json)


def _rules_of_project(reference: str) -> Path | None:
    """The promotion rules of the project, if the version has its name."""
    from bpeline.flows.requests import find_project, read_project

    path = find_project()
    if path is None:
        return None
    project = read_project(path)
    rules = project.parameters.get("rules")
    if rules is None or re.split("[@/]", reference)[0] != project.name:
        return None
    click.echo(f"note: promotion rules from {rules}", err=True)
    return Path(rules)


@command(
    'bpeline rollback news --reason "numbers split badly"', "bpeline rollback news --alias staging"
)
@click.argument("name")
@click.option("--alias", default=CHAMPION, help="Alias to move back.")
@click.option("--force", is_flag=True, help="Move a locked alias and unlock it.")
@reason_option
@by_option
def rollback(name: str, alias: str, force: bool, reason: str, by: str, as_json: bool) -> None:
    """Move an alias back to its previous version. Each call goes one promotion further back."""
    from bpeline.flows.publishing import rollback as roll_back
    from bpeline.registry.opening import open_registry

    registry = open_registry(make=False)
    user, reason_text = by or this_user(), reason or "rollback"
    change = roll_back(name, alias, user, reason_text, _note, registry, force=force)
    _say(change, registry, as_json)


def show_history(name: str, alias: str | None, as_json: bool) -> None:
    """Print the alias moves of a name, newest first; without ``alias`` also deleted versions."""
    from bpeline.registry.aliases import alias_history
    from bpeline.registry.versions import deleted_versions

    moves = alias_history(name, alias)
    deleted = [] if alias else deleted_versions(name)
    entries = [(move.at, move.as_values(), _move_row(name, move)) for move in moves]
    entries += [
        (entry.at, {**asdict(entry), "kind": "delete"}, _deletion_row(entry)) for entry in deleted
    ]
    entries.sort(
        key=lambda entry: entry[0], reverse=True
    )  # stable: moves of one second keep their order
    table = Table((), [row for _, _, row in entries], left=range(5))
    answer(as_json, [values for _, values, _ in entries], table.lines())


def _move_row(name: str, move: AliasMove) -> tuple[str, ...]:
    before, after = (
        "nowhere" if number is None else f"{name}/{number}"
        for number in (move.from_number, move.to_number)
    )
    places = f"stays {after}" if before == after else f"{before} → {after}"
    when = move.at[:16].replace("T", " ")
    return when, move.alias, places, move.by, move.reason


def _deletion_row(one: Tombstone) -> tuple[str, ...]:
    when, place = one.at[:16].replace("T", " "), f"{one.reference} was deleted"
    return when, "", place, one.by, one.reason


def _say(change: AliasChange, registry: Registry, as_json: bool) -> None:
    from bpeline.flows.publishing import remarks_on
    from bpeline.registry.loading import uncertified

    version, target = change.version, f"{change.name}@{change.alias}"
    advice = uncertified(registry.workspace.version_directory(version.digest), str(version))
    if change.before == change.number:
        line = f"{target} already points to {version}"
    else:
        before = "" if change.before is None else f" (before: {change.name}/{change.before})"
        line = f"{target} points to {version} now{before}"
    locked = [f"locked: moving {target} now needs --force"] * change.locked
    details = [*map(str, change.verdicts), *remarks_on(change), *locked]
    answer(as_json, {
        "name": change.name, "alias": change.alias, "from": change.before, "to": change.number,
        "digest": version.digest, "rules": [_rule(row) for row in change.verdicts],
        "against": change.against, "gained": change.gained, "new_text": change.new_text,
        "changed_ids": change.changed_ids, "locked": change.locked, "uncertified": advice,
    }, [line, *(f"  {row}" for row in details), *filter(None, [advice])])  # fmt: skip


def _rule(verdict: Verdict) -> dict[str, Any]:
    return {
        "metric": verdict.rule.metric, "slice": verdict.rule.slice, "value": verdict.value,
        "before": verdict.before, "said": verdict.said,
    }  # fmt: skip


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
