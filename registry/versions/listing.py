"""List registered versions, deleted versions and aliases."""

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
    """Some versions are registered in another MLflow than the current one."""


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """One line of a list of versions.

    Attributes:
        created_at: UTC, ISO 8601.
        metrics: last values, without curves.
        stuck: a message if new text has drifted but promotion rules reject this version, which
            was trained on it; else empty.
        comparable: whether the metrics were measured on the current evaluation set of the name.
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
    """List the versions in MLflow, with their data from the catalogue.

    If MLflow does not answer, the last known versions are listed, with a `StaleAlias` warning.
    Versions of another MLflow are not listed; an `OtherStore` warning counts them.

    Args:
        name: only versions of this tokenizer.
        workspace: see :func:`registry.load_tokenizer`.

    Raises:
        StorageError: there is no workspace, or one of its stores is lost.
    """
    if name is not None:
        validate_name(name)
    registry = open_registry(workspace, make=False)
    catalogue, tracker = registry.catalogue, registry.tracker
    try:
        store = registry.store
        tracked, aliases = tracker.versions(name), tracker.aliases(name)
    except RegistryUnreachable as error:
        store = registry.known_store
        tracked, aliases = _as_remembered(catalogue, store, name)
        warnings.warn(
            f"{error.happened}; the versions and aliases shown are the last known ones",
            StaleAlias,
            stacklevel=2,
        )
    shown = {(entry.name, entry.number, entry.digest) for entry in tracked}
    rows = {(row.name, row.digest): row for row in catalogue.versions(name)}
    registrations = [entry for row in rows.values() for entry in row.registrations]
    others = [
        entry
        for entry in registrations
        if entry.store != store and (entry.name, entry.number, entry.digest) not in shown
    ]
    if others:
        warnings.warn(
            f"{len(others)} versions were registered in another MLflow than "
            f"{tracker.settings.place} and are not shown",
            OtherStore,
            stacklevel=2,
        )
    _warn_of_lost(
        registry, name, [entry for entry in registrations if entry.store == store], tracked
    )
    sets = {entry.name: entry.digest for entry in catalogue.evaluation_sets(name)}
    digests = {(entry.name, entry.number): entry.digest for entry in tracked}
    listed = []
    for entry in tracked:
        stuck = ""
        for alias, refusal in refusals_in(entry.tags).items():
            present = digests.get((entry.name, aliases.get(entry.name, {}).get(alias, 0)))
            conditions = (present, sets.get(entry.name, ""), True)
            if conditions == (refusal.present, refusal.evaluation_set, refusal.drifted):
                stuck = f"{entry.name}@{alias} has {STUCK}"
        row = rows.get((entry.name, entry.digest))
        pointing = aliases.get(entry.name, {}).items()
        listed.append(
            ListedVersion(
                name=entry.name,
                number=entry.number,
                digest=entry.digest,
                aliases=tuple(sorted(alias for alias, at in pointing if at == entry.number)),
                vocab_size=row.vocab_size if row else entry.vocab_size,
                pattern=row.pattern if row else entry.tags.get("pattern", ""),
                created_at=row.created_at if row else _time(entry.created_ms),
                run_id=entry.run_id or (row.run_id if row else ""),
                mlflow_run_id=entry.mlflow_run_id,
                metrics=row.last_values if row else {},
                stuck=stuck,
                comparable=row is not None and row.measured_on == sets.get(entry.name, "?"),
            )
        )
    return listed


def _warn_of_lost(
    registry: Registry,
    name: str | None,
    seen: Sequence[Registration],
    tracked: list[TrackedVersion],
) -> None:
    """Warn of versions that MLflow lost; deleted versions are not lost."""
    present = {(entry.name, entry.number) for entry in tracked}
    lost = {
        (entry.name, entry.number): f"{entry.name}/{entry.number}"
        for entry in seen
        if (entry.name, entry.number) not in present
    }
    if lost:
        for entry in tombstones(registry, name):
            lost.pop((entry.name, entry.number), None)
    if lost:
        warnings.warn(
            f"MLflow has lost {', '.join(lost.values())}. Was it restored from a backup? "
            "`bpeline doctor` lists what can be registered again",
            VersionsLost,
            stacklevel=3,
        )


def deleted_versions(
    name: str | None = None, workspace: Registry | Workspace | Path | str | None = None
) -> list[Tombstone]:
    """List deleted versions by name and number, with user, time and reason.

    Arguments and errors are those of `list_versions`.
    """
    if name is not None:
        validate_name(name)
    return tombstones(open_registry(workspace, make=False), name)


def _as_remembered(
    catalogue: Catalogue, store: str, name: str | None
) -> tuple[list[TrackedVersion], dict[str, dict[str, int]]]:
    """Return the last known versions and aliases of an unreachable MLflow."""
    registrations = catalogue.registrations(name, store)
    aliases = {
        entry: _last_places(catalogue, store, entry)
        for entry in {row.name for row in registrations}
    }
    tracked = [
        TrackedVersion(entry.name, entry.number, entry.digest, "") for entry in registrations
    ]
    return tracked, aliases


def aliases_of(registry: Registry, name: str) -> dict[str, int]:
    """Return the aliases of a name; the last known ones if MLflow does not answer."""
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
