"""Move or remove an alias and record it in the alias's history.

MLflow decides where an alias points. The alias and its version's digest are read before and after
the write. A lock in the catalogue serializes moves. Two catalogues on one MLflow have no common
lock: a move that reads back another version than it wrote raises `AliasMovedMeanwhile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from bpeline.registry.catalogue import AliasMove, MoveKind, utc_now
from bpeline.registry.opening import Registry
from bpeline.registry.tracking import TrackedVersion
from bpeline.tokenizer_core.errors import (
    AliasLocked,
    RegistryError,
    RegistryUnreachable,
    UnknownVersion,
)


class Anywhere:
    """The type of `ANYWHERE`: the alias may point to any version before the move."""


ANYWHERE: Final = Anywhere()
LOCK = "locked"  # prefix of the registered model tag that locks an alias


class AliasMovedMeanwhile(RegistryError):
    """Another client moved the alias after it was read."""


def move_alias(
    registry: Registry,
    name: str,
    alias: str,
    number: int | None,
    digest: str,
    *,
    kind: MoveKind,
    by: str = "",
    reason: str = "",
    expected: int | Anywhere | None = ANYWHERE,
    lock: bool | None = None,
    force: bool = False,
    trained: int = 0,
    trained_at: str = "",
    registered_before: bool = False,
) -> AliasMove:
    """Point an alias to a version, or to none, and record the move.

    A publication moves an alias only away from an older training: the outbox may deliver Monday's
    training after Tuesday's. If an earlier training already registered the tokenizer, the alias
    never moves back to a lower number.

    Args:
        number, digest: the version; MLflow must have this digest under this number. None and an
            empty digest remove the alias.
        expected: the number it must point to now; None for no version.
        lock: whether it is locked from now on; None keeps the current state.
        force: move it even if it is locked.
        trained, trained_at: of the training, see `Version` and `Publication`.
        registered_before: whether an earlier training registered this tokenizer.

    Returns:
        The move. If nothing moved, both numbers are equal and nothing is recorded.

    Raises:
        AliasMovedMeanwhile: it does not point to ``expected``, or was moved during this call.
        AliasLocked: it is locked; a publication leaves it unchanged instead.
        RegistryError: MLflow has another tokenizer under this number, or this one under a lower.
        UnknownVersion: there is no such version, or the alias to remove never existed.
    """
    tracker, catalogue = registry.tracker, registry.catalogue
    with catalogue.moving():
        present, _ = look_at(registry, name, alias)
        before = None if present is None else present.number
        if not isinstance(expected, Anywhere) and before != expected:
            raise AliasMovedMeanwhile(
                f"{name}@{alias} was moved to {_place(name, before)} meanwhile",
                f"expected it to point to {_place(name, expected)}",
                "compare both versions and decide again",
            )
        if number is not None:
            _require_registered(registry, name, number, digest)
        elif present is None and not catalogue.alias_history(name, alias, registry.store):
            raise UnknownVersion(
                f"{name} has no alias {alias} in MLflow at {tracker.settings.place}",
                "expected an alias that points to a version",
                f"type `bpeline versions {name}` to see them",
            )
        stays = AliasMove(name, alias, before, before, by, reason, utc_now(), kind, registry.store)
        if before == number:
            _lock(registry, stays, lock)
            return stays
        if kind != "publish":
            if not force:
                require_unlocked(registry, name, alias, kind)
        elif lock_of(registry, name, alias):
            return stays
        if kind == "publish" and present is not None and number is not None:
            known = registry.catalogue.find_version(name, present.digest)
            # The order of local trainings is known independently of clocks. For others, compare
            # the time their machine recorded, else the order of publication.
            if registered_before and present.number > number:
                later = True
            elif trained and known is not None and known.trained:
                later = known.trained > trained
            elif at := present.tags.get("trained_at"):
                later = at > trained_at
            else:
                later = present.number > number
            if later:
                return stays
        if number is None:
            tracker.remove_alias(name, alias)
        else:
            tracker.move_alias(name, alias, number)
        after = tracker.version_of_alias(name, alias)
        there = (None, "") if after is None else (after.number, after.digest)
        if there != (number, digest):
            raise AliasMovedMeanwhile(
                f"{name}@{alias} was moved to {_place(name, number)}, but MLflow says that it "
                f"points to {_place(name, there[0])}",
                "expected no other client to move it at the same time",
                f"type `bpeline show {name}` to see who moved it, and decide again",
            )
        move = replace(
            stays,
            to_number=number,
            from_digest="" if present is None else present.digest,
            to_digest=digest,
        )
        catalogue.add_move(move)
        _lock(registry, move, lock)
        with suppress(RegistryError, RegistryUnreachable):  # else the next reader asks MLflow
            tracker.keep_snapshot()
        return move


def lock_of(registry: Registry, name: str, alias: str) -> str:
    """Return the time, user and reason of a lock; empty if the alias is not locked."""
    return registry.tracker.model_tags(name).get(name, {}).get(f"{LOCK}.{alias}", "")


def require_unlocked(registry: Registry, name: str, alias: str, kind: str = "promote") -> None:
    """Raise AliasLocked if an alias is locked; ``kind`` selects the advice."""
    if locked := lock_of(registry, name, alias):
        accepted = "expected an alias that is not locked, or `--force`, which removes the lock"
        anyway = f"type `bpeline promote REF --to {alias} --force` to move it anyway"
        if kind == "rollback":
            anyway = f"type `bpeline rollback {name} --alias {alias} --force` to move it anyway"
        elif kind == "remove":
            accepted = "expected an alias that is not locked"
            unlock = f"bpeline promote {name}@{alias} --to {alias} --force"
            anyway = f"type `{unlock}` to remove the lock without moving the alias"
        raise AliasLocked(f"{name}@{alias} is locked {locked}", accepted, anyway)


def _lock(registry: Registry, move: AliasMove, lock: bool | None) -> None:
    if lock or (lock is False and lock_of(registry, move.name, move.alias)):
        since = f"since {move.at[:16].replace('T', ' ')} UTC"
        mover, why = f" by {move.by}" * bool(move.by), f": {move.reason}" * bool(move.reason)
        text = f"{since}{mover}{why}" if lock else ""
        registry.tracker.tag_name(move.name, f"{LOCK}.{move.alias}", text)


def remove_alias(
    registry: Registry, name: str, alias: str, *, by: str = "", reason: str = ""
) -> AliasMove:
    return move_alias(registry, name, alias, None, "", kind="remove", by=by, reason=reason)


def look_at(
    registry: Registry, name: str, alias: str
) -> tuple[TrackedVersion | None, AliasMove | None]:
    """Read an alias before a move: its version, and a new move made in MLflow itself.

    Such a move is added to the history. An MLflow without an identity gets one.
    """
    present = registry.tracker.version_of_alias(name, alias)
    store = registry.store if present is None else registry.make_store()
    history = registry.catalogue.alias_history(name, alias, store)
    last_number = history[0].to_number if history else None
    number = None if present is None else present.number
    if number == last_number or not store:
        return present, None
    reason = "moved in MLflow" + ", though it is locked" * bool(lock_of(registry, name, alias))
    seen = AliasMove(
        name, alias, last_number, number, "mlflow", reason, utc_now(), "seen", store,
        from_digest=history[0].to_digest if history else "",
        to_digest="" if present is None else present.digest,
    )  # fmt: skip
    registry.catalogue.add_move(seen)
    return present, seen


def last_standing(history: Sequence[AliasMove]) -> AliasMove | None:
    """Return the last move that no rollback has undone; ``history`` is newest first."""
    standing: list[AliasMove] = []
    for move in reversed(history):
        if move.kind == "rollback":
            del standing[-1:]
        elif move.kind != "refusal":
            standing.append(move)
    return standing[-1] if standing else None


def _require_registered(registry: Registry, name: str, number: int, digest: str) -> None:
    """Require that this is the lowest number of the digest; others are removed soon."""
    same = registry.tracker.find_versions(name, digest)
    if same and same[0].number == number:
        return
    if number in (version.number for version in same):
        raise RegistryError(
            f"{name}/{number} in MLflow at {registry.tracker.settings.place} is the same tokenizer "
            f"as {name}/{same[0].number}, registered a second time",
            "expected the lowest number of a tokenizer",
            f"use {name}/{same[0].number}; type `bpeline versions {name}` to see all",
        )
    tracked = registry.tracker.version(name, number)
    if tracked is None:
        raise UnknownVersion(
            f"MLflow at {registry.tracker.settings.place} has no {name}/{number}",
            "expected a registered version",
            f"type `bpeline versions {name}` to see them",
        )
    raise RegistryError(
        f"{name}/{number} in MLflow at {registry.tracker.settings.place} is the tokenizer "
        f"{tracked.digest[:12] or 'of another program'}, not {digest[:12]}",
        "expected the number of this tokenizer in this MLflow",
        f"type `bpeline versions {name}` to see them",
    )


def _place(name: str, number: int | Anywhere | None) -> str:
    return f"{name}/{number}" if isinstance(number, int) else "nowhere"
