"""Moving aliases: promotion, rollback, and the history of both. Judges no version."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.gates import Rule, Verdict, every_rule, judge, require
from bpeline.registry.loading import ResolvedVersion, resolve
from bpeline.registry.measured import evidence_for
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.references import (
    ByAlias,
    ByNumber,
    parse_registered,
    validate_alias,
    validate_name,
)
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    PromotionRefused,
    RegistryError,
    UnknownVersion,
)

if TYPE_CHECKING:
    from bpeline.registry.catalogue import AliasMove
    from bpeline.registry.workspace import Workspace

    WorkspacePlace = Workspace | Path | str | None


PROMOTION = "promotion"  # the tag that tells what rules said


@dataclass(frozen=True, slots=True)
class AliasChange:
    """An alias was moved, or stayed where it was.

    Attributes:
        name, alias: which one.
        before: the number of the version it pointed to; None for nowhere.
        version: the one it points to now.
        verdicts: what the rules said, when there were any.
    """

    name: str
    alias: str
    before: int | None
    version: ResolvedVersion
    verdicts: tuple[Verdict, ...] = ()

    @property
    def number(self) -> int:
        """Of the version it points to now."""
        return self.version.number


def promote(
    reference: str,
    alias: str = "champion",
    by: str = "",
    reason: str = "",
    workspace: WorkspacePlace = None,
    *,
    rules: Sequence[Rule] = (),
) -> AliasChange:
    """Let an alias point to a version: in MLflow first, then in the catalogue's history.

    Args:
        reference: the version (``news@candidate``, ``news/3``, a digest).
        alias: the alias to move.
        by: who decided, for the history.
        reason: why, for the history.
        workspace: see :func:`registry.load_tokenizer`.
        rules: what must hold between the version and the one the alias points to now; see
            `registry.gates`. A version that has none before it must only keep to limits. What is
            known of both is told by `registry.measured.evidence_for`.

    Raises:
        UnknownVersion: there is no such version.
        PromotionRefused: a rule is broken; nothing was moved. The refusal stands in the alias's
            history and on the version in MLflow.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    validate_alias(alias)
    registry = open_registry(workspace)
    version = resolve(registry, parse_registered(reference))
    verdicts: tuple[Verdict, ...] = ()
    if rules:
        present = present_version(registry, version.name, alias)
        verdicts = judge(rules, evidence_for(registry, version, present))
        try:
            require(verdicts, f"{version.name}@{alias} cannot move to {version}")
        except PromotionRefused:
            _remember_refusal(registry, alias, version, by, verdicts)
            raise
    change = _point(registry, alias, version, by, reason)
    if rules:
        passed = f"{alias}: {every_rule(verdicts)} held"
        registry.tracker.tag_version(version.name, version.mlflow_number, {PROMOTION: passed})
    return replace(change, verdicts=verdicts)


def rollback(
    name: str,
    alias: str = "champion",
    by: str = "",
    reason: str = "",
    workspace: WorkspacePlace = None,
) -> AliasChange:
    """Let an alias point where it pointed before its last promotion; repeated, one further back.

    Args:
        name: the tokenizer's name.
        alias, by, reason, workspace: as for `promote`.

    Raises:
        UnknownVersion: no such alias, or it was not promoted before.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    validate_name(name)
    validate_alias(alias)
    registry = open_registry(workspace)
    # Asking for it also writes into the history what people moved in MLflow's own UI.
    resolve(registry, ByAlias(name, alias))
    places = _promotions(registry.catalogue.alias_history(name, alias))
    if len(places) < 2:
        raise UnknownVersion(
            f"{name}@{alias} has no earlier version to go back to",
            "accepted are aliases that were promoted more than once",
            f"type `bpeline history {name}` to see it, or `bpeline promote` to move the alias",
        )
    return _point(registry, alias, resolve(registry, ByNumber(name, places[-2])), by, reason)


def alias_history(
    name: str, alias: str | None = None, workspace: WorkspacePlace = None
) -> list[AliasMove]:
    """The moves of one alias, or of all of a name, newest first.

    Raises:
        UnknownVersion: no alias of that name was ever moved.
    """
    validate_name(name)
    moves = open_registry(workspace).catalogue.alias_history(name, alias)
    if not moves:
        what = name if alias is None else f"{name}@{alias}"
        raise UnknownVersion(
            f"{what} has no history",
            "accepted are names with an alias that was moved",
            "type `bpeline versions` to see what is registered",
        )
    return moves


def _point(
    registry: Registry, alias: str, version: ResolvedVersion, by: str, reason: str
) -> AliasChange:
    if not version.mlflow_number:
        raise InvalidOption(
            f"{version} is not registered in MLflow",
            "accepted are published versions",
            "type `bpeline resume` to publish what is waiting",
        )
    registry.tracker.move_alias(version.name, alias, version.mlflow_number)
    row = registry.catalogue.add_version(
        version.name,
        version.digest,
        number=version.number,
        mlflow_run_id=version.mlflow_run_id,
        mlflow_version=str(version.mlflow_number),
    )
    move = registry.catalogue.set_alias(version.name, alias, row.number, by=by, reason=reason)
    return AliasChange(version.name, alias, move.from_number, version)


def present_version(registry: Registry, name: str, alias: str) -> ResolvedVersion | None:
    """The version that an alias points to; None when it points nowhere yet.

    Raises:
        RegistryUnreachable: MLflow does not answer and the catalogue does not know.
    """
    try:
        return resolve(registry, ByAlias(name, alias))
    except UnknownVersion:
        return None


def _remember_refusal(
    registry: Registry,
    alias: str,
    version: ResolvedVersion,
    by: str,
    verdicts: Sequence[Verdict],
) -> None:
    broken = "; ".join(str(one) for one in verdicts if not one.holds)
    reason = f"refused {version}: {broken}"
    registry.catalogue.keep_refusal(version.name, alias, by=by, reason=reason)
    # The tag is a courtesy to who looks at MLflow; the refusal stands without it.
    with suppress(RegistryError):
        tags = {PROMOTION: f"{alias} refused: {broken}"}
        registry.tracker.tag_version(version.name, version.mlflow_number, tags)


def _promotions(history: list[AliasMove]) -> list[int]:
    """The versions an alias was promoted to, without those it was taken back from."""
    places: list[int] = []
    for move in reversed(history):  # oldest first
        if move.to_number is None:
            continue
        if len(places) > 1 and places[-2] == move.to_number:
            places.pop()
        elif not places or places[-1] != move.to_number:
            places.append(move.to_number)
    return places
