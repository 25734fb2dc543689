"""Promotion of versions under rules, rollback, and the history of both."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.aliases.moves import (
    AliasMovedMeanwhile,
    last_standing,
    look_at,
    move_alias,
    require_unlocked,
)
from bpeline.registry.aliases.refusals import remember_refusal
from bpeline.registry.catalogue import AliasMove, MoveKind, utc_now
from bpeline.registry.evaluation import (
    Rules,
    Verdict,
    best_measured,
    changed_meaning,
    every_rule,
    evidence_for,
    judge,
    require,
    require_gain,
)
from bpeline.registry.loading import ResolvedVersion, load_version, require_certified, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import (
    CHAMPION,
    ByNumber,
    parse_registered,
    validate_alias,
    validate_name,
)
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import (
    BpelineError,
    NothingGained,
    PromotionRefused,
    RegistryError,
    UnknownVersion,
)

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace


PROMOTION = "promotion"  # tag with the verdict of the rules
_ATTEMPTS = 3  # to judge again when another client moves the alias meanwhile


@dataclass(frozen=True, slots=True)
class AliasChange:
    """The result of a promotion or rollback.

    Attributes:
        before: number of the version it pointed to; None for no version.
        version: the version it points to now.
        against: the version that the rules compared with; empty for none.
        gained: the tokens saved, as text; empty if no gain was required.
        new_text: the change of tokens on new text of its training, as text; empty if there was
            none.
        changed_ids: number of ids whose token changed; None if not known.
        seen: a move made in MLflow itself, noticed by this call.
    """

    name: str
    alias: str
    before: int | None
    version: ResolvedVersion
    verdicts: tuple[Verdict, ...] = ()
    against: str = ""
    gained: str = ""
    new_text: str = ""
    changed_ids: int | None = None
    seen: AliasMove | None = None
    locked: bool = False

    @property
    def number(self) -> int:
        return self.version.number


def promote(
    reference: str,
    alias: str = CHAMPION,
    by: str = "",
    reason: str = "",
    workspace: Registry | Workspace | Path | str | None = None,
    *,
    rules: Rules | None = None,
    lock: bool = False,
    force: bool = False,
) -> AliasChange:
    """Point an alias to a version if the rules allow it.

    Args:
        reference: the version (``news@candidate``, ``news/3``, a digest).
        alias: the alias to move.
        by: who decided, for the history.
        reason: for the history.
        workspace: see :func:`registry.load_tokenizer`.
        rules: conditions on the new version against the current one, and the required gain; see
            `registry.evaluation.gates`. If the alias points to no version, the comparison is with
            the best measured version of the name, without a gain; else only limits apply.
        lock: lock the alias: later moves need ``force``.
        force: move a locked alias and unlock it, unless ``lock`` is set. Also accept a version that
            lacks special tokens of the current one.

    Raises:
        UnknownVersion: there is no such version.
        PromotionRefused: a rule is broken, or a special token of the current version is missing.
            Nothing was moved; the refusal is recorded in the history and in MLflow.
        PromotionNotJudged: no rule is broken, but one could not be judged; recorded likewise.
        NothingGained: no rule is broken, but too few tokens are saved; recorded likewise.
        AliasLocked: the alias is locked; recorded likewise.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    for name, value in (("by", by), ("reason", reason)):
        checks.text(name, value)
    if rules is not None:
        checks.instance("rules", rules, Rules)
    lock, force = checks.flag("lock", lock), checks.flag("force", force)
    validate_alias(alias)
    parsed = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parsed)
    with registry.catalogue.moving():
        _, seen = look_at(registry, version.name, alias)
    for attempt in range(1, _ATTEMPTS + 1):
        present = present_version(registry, version.name, alias)
        before = None if present is None else present.number
        change = AliasChange(version.name, alias, before, version, locked=lock, seen=seen)
        try:
            if not force and before != version.number:
                require_unlocked(registry, version.name, alias)
                if rules is not None and present is not None:
                    _require_special_tokens(registry, change, present)
            if rules is not None:
                change = _judged(registry, change, present, rules)
        except PromotionRefused as error:
            _remember_refusal(registry, change, by, error)
            if present is not None and rules is not None:
                with suppress(RegistryError):  # optional, like the tag of the refusal
                    remember_refusal(registry, version, alias, present, rules)
            raise
        try:
            _move(
                registry, alias, version, "promote", by, reason, before,
                lock=lock or (False if force else None), force=force,
            )  # fmt: skip
        except AliasMovedMeanwhile:  # rules judge again; a plain move fails
            if rules is None or attempt == _ATTEMPTS:
                raise
        else:
            break
    if rules is not None:
        summary = f"{alias}: {every_rule(change.verdicts)} held"
        with suppress(RegistryError):  # only informs users of MLflow
            registry.tracker.tag_version(version.name, version.number, {PROMOTION: summary})
    return _with_changed_ids(registry, change, present)


def _judged(
    registry: Registry, change: AliasChange, present: ResolvedVersion | None, rules: Rules
) -> AliasChange:
    version = change.version
    against = present or best_measured(registry, version)
    headline = _what(change)
    if present is None and against is not None:
        headline += f", judged against {against}, the best of its name: the alias points nowhere"
    replaces = present is not None
    evidence = evidence_for(registry, version, against, rules.rules, replaces=replaces)
    verdicts, gained = judge(rules.rules, *evidence), ""
    new_text = evidence[0].on_new_text
    require(verdicts, headline, new_text)
    if rules.gain and present is not None and present.number != version.number:
        gained = require_gain(rules.gain, evidence[0], headline)
    if rules.certified:
        directory = registry.workspace.version_directory(version.digest)
        require_certified(directory, str(version), headline)
    return replace(
        change, verdicts=verdicts, gained=gained, new_text=new_text,
        against="" if against is None else str(against),
    )  # fmt: skip


def _require_special_tokens(
    registry: Registry, change: AliasChange, present: ResolvedVersion
) -> None:
    version = change.version
    before, after = (load_version(registry, side).special_tokens for side in (present, version))
    if missing := [token for token in before if token not in after]:
        raise PromotionRefused(
            f"{_what(change)}: it lacks special tokens of {present}: "
            + ", ".join(map(repr, missing)),
            f"expected a version with all special tokens of {present}, or `--force`",
            f"train with them, or type `bpeline promote {version} --to {change.alias} --force`",
        )


def _what(change: AliasChange) -> str:
    return f"{change.name}@{change.alias} cannot move to {change.version}"


def _with_changed_ids(
    registry: Registry, change: AliasChange, before: ResolvedVersion | None
) -> AliasChange:
    if before is None or before.number == change.number:
        return change
    with suppress(BpelineError):  # the promotion stands even if a version cannot be loaded
        return replace(change, changed_ids=changed_meaning(registry, change.version, before))
    return change


def rollback(
    name: str,
    alias: str = CHAMPION,
    by: str = "",
    reason: str = "",
    workspace: Registry | Workspace | Path | str | None = None,
    *,
    force: bool = False,
) -> AliasChange:
    """Move an alias back to the version before its last promotion.

    Repeated calls go further back; arguments are those of `promote`.

    Raises:
        AliasLocked: the alias is locked.
        UnknownVersion: no such alias, no earlier version, or the earlier version is gone.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    for written, value in (("by", by), ("reason", reason)):
        checks.text(written, value)
    force = checks.flag("force", force)
    validate_name(name)
    validate_alias(alias)
    registry = open_registry(workspace, make=False)
    with registry.catalogue.moving():  # a move made in MLflow itself can be undone, too
        present, seen = look_at(registry, name, alias)
    replaced = None if present is None else ResolvedVersion.of(present)
    undone = last_standing(registry.catalogue.alias_history(name, alias, registry.store))
    if undone is None or undone.from_number is None:
        raise UnknownVersion(
            f"{name}@{alias} has no earlier version to go back to",
            "expected an alias that was moved from one version to another",
            f"type `bpeline show {name}` to see it, or `bpeline promote` to move the alias",
        )
    version = _version_before(registry, undone)
    _move(
        registry, alias, version, "rollback", by, reason, undone.to_number,
        lock=False if force else None, force=force,
    )  # fmt: skip
    change = AliasChange(name, alias, undone.to_number, version, seen=seen)
    return _with_changed_ids(registry, change, replaced)


def _version_before(registry: Registry, move: AliasMove) -> ResolvedVersion:
    """The version before a move, found by digest: its number may be reused."""
    name, number = move.name, move.from_number
    assert number is not None
    if move.from_digest:
        same = registry.tracker.find_versions(name, move.from_digest)
        if same:
            return ResolvedVersion.of(same[0])
        was = f"was the tokenizer {move.from_digest[:12]}, which is not there any more"
    else:
        version = resolve(registry, ByNumber(name, number))
        tracked = registry.tracker.version(name, number)
        moved = datetime.fromisoformat(move.at.removesuffix("Z")).replace(tzinfo=UTC)
        if tracked is not None and tracked.created_ms <= 1_000 * (moved.timestamp() + 1):
            return version
        was = f"was registered after {name}@{move.alias} had been moved away from that number"
    raise UnknownVersion(
        f"{name}@{move.alias} cannot go back: {name}/{number} in MLflow at "
        f"{registry.tracker.settings.place} {was}",
        "expected the tokenizer that it pointed to before",
        f"type `bpeline versions {name}` to see what exists, and `bpeline promote` to move it",
    )


def alias_history(
    name: str, alias: str | None = None, workspace: Workspace | Path | str | None = None
) -> list[AliasMove]:
    """Return the moves of one alias, or of all aliases of a name, newest first.

    Raises:
        UnknownVersion: no such alias was ever moved.
    """
    if alias is not None:
        validate_alias(alias)
    validate_name(name)
    moves = open_registry(workspace, make=False).catalogue.alias_history(name, alias)
    if not moves:
        subject = name if alias is None else f"{name}@{alias}"
        raise UnknownVersion(
            f"{subject} has no history",
            "expected a name with an alias that was moved",
            "type `bpeline versions` to see what is registered",
        )
    return moves


def _move(
    registry: Registry,
    alias: str,
    version: ResolvedVersion,
    kind: MoveKind,
    by: str,
    reason: str,
    expected: int | None,
    *,
    lock: bool | None,
    force: bool,
) -> None:
    if not version.number:
        raise UnknownVersion(
            f"{version} is not registered in MLflow at {registry.tracker.settings.place}",
            "expected a published version",
            "type `bpeline resume` to publish waiting versions",
        )
    move_alias(
        registry, version.name, alias, version.number, version.digest,
        kind=kind, by=by, reason=reason, expected=expected, lock=lock, force=force,
    )  # fmt: skip


def present_version(registry: Registry, name: str, alias: str) -> ResolvedVersion | None:
    """Return the version an alias points to in MLflow; None if it points to none."""
    _ = registry.store  # raises if it is another MLflow; no identity is fine
    tracked = registry.tracker.version_of_alias(name, alias)
    return None if tracked is None else ResolvedVersion.of(tracked)


def _remember_refusal(
    registry: Registry, change: AliasChange, by: str, error: PromotionRefused
) -> None:
    name, alias, version = change.name, change.alias, change.version
    why = error.happened.removeprefix(_what(change)).lstrip(":, ")
    word = "kept instead of" if isinstance(error, NothingGained) else "refused"
    reason = f"{word} {version}: {why}"
    move = AliasMove(
        name, alias, change.before, change.before, by, reason, utc_now(), "refusal", registry.store
    )
    last = registry.catalogue.alias_history(name, alias, registry.store)[:1]
    if [(entry.kind, entry.reason) for entry in last] != [(move.kind, move.reason)]:
        registry.catalogue.add_move(move)
    # The tag only informs users of MLflow; the history has the refusal.
    with suppress(RegistryError):
        tags = {PROMOTION: f"{alias} {word.partition(' ')[0]}: {why}"}
        registry.tracker.tag_version(name, version.number, tags)
