"""Moving aliases: promotion, if the rules let it, rollback, and the history of both."""

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


PROMOTION = "promotion"  # the tag that tells what rules said
_ATTEMPTS = 3  # at judging anew, when others move the alias meanwhile


@dataclass(frozen=True, slots=True)
class AliasChange:
    """An alias was moved, or stayed where it was.

    Attributes:
        name, alias: which one.
        before: the number of the version it pointed to; None for nowhere.
        version: the one it points to now.
        verdicts: what the rules said, when there were any.
        against: which version they compared it with; empty for none.
        gained: how many tokens it saves, for people; empty where no gain was asked for.
        new_text: how many tokens more or fewer it takes of text that its training brought, for
            people; empty where there was none.
        changed_ids: how many ids of the version before are another token now, or none; None where
            that is not known.
        seen: a move made in MLflow itself that was noticed now.
        locked: whether it was locked there.
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
        """Of the version it points to now."""
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
    """Let an alias point to a version: in MLflow first, then in the catalogue's history.

    Args:
        reference: the version (``news@candidate``, ``news/3``, a digest).
        alias: the alias to move.
        by: who decided, for the history.
        reason: why, for the history.
        workspace: see :func:`registry.load_tokenizer`.
        rules: what must hold between the version and the one the alias points to now, and what
            must be gained; see `registry.gates`. Where the alias points nowhere, the rules compare
            with the best measured version of the name, and ask for no gain; without one, only
            limits bind.
        lock: whether the alias is locked then: later moves need ``force``.
        force: whether to move an alias that is locked; it is not locked then, unless ``lock``.
            Then rules also accept a version that lacks special tokens of the present one.

    Raises:
        UnknownVersion: there is no such version.
        PromotionRefused: a rule is broken, or a special token of the present version is missing;
            nothing was moved. The refusal stands in the alias's history and on the version in
            MLflow.
        PromotionNotJudged: no rule is broken, but one could not be judged; likewise.
        NothingGained: no rule is broken, and too few tokens are saved; likewise.
        AliasLocked: the alias is locked; likewise.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    for name, value in (("by", by), ("reason", reason)):
        checks.text(name, value)
    if rules is not None:
        checks.instance("rules", rules, Rules)
    lock, force = checks.flag("lock", lock), checks.flag("force", force)
    validate_alias(alias)
    asked = parse_registered(reference)
    registry = open_registry(workspace, make=False)
    version = resolve(registry, asked)
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
                with suppress(RegistryError):  # a courtesy, as the tag of the refusal
                    remember_refusal(registry, version, alias, present, rules)
            raise
        try:
            _move(
                registry, alias, version, "promote", by, reason, before,
                lock=lock or (False if force else None), force=force,
            )  # fmt: skip
        except AliasMovedMeanwhile:  # whoever judged judges again; who decided is told
            if rules is None or attempt == _ATTEMPTS:
                raise
        else:
            break
    if rules is not None:
        passed = f"{alias}: {every_rule(change.verdicts)} held"
        with suppress(RegistryError):  # a courtesy to who looks at MLflow
            registry.tracker.tag_version(version.name, version.number, {PROMOTION: passed})
    return _with_changed_ids(registry, change, present)


def _judged(
    registry: Registry, change: AliasChange, present: ResolvedVersion | None, rules: Rules
) -> AliasChange:
    """A move that the rules allow, with what they said.

    Raises:
        PromotionRefused, PromotionNotJudged, NothingGained: it must not be made.
    """
    version = change.version
    against = present or best_measured(registry, version)
    what = _what(change)
    if present is None and against is not None:
        what += f", judged against {against}, the best of its name, as the alias points nowhere"
    replaces = present is not None
    evidence = evidence_for(registry, version, against, rules.rules, replaces=replaces)
    verdicts, gained = judge(rules.rules, *evidence), ""
    new_text = evidence[0].on_new_text
    require(verdicts, what, new_text)
    if rules.gain and present is not None and present.number != version.number:
        gained = require_gain(rules.gain, evidence[0], what)
    if rules.certified:
        directory = registry.workspace.version_directory(version.digest)
        require_certified(directory, str(version), what)
    return replace(
        change, verdicts=verdicts, gained=gained, new_text=new_text,
        against="" if against is None else str(against),
    )  # fmt: skip


def _require_special_tokens(
    registry: Registry, change: AliasChange, present: ResolvedVersion
) -> None:
    """Refuse a version without a special token of the one that it would replace."""
    version = change.version
    before, after = (load_version(registry, one).special_tokens for one in (present, version))
    if missing := [token for token in before if token not in after]:
        raise PromotionRefused(
            f"{_what(change)}: it lacks special tokens of {present}: "
            + ", ".join(map(repr, missing)),
            f"a version with all special tokens of {present}, or `--force`",
            f"train with them, or type `bpeline promote {version} --to {change.alias} --force`",
        )


def _what(change: AliasChange) -> str:
    return f"{change.name}@{change.alias} cannot move to {change.version}"


def _with_changed_ids(
    registry: Registry, change: AliasChange, before: ResolvedVersion | None
) -> AliasChange:
    """With the number of ids whose meaning changed, where both versions can be loaded."""
    if before is None or before.number == change.number:
        return change
    with suppress(BpelineError):  # what cannot be loaded here was promoted all the same
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
    """Let an alias point where it pointed before its last promotion; repeated, one further back.

    Args:
        name: the tokenizer's name.
        alias, by, reason, workspace, force: as for `promote`.

    Raises:
        AliasLocked: the alias is locked.
        UnknownVersion: no such alias, it was not promoted before, or what it pointed to is gone.
        RegistryUnreachable: MLflow does not answer; nothing was moved.
    """
    for written, value in (("by", by), ("reason", reason)):
        checks.text(written, value)
    force = checks.flag("force", force)
    validate_name(name)
    validate_alias(alias)
    registry = open_registry(workspace, make=False)
    with registry.catalogue.moving():  # what somebody moves in MLflow itself is undone, too
        present, seen = look_at(registry, name, alias)
    left = None if present is None else ResolvedVersion.of(present)
    undone = last_standing(registry.catalogue.alias_history(name, alias, registry.store))
    if undone is None or undone.from_number is None:
        raise UnknownVersion(
            f"{name}@{alias} has no earlier version to go back to",
            "accepted are aliases that were moved from one version to another",
            f"type `bpeline show {name}` to see it, or `bpeline promote` to move the alias",
        )
    version = _version_before(registry, undone)
    _move(
        registry, alias, version, "rollback", by, reason, undone.to_number,
        lock=False if force else None, force=force,
    )  # fmt: skip
    change = AliasChange(name, alias, undone.to_number, version, seen=seen)
    return _with_changed_ids(registry, change, left)


def _version_before(registry: Registry, move: AliasMove) -> ResolvedVersion:
    """The version that an alias pointed to before a move: its number may mean another one now.

    Raises:
        UnknownVersion: it is not there any more, or nothing proves which one it was.
    """
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
        "accepted is the tokenizer that it pointed to before",
        f"type `bpeline versions {name}` to see what is there, and `bpeline promote` to move it",
    )


def alias_history(
    name: str, alias: str | None = None, workspace: Workspace | Path | str | None = None
) -> list[AliasMove]:
    """The moves of one alias, or of all of a name, newest first.

    Raises:
        UnknownVersion: no alias of that name was ever moved.
    """
    if alias is not None:
        validate_alias(alias)
    validate_name(name)
    moves = open_registry(workspace, make=False).catalogue.alias_history(name, alias)
    if not moves:
        what = name if alias is None else f"{name}@{alias}"
        raise UnknownVersion(
            f"{what} has no history",
            "accepted are names with an alias that was moved",
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
            "accepted are published versions",
            "type `bpeline resume` to publish what is waiting",
        )
    move_alias(
        registry, version.name, alias, version.number, version.digest,
        kind=kind, by=by, reason=reason, expected=expected, lock=lock, force=force,
    )  # fmt: skip


def present_version(registry: Registry, name: str, alias: str) -> ResolvedVersion | None:
    """The version that MLflow says an alias points to; None when it points nowhere yet.

    Raises:
        RegistryUnreachable: MLflow does not answer.
        StorageError: another MLflow answers than the one that was there.
    """
    _ = registry.store  # one that has no identity yet may have versions of an earlier release
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
    if [(one.kind, one.reason) for one in last] != [(move.kind, move.reason)]:
        registry.catalogue.add_move(move)
    # The tag is a courtesy to who looks at MLflow; the refusal stands without it.
    with suppress(RegistryError):
        tags = {PROMOTION: f"{alias} {word.partition(' ')[0]}: {why}"}
        registry.tracker.tag_version(name, version.number, tags)
