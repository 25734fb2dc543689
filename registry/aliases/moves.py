"""The functions that move and remove an alias, and what its history says; judges no version.

MLflow says where an alias points. It is asked before and after, and so is the digest behind the
version's number; who uses the same catalogue waits meanwhile. Two catalogues over one MLflow have
no common lock: between reading and writing another may move the alias. Who reads back another
version than the one it wrote says so.
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
    """Says of an alias that it may point anywhere before it is moved."""


ANYWHERE: Final = Anywhere()
LOCK = "locked"  # begins the tag of a registered model that locks an alias


class AliasMovedMeanwhile(RegistryError):
    """Somebody else moved the alias since it was looked at."""


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
    """Let an alias point to a version, or nowhere, and write that into its history.

    A version that was just published takes an alias only from an older training: an outbox may
    deliver Monday's after Tuesday's. One that a training only made again takes it from no later
    number: on text that has not changed, nothing goes back.

    Args:
        registry: whose MLflow and catalogue.
        name, alias: what to move.
        number, digest: the version; MLflow must have this digest under this number. None, and no
            digest, for nowhere.
        kind: why it moves.
        by, reason: for the history.
        expected: the number it must point to now; None for nowhere.
        lock: whether it is locked from now on; None leaves that as it is.
        force: whether to move it though it is locked.
        trained, trained_at: of the training that made it, see `Version` and `Publication`.
        registered_before: whether an earlier training had made and registered it.

    Returns:
        The move. It has the same number twice when nothing moved, and that is no move in the
        history.

    Raises:
        AliasMovedMeanwhile: it points elsewhere than expected, or was moved while we did.
        AliasLocked: it is locked; what is just published leaves it where it is.
        RegistryError: MLflow has another tokenizer under this number, or this one under a lower.
        UnknownVersion: there is no such version; or it is to point nowhere, and never was there.
        RegistryUnreachable: MLflow does not answer.
        WorkspaceLocked: another process is moving aliases and does not end.
    """
    tracker, catalogue = registry.tracker, registry.catalogue
    with catalogue.moving():
        present, _ = look_at(registry, name, alias)
        before = None if present is None else present.number
        if not isinstance(expected, Anywhere) and before != expected:
            raise AliasMovedMeanwhile(
                f"{name}@{alias} was moved to {_place(name, before)} meanwhile",
                f"it was looked at when it pointed to {_place(name, expected)}",
                "look at both versions and decide again",
            )
        if number is not None:
            _require_registered(registry, name, number, digest)
        elif present is None and not catalogue.alias_history(name, alias, registry.store):
            raise UnknownVersion(
                f"{name} has no alias {alias} in MLflow at {tracker.settings.place}",
                "accepted are aliases that point to a version",
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
            # Here the order of trainings is known, whatever clocks said; of one from elsewhere
            # there is the time its machine showed, or else the order of publication.
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
                f"{name}@{alias} was to point to {_place(name, number)}, and MLflow says that it "
                f"points to {_place(name, there[0])}",
                "accepted is an MLflow in which nobody else moves it at the same moment",
                f"type `bpeline show {name}` to see who did, and decide again",
            )
        move = replace(
            stays,
            to_number=number,
            from_digest="" if present is None else present.digest,
            to_digest=digest,
        )
        catalogue.add_move(move)
        _lock(registry, move, lock)
        with suppress(RegistryError, RegistryUnreachable):  # who reads next asks MLflow instead
            tracker.keep_snapshot()
        return move


def lock_of(registry: Registry, name: str, alias: str) -> str:
    """Since when, by whom and why an alias is locked; empty where it is not."""
    return registry.tracker.model_tags(name).get(name, {}).get(f"{LOCK}.{alias}", "")


def require_unlocked(registry: Registry, name: str, alias: str, kind: str = "promote") -> None:
    """Refuse to move an alias that is locked; ``kind`` is that of the move.

    Raises:
        AliasLocked: it is.
    """
    if locked := lock_of(registry, name, alias):
        accepted = "an alias that is not locked, or `--force`, which lifts the lock"
        anyway = f"type `bpeline promote REF --to {alias} --force`, which moves it"
        if kind == "rollback":
            anyway = f"type `bpeline rollback {name} --alias {alias} --force`, which moves it"
        elif kind == "remove":
            accepted = "an alias that is not locked"
            unlock = f"bpeline promote {name}@{alias} --to {alias} --force"
            anyway = f"type `{unlock}`, which lifts the lock and leaves it where it points"
        raise AliasLocked(f"{name}@{alias} is locked {locked}", accepted, anyway)


def _lock(registry: Registry, move: AliasMove, lock: bool | None) -> None:
    if lock or (lock is False and lock_of(registry, move.name, move.alias)):
        since = f"since {move.at[:16].replace('T', ' ')} UTC"
        who, why = f" by {move.by}" * bool(move.by), f": {move.reason}" * bool(move.reason)
        text = f"{since}{who}{why}" if lock else ""
        registry.tracker.tag_name(move.name, f"{LOCK}.{move.alias}", text)


def remove_alias(
    registry: Registry, name: str, alias: str, *, by: str = "", reason: str = ""
) -> AliasMove:
    """Let an alias point nowhere, as `move_alias` does, which says what it raises."""
    return move_alias(registry, name, alias, None, "", kind="remove", by=by, reason=reason)


def look_at(
    registry: Registry, name: str, alias: str
) -> tuple[TrackedVersion | None, AliasMove | None]:
    """The version that an alias points to, and a move made in MLflow itself if there is a new one.

    For moves that are about to be made: it enters the history, and what an earlier release did
    there becomes this MLflow's.
    """
    present = registry.tracker.version_of_alias(name, alias)
    store = registry.store if present is None else registry.make_store()
    history = registry.catalogue.alias_history(name, alias, store)
    known = history[0].to_number if history else None
    number = None if present is None else present.number
    if number == known or not store:
        return present, None
    reason = "moved in MLflow" + ", though it is locked" * bool(lock_of(registry, name, alias))
    seen = AliasMove(
        name, alias, known, number, "mlflow", reason, utc_now(), "seen", store,
        from_digest=history[0].to_digest if history else "",
        to_digest="" if present is None else present.digest,
    )  # fmt: skip
    registry.catalogue.add_move(seen)
    return present, seen


def last_standing(history: Sequence[AliasMove]) -> AliasMove | None:
    """The last move that was not itself undone.

    Args:
        history: of one alias, newest first.
    """
    standing: list[AliasMove] = []
    for move in reversed(history):
        if move.kind == "rollback":
            del standing[-1:]
        elif move.kind != "refusal":
            standing.append(move)
    return standing[-1] if standing else None


def _require_registered(registry: Registry, name: str, number: int, digest: str) -> None:
    """Refuse a number under which MLflow has another tokenizer than the one that is meant.

    Nor is a second registration of the same tokenizer taken: whoever made it is about to remove
    it, and with it the alias.
    """
    same = registry.tracker.find_versions(name, digest)
    if same and same[0].number == number:
        return
    if number in (one.number for one in same):
        raise RegistryError(
            f"{name}/{number} in MLflow at {registry.tracker.settings.place} is the same tokenizer "
            f"as {name}/{same[0].number}, registered a second time",
            "accepted is the lowest number of a tokenizer",
            f"type `bpeline versions {name}` to see them, and take {name}/{same[0].number}",
        )
    found = registry.tracker.version(name, number)
    if found is None:
        raise UnknownVersion(
            f"MLflow at {registry.tracker.settings.place} has no {name}/{number}",
            "accepted are versions that it has",
            f"type `bpeline versions {name}` to see them",
        )
    raise RegistryError(
        f"{name}/{number} in MLflow at {registry.tracker.settings.place} is the tokenizer "
        f"{found.digest[:12] or 'of somebody else'}, not {digest[:12]}",
        "accepted is the number under which this MLflow has the tokenizer",
        f"type `bpeline versions {name}` to see them",
    )


def _place(name: str, number: int | Anywhere | None) -> str:
    return f"{name}/{number}" if isinstance(number, int) else "nowhere"
