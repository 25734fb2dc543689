"""Delete versions from all stores, in a fixed order that is safe to interrupt.

    a note in the outbox → MLflow: a tombstone tag, the version, its files, models and runs
    → files of the workspace and its store → the catalogue's rows → with the last version of a name
    its evaluation sets → the note is removed

All steps after the note can be repeated; ``bpeline resume`` completes an interrupted deletion.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bpeline.registry.catalogue import utc_now
from bpeline.registry.evaluation_sets import forget_set
from bpeline.registry.loading import MANIFEST, forget_resolved, tombstones
from bpeline.registry.publishing import waiting_publications
from bpeline.registry.records import (
    ByAlias,
    ByNumber,
    Tombstone,
    parse_reference,
    validate_name,
)
from bpeline.registry.tracking import Traces, TrackedVersion, is_server
from bpeline.registry.upkeep import deletion_notes
from bpeline.registry.upkeep.retention import make_room
from bpeline.registry.versions import aliases_of
from bpeline.registry.workspace import forget_directory
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    DiskFull,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
    UnknownVersion,
)

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry

_ACCEPTED = "expected a version (news/3), a name for all its versions (news), an alias (news@old)"


class VersionInUse(RegistryError):
    """An alias points to a version that was to be deleted."""


@dataclass(frozen=True, slots=True)
class DeletedVersion:
    """A version that was or would be deleted.

    Attributes:
        removed: whether it was deleted; False for a preview.
        stays: what is kept, and how to remove it.
    """

    name: str
    number: int
    digest: str
    removed: bool
    goes: tuple[str, ...]
    stays: tuple[str, ...]

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"


def parse_deletable(text: str) -> ByAlias | ByNumber | str:
    """Parse what to delete: a version, an alias, or a name."""
    if re.fullmatch(r"[^/@]+", text):
        return validate_name(text)
    parsed = parse_reference(text)
    if not isinstance(parsed, (ByAlias, ByNumber)):
        raise InvalidOption(
            f"{text} cannot be deleted", _ACCEPTED, "type `bpeline versions` to see what there is"
        )
    return parsed


def find_deletable(registry: Registry, wanted: ByNumber | str) -> list[DeletedVersion]:
    """Return what `delete_versions` would remove and keep; changes nothing.

    Args:
        wanted: a version, or the name of all versions to delete.
    """
    chosen = _chosen(registry, wanted, "", "")
    return [
        _described(registry, version, {version.number for version in chosen}) for version in chosen
    ]


def delete_versions(
    registry: Registry, wanted: ByNumber | str, by: str = "", reason: str = ""
) -> list[DeletedVersion]:
    """Delete versions from all stores; only their tombstones stay in the history.

    Args:
        wanted: a version, or the name of all versions to delete.

    Raises:
        UnknownVersion: there is no such version.
        VersionInUse: an alias points to one of the versions; nothing was removed. If an alias is
            moved there meanwhile, that version and the following ones are kept.
        RegistryUnreachable: MLflow does not answer; `finish_deletions` completes the deletion.
        WorkspaceLocked: another process is working in the workspace.
        RegistryError, StorageError: a store refused; call it again to continue.
    """
    with registry.workspace.lock(f"deleting {wanted}"):
        try:
            return _delete_all(registry, wanted, by, reason)
        except DiskFull:  # the note and MLflow need some space before any is freed
            make_room(registry)
            return _delete_all(registry, wanted, by, reason)


def _delete_all(
    registry: Registry, wanted: ByNumber | str, by: str, reason: str
) -> list[DeletedVersion]:
    try:
        chosen = _chosen(registry, wanted, by, reason)
    except RegistryUnreachable as error:
        noted = _remembered(registry, wanted, by, reason)
        deletion_notes.write(registry.workspace, registry.known_store, noted)
        if not noted:
            raise
        raise _waiting(noted, error) from error
    noted_before = [
        tombstone for _, tombstone in deletion_notes.noted_deletions(registry.workspace)
    ]
    deletion_notes.write(registry.workspace, registry.store, chosen)
    leaving = {tombstone.number for tombstone in chosen}
    deleted: list[DeletedVersion] = []
    try:
        for tombstone in chosen:
            deleted.append(_delete(registry, tombstone, leaving))
    except RegistryUnreachable as error:
        raise _waiting(chosen, error) from error
    except RegistryError:  # keep the following versions: the user decides again
        for tombstone in chosen[len(deleted) + 1 :]:
            if tombstone not in noted_before:
                deletion_notes.remove(registry.workspace, tombstone)
        raise
    return deleted


def finish_deletions(registry: Registry) -> list[DeletedVersion]:
    """Complete pending deletions. The caller holds the workspace lock."""
    noted = deletion_notes.noted_deletions(registry.workspace)
    store = registry.store if noted else ""
    pending = [entry for place, entry in noted if place == store]
    leaving = {name: {entry.number for entry in pending if entry.name == name} for name in
               {entry.name for entry in pending}}  # fmt: skip
    deleted = [_delete(registry, entry, leaving[entry.name]) for entry in pending]
    if damaged := deletion_notes.damaged_notes(registry.workspace):
        raise RegistryError(
            f"the deletion note of {', '.join(damaged)} cannot be read",
            "expected a note written by `bpeline delete`",
            f"type `bpeline delete {damaged[0]} --yes` again",
        )
    return deleted


def _chosen(registry: Registry, wanted: ByNumber | str, by: str, reason: str) -> list[Tombstone]:
    """Return the versions to delete from MLflow, pending deletions included."""
    store = registry.store
    name = wanted if isinstance(wanted, str) else wanted.name
    tracked = registry.tracker.versions(name)
    candidates = {
        entry.number: Tombstone(name, entry.number, entry.digest, by, reason, utc_now())
        for entry in tracked
    }
    candidates |= {
        entry.number: entry
        for place, entry in deletion_notes.noted_deletions(registry.workspace)
        if (place, entry.name) == (store, name)
    }
    if isinstance(wanted, ByNumber):
        candidates = {
            number: entry for number, entry in candidates.items() if number == wanted.number
        }
    if not candidates:
        raise _nothing(registry, wanted, name)
    present = {entry.number for entry in tracked}
    _require_no_alias(
        registry.tracker.aliases(name).get(name, {}), name, candidates.keys() & present
    )
    return list(candidates.values())


def _remembered(
    registry: Registry, wanted: ByNumber | str, by: str, reason: str
) -> list[Tombstone]:
    """Return the versions to delete, by the last known state of MLflow."""
    store = registry.known_store
    name = wanted if isinstance(wanted, str) else wanted.name
    candidates = [
        Tombstone(name, row.number, row.digest, by, reason, utc_now())
        for row in registry.catalogue.registrations(name, store)
        if isinstance(wanted, str) or row.number == wanted.number
    ]
    _require_no_alias(
        aliases_of(registry, name), name, {tombstone.number for tombstone in candidates}
    )
    return candidates


def _nothing(registry: Registry, wanted: ByNumber | str, name: str) -> UnknownVersion:
    for tombstone in tombstones(registry, name):
        if isinstance(wanted, ByNumber) and tombstone.number == wanted.number:
            return UnknownVersion(
                f"{tombstone.reference} was {tombstone}",
                "expected an existing version",
                f"type `bpeline versions {name}` to see them",
            )
    what = f"no version of {name}" if isinstance(wanted, str) else f"no {wanted}"
    return UnknownVersion(
        f"there is {what} in MLflow at {registry.tracker.settings.place}",
        _ACCEPTED,
        "type `bpeline versions` to see what there is",
    )


def _require_no_alias(aliases: dict[str, int], name: str, numbers: set[int]) -> None:
    """Raise `VersionInUse` if an alias points to one of the versions."""
    pointing = {alias: number for alias, number in sorted(aliases.items()) if number in numbers}
    if pointing:
        points = ", ".join(f"{name}@{alias} to {name}/{at}" for alias, at in pointing.items())
        alias = next(iter(pointing))
        raise VersionInUse(
            f"{'an alias points' if len(pointing) == 1 else 'aliases point'} to versions to be "
            f"deleted: {points}",
            "expected versions without an alias",
            f"move it, `bpeline promote {name}/NUMBER --to {alias}` or `bpeline rollback {name} "
            f"--alias {alias}`; or remove it, `bpeline delete {name}@{alias} --yes`",
        )


def _waiting(noted: Sequence[Tombstone], error: RegistryUnreachable) -> RegistryUnreachable:
    references = ", ".join(tombstone.reference for tombstone in noted)
    return RegistryUnreachable(
        f"{error.happened}; the deletion of {references} is pending",
        error.accepted,
        f"{error.next_step}; then type `bpeline resume`, which completes the deletion",
    )


def _delete(registry: Registry, one: Tombstone, leaving: Collection[int]) -> DeletedVersion:
    """Run all steps after the note; can be repeated."""
    catalogue, tracker, workspace = registry.catalogue, registry.tracker, registry.workspace
    preview = _described(registry, one, leaving)
    with catalogue.moving():
        version = tracker.version(one.name, one.number)
        if version is not None:
            _require_the_same(registry, one, version)
            tracker.add_tombstone(one)
            tracker.withdraw_version(one.name, one.number)
            if tracker.version(one.name, one.number) is not None:
                raise RegistryError(
                    f"MLflow at {tracker.settings.place} confirmed the deletion of "
                    f"{one.reference}, but still has it",
                    "expected a server that deletes what it confirms",
                    f"type `bpeline delete {one.reference} --yes` again",
                )
        else:
            tracker.add_tombstone(one)
    kept = _Kept.of(registry, one)
    removed = Traces()
    if not kept.numbers:
        removed = tracker.models.remove_traces(one.name, one.digest, kept.runs)
    forget_resolved(registry.place, one.name, one.number)
    if not kept.numbers:
        for record, waiting in list(waiting_publications(workspace)):
            if (waiting.name, waiting.digest) == (one.name, one.digest):
                DURABLE.remove(record)
    if workspace.words_database.exists():  # holds its tokens; rebuilt for the others when needed
        DURABLE.remove(workspace.words_database)
    if not kept.files:
        forget_directory(workspace, workspace.version_directory(one.digest), MANIFEST)
        for measured in workspace.evaluation_sets.glob(f"*/measured/{one.digest}.json"):
            DURABLE.remove(measured)
    catalogue.forget_registrations(registry.store, one.name, one.number)
    catalogue.forget_version(one.name, one.digest)
    if _is_the_end(registry, one.name, {one.number}):
        for digest in _own_sets(registry, one.name):
            forget_set(workspace, digest)
        catalogue.forget_evaluation_sets(one.name)
    deletion_notes.remove(registry.workspace, one)
    stays = preview.stays + _hidden(registry, removed)
    return replace(preview, removed=True, stays=stays)


def _require_the_same(registry: Registry, one: Tombstone, version: TrackedVersion) -> None:
    """Check a version once more before its deletion; on errors, remove its note."""
    try:
        if version.digest != one.digest:
            raise RegistryError(
                f"{one.reference} was {one.digest[:12]} when its deletion was requested, but is "
                f"now {version.digest[:12] or 'not from bpeline'} in MLflow",
                "expected the same version under this number",
                f"type `bpeline versions {one.name}` to see them, and decide again",
            )
        aliases = registry.tracker.aliases(one.name).get(one.name, {})
        _require_no_alias(aliases, one.name, {one.number})
    except RegistryUnreachable:
        raise
    except RegistryError:
        deletion_notes.remove(registry.workspace, one)
        raise


@dataclass(frozen=True, slots=True)
class _Kept:
    """Parts of a deleted version that others need.

    Attributes:
        numbers: versions of the same name with the same tokenizer.
        files: other users of the files, as text.
    """

    numbers: tuple[str, ...]
    runs: frozenset[str]
    files: tuple[str, ...]

    @classmethod
    def of(cls, registry: Registry, one: Tombstone) -> _Kept:
        others = [
            version
            for version in registry.tracker.versions()
            if (version.name, version.number) != (one.name, one.number)
        ]
        same = [version for version in others if version.digest == one.digest]
        elsewhere = [
            f"{row.name}/{row.number} in the MLflow {row.store}"
            for row in registry.catalogue.registrations()
            if row.digest == one.digest and row.store != registry.store
        ]
        waiting = [
            f"{waiting.name}, which waits to be published"
            for _, waiting in waiting_publications(registry.workspace)
            if waiting.digest == one.digest and waiting.name != one.name
        ]
        references = [f"{version.name}/{version.number}" for version in same]
        return cls(
            tuple(f"{one.name}/{v.number}" for v in same if v.name == one.name),
            frozenset(version.mlflow_run_id for version in others),
            (*references, *elsewhere, *waiting),
        )


def _is_the_end(registry: Registry, name: str, leaving: Collection[int]) -> bool:
    """Whether no version of a name is left in any MLflow without these numbers."""
    left = [entry for entry in registry.tracker.versions(name) if entry.number not in leaving]
    left_elsewhere = [
        row for row in registry.catalogue.registrations(name) if row.store != registry.store
    ]
    waiting = [entry for _, entry in waiting_publications(registry.workspace) if entry.name == name]
    return not (left or left_elsewhere or waiting)


def _own_sets(registry: Registry, name: str) -> list[str]:
    """Return the present and former evaluation sets of a name that no other name uses."""
    sets = registry.catalogue.evaluation_sets()
    others = {entry.digest for entry in sets if entry.name != name}
    return [*dict.fromkeys(entry.digest for entry in sets if entry.name == name and
                           entry.digest not in others)]  # fmt: skip


def _described(registry: Registry, one: Tombstone, leaving: Collection[int]) -> DeletedVersion:
    kept, workspace = _Kept.of(registry, one), registry.workspace
    goes, stays = [f"version {one.number} of {one.name} in MLflow"], []
    if kept.numbers:
        stays.append(
            f"runs and models in MLflow, because {', '.join(kept.numbers)} is the same tokenizer"
        )
    else:
        traces = registry.tracker.models.traces(one.name, one.digest, kept.runs)
        runs, models = len(traces.runs), len(traces.models)
        goes.append(f"its runs ({runs}) and models ({models}) there, with their files")
    directory = workspace.version_directory(one.digest)
    if kept.files:
        stays.append(f"its files in {directory}, which others need: {', '.join(kept.files)}")
    elif directory.is_dir() or workspace.store:
        place = f" and {workspace.store}" if workspace.store else ""
        goes.append(f"files in {directory}{place}")
    goes.append("its measurements in the catalogue")
    named = registry.catalogue.evaluation_set(one.name)
    if named is not None and _is_the_end(registry, one.name, leaving):
        for digest in _own_sets(registry, one.name):
            goes.append(f"evaluation set {digest[:8]}, because no version of {one.name} is left")
    elif named is not None:
        stays.append(
            f"evaluation set {named.digest[:8]} of {one.name}, on which its other versions are "
            "measured; it may contain documents of the deleted version's corpus: "
            f"`bpeline evaluate {one.name} --set-from FILES` replaces it; for former sets, "
            f"{_removal_of_leftovers(registry)}"
        )
    for name in _extending(registry, one.digest):
        stays.append(f"{name}, which was extended from it and has all of its tokens")
    return DeletedVersion(one.name, one.number, one.digest, False, tuple(goes), tuple(stays))


def stays_after_deletion(registry: Registry) -> tuple[str, ...]:
    """Return what every deletion keeps, and how to remove it."""
    stays = [
        f"word counts and checkpoints: {_removal_of_leftovers(registry)}",
        "copies elsewhere: exports, encoded datasets, backups, reports of versions that were "
        "compared with it",
    ]
    if registry.workspace.store:
        stays.append(
            "copies on other machines: the directory of its digest below `versions` in their "
            "workspaces"
        )
    return tuple(stays)


def _removal_of_leftovers(registry: Registry) -> str:
    """Return how to remove unneeded files, also in shared workspaces."""
    if store := registry.workspace.store:
        return f"lifecycle rules of {store} remove old objects"
    return "`bpeline gc --days 0 --yes` removes what no version needs"


def _extending(registry: Registry, digest: str) -> list[str]:
    """Return the versions that extend the merges of another."""
    runs = {run.id for run in registry.catalogue.runs() if run.config.get("extends") == digest}
    if not runs:
        return []
    digests = {row.digest for row in registry.catalogue.versions() if row.run_id in runs}
    return [
        f"{row.name}/{row.number}"
        for row in registry.catalogue.registrations(store=registry.store)
        if row.digest in digests and row.digest != digest
    ]


def _hidden(registry: Registry, removed: Traces) -> tuple[str, ...]:
    """Return the `mlflow gc` command for rows that MLflow only hides."""
    if not (removed.runs or removed.models):
        return ()
    settings = registry.tracker.settings
    chosen = {"--run-ids": removed.runs, "--logged-model-ids": removed.models}
    ids = " ".join(f"{option} {','.join(ones)}" for option, ones in chosen.items() if ones)
    database = "THE_DATABASE_OF_THE_SERVER" if is_server(settings.uri) else settings.place
    return (
        "rows of deleted runs and models in MLflow's database: "
        f"`mlflow gc --backend-store-uri {database} --tracking-uri {settings.place} {ids}` removes "
        "them, and deleted experiments",
    )
