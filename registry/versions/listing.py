"""Questions about registered versions; `registry.aliases` moves aliases. Prints nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.loading import StaleAlias, VersionsLost, tombstones
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import STUCK, refusals_in, validate_name
from bpeline.registry.tracking import TrackedVersion
from bpeline.tokenizer_core.errors import RegistryUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bpeline.registry.catalogue import Catalogue, Registration
    from bpeline.registry.records import Tombstone
    from bpeline.registry.workspace import Workspace


class OtherStore(UserWarning):
    """There are versions in another MLflow than the one that was asked."""


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """One line of a list of versions.

    Attributes:
        name, number, digest: which version.
        aliases: the aliases that point to it.
        vocab_size, pattern: what it is.
        created_at: UTC, ISO 8601.
        run_id: the run that made it.
        mlflow_run_id: the same in MLflow.
        metrics: its measured values, without curves.
        stuck: that new text has drifted, and rules refuse this version, which learned from it;
            empty otherwise.
        comparable: whether those that depend on text are of the evaluation set that its name has.
    """

    name: str
    number: int
    digest: str
    aliases: tuple[str, ...]
    vocab_size: int
    pattern: str
    created_at: str
    run_id: str
    mlflow_run_id: str
    metrics: dict[str, float]
    comparable: bool = False
    stuck: str = ""

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"


def list_versions(
    name: str | None = None, workspace: Registry | Workspace | Path | str | None = None
) -> list[ListedVersion]:
    """Every version that MLflow has, by name and number, with what the catalogue knows of it.

    Args:
        name: only this tokenizer's.
        workspace: see :func:`registry.load_tokenizer`.

    While MLflow does not answer, what was last seen of it is shown, with a `StaleAlias` warning.
    Versions that were registered in another MLflow are not shown; an `OtherStore` warning says so.

    Raises:
        StorageError: there is no workspace, and none is made; or a store that was here is lost.
    """
    if name is not None:
        validate_name(name)
    registry = open_registry(workspace, make=False)
    catalogue, tracker = registry.catalogue, registry.tracker
    try:
        known = registry.store
        tracked, aliases = tracker.versions(name), tracker.aliases(name)
    except RegistryUnreachable as error:
        known = registry.known_store
        tracked, aliases = _as_remembered(catalogue, known, name)
        warnings.warn(
            f"{error.happened}; versions and aliases are shown as they were last seen here",
            StaleAlias,
            stacklevel=2,
        )
    shown = {(one.name, one.number, one.digest) for one in tracked}
    rows = {(row.name, row.digest): row for row in catalogue.versions(name)}
    seen = [one for row in rows.values() for one in row.registrations]
    others = [
        one
        for one in seen
        if one.store != known and (one.name, one.number, one.digest) not in shown
    ]
    if others:
        warnings.warn(
            f"{len(others)} versions were registered in another MLflow than "
            f"{tracker.settings.place} and are not shown",
            OtherStore,
            stacklevel=2,
        )
    _warn_of_lost(registry, name, [one for one in seen if one.store == known], tracked)
    sets = {one.name: one.digest for one in catalogue.evaluation_sets(name)}
    digests = {(one.name, one.number): one.digest for one in tracked}
    listed = []
    for one in tracked:
        stuck = ""
        for alias, refusal in refusals_in(one.tags).items():
            present = digests.get((one.name, aliases.get(one.name, {}).get(alias, 0)))
            here = (present, sets.get(one.name, ""), True)
            if here == (refusal.present, refusal.evaluation_set, refusal.drifted):
                stuck = f"{one.name}@{alias} has {STUCK}"
        row = rows.get((one.name, one.digest))
        pointing = aliases.get(one.name, {}).items()
        listed.append(
            ListedVersion(
                name=one.name,
                number=one.number,
                digest=one.digest,
                aliases=tuple(sorted(alias for alias, at in pointing if at == one.number)),
                vocab_size=row.vocab_size if row else one.vocab_size,
                pattern=row.pattern if row else one.tags.get("pattern", ""),
                created_at=row.created_at if row else _time(one.created_ms),
                run_id=one.run_id or (row.run_id if row else ""),
                mlflow_run_id=one.mlflow_run_id,
                metrics=row.last_values if row else {},
                stuck=stuck,
                comparable=row is not None and row.measured_on == sets.get(one.name, "?"),
            )
        )
    return listed


def _warn_of_lost(
    registry: Registry,
    name: str | None,
    seen: Sequence[Registration],
    tracked: list[TrackedVersion],
) -> None:
    """Say which versions MLflow had and has no more, those that were deleted left out."""
    there = {(one.name, one.number) for one in tracked}
    lost = {
        (one.name, one.number): f"{one.name}/{one.number}"
        for one in seen
        if (one.name, one.number) not in there
    }
    if lost:
        for one in tombstones(registry, name):
            lost.pop((one.name, one.number), None)
    if lost:
        warnings.warn(
            f"MLflow has no {', '.join(lost.values())} any more. Was it restored from a backup? "
            "`bpeline doctor` says what can be registered again",
            VersionsLost,
            stacklevel=3,
        )


def deleted_versions(
    name: str | None = None, workspace: Registry | Workspace | Path | str | None = None
) -> list[Tombstone]:
    """The versions (of a name) that were deleted, by name and number: who, when, why.

    Args:
        name, workspace: as for `list_versions`.

    Raises:
        StorageError: as `list_versions`.
    """
    if name is not None:
        validate_name(name)
    return tombstones(open_registry(workspace, make=False), name)


def _as_remembered(
    catalogue: Catalogue, store: str, name: str | None
) -> tuple[list[TrackedVersion], dict[str, dict[str, int]]]:
    """What was last seen of an MLflow that does not answer."""
    found = catalogue.registrations(name, store)
    aliases = {one: _last_places(catalogue, store, one) for one in {row.name for row in found}}
    tracked = [TrackedVersion(one.name, one.number, one.digest, "") for one in found]
    return tracked, aliases


def aliases_of(registry: Registry, name: str) -> dict[str, int]:
    """Where the aliases of a name point; where they did last, while MLflow does not answer."""
    try:
        return registry.tracker.aliases(name).get(name, {})
    except RegistryUnreachable:
        return _last_places(registry.catalogue, registry.known_store, name)


def _last_places(catalogue: Catalogue, store: str, name: str) -> dict[str, int]:
    places: dict[str, int] = {}
    for move in reversed(catalogue.alias_history(name, store=store)):
        if move.to_number is None:
            places.pop(move.alias, None)
        else:
            places[move.alias] = move.to_number
    return places


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
