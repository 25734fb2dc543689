"""Deleting versions: everywhere, in one fixed order, so that a crash leaves a part and never a lie.

    a note in the outbox → MLflow: a tag that says so, the version, its files, models and runs
    → files of the workspace and its store → the catalogue's rows → with the last version of a name
    its evaluation sets → the note is removed

Everything after the note can be repeated any number of times; while MLflow is down it waits, and
``bpeline resume`` goes on. Knows the order, not how any step is done.
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

_ACCEPTED = "accepted are a version (news/3), all versions of a name (news), an alias (news@old)"


class VersionInUse(RegistryError):
    """An alias points to what was to be deleted."""


@dataclass(frozen=True, slots=True)
class DeletedVersion:
    """A version that was deleted, or would be.

    Attributes:
        name, number, digest: which.
        removed: whether it is gone; False where it was only looked at.
        goes: what is or would be removed, in sentences.
        stays: what is not, and what people have to do about it, in sentences.
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
    """Read what a person typed to be deleted: a version, an alias, or a name.

    Raises:
        InvalidOption: none of these.
    """
    if re.fullmatch(r"[^/@]+", text):
        return validate_name(text)
    parsed = parse_reference(text)
    if not isinstance(parsed, (ByAlias, ByNumber)):
        raise InvalidOption(
            f"{text} cannot be deleted", _ACCEPTED, "type `bpeline versions` to see what there is"
        )
    return parsed


def find_deletable(registry: Registry, wanted: ByNumber | str) -> list[DeletedVersion]:
    """Look what deleting would remove, and what would stay; removes nothing.

    Args:
        registry: whose versions.
        wanted: a version, or the name of all of them.

    Raises:
        UnknownVersion: there is none.
        VersionInUse: an alias points to one of them.
        RegistryUnreachable: MLflow does not answer.
    """
    chosen = _chosen(registry, wanted, "", "")
    return [_described(registry, one, {one.number for one in chosen}) for one in chosen]


def delete_versions(
    registry: Registry, wanted: ByNumber | str, by: str = "", reason: str = ""
) -> list[DeletedVersion]:
    """Remove versions wherever they are, so that only a tombstone stays in the history.

    Args:
        registry: whose versions.
        wanted: a version, or the name of all of them.
        by, reason: for the history.

    Raises:
        UnknownVersion: there is none.
        VersionInUse: an alias points to one of them; nothing was removed. Or it was moved there
            meanwhile: that version and those after it stay, and are noted no more.
        RegistryUnreachable: MLflow does not answer; what is to be deleted is noted, and
            `finish_deletions` does it.
        WorkspaceLocked: somebody works in the workspace.
        RegistryError, StorageError: something refused; the same call goes on.
    """
    with registry.workspace.lock(f"deleting {wanted}"):
        try:
            return _delete_all(registry, wanted, by, reason)
        except DiskFull:  # the note, and MLflow, take some space before any is freed
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
    noted_before = [one for _, one in deletion_notes.noted_deletions(registry.workspace)]
    deletion_notes.write(registry.workspace, registry.store, chosen)
    leaving = {one.number for one in chosen}
    deleted: list[DeletedVersion] = []
    try:
        for one in chosen:
            deleted.append(_delete(registry, one, leaving))
    except RegistryUnreachable as error:
        raise _waiting(chosen, error) from error
    except RegistryError:  # nothing was done for those that follow: somebody decides again
        for one in chosen[len(deleted) + 1 :]:
            if one not in noted_before:
                deletion_notes.remove(registry.workspace, one)
        raise
    return deleted


def finish_deletions(registry: Registry) -> list[DeletedVersion]:
    """Go on with what was begun or noted and is not done.

    The caller holds the workspace.

    Raises:
        VersionInUse: an alias points to one of them, which therefore stays and is noted no more.
        RegistryUnreachable, RegistryError, StorageError: as `delete_versions`.
        RegistryError: a note cannot be read; what the others say is done.
    """
    noted = deletion_notes.noted_deletions(registry.workspace)
    store = registry.store if noted else ""
    here = [one for place, one in noted if place == store]
    leaving = {name: {one.number for one in here if one.name == name} for name in
               {one.name for one in here}}  # fmt: skip
    deleted = [_delete(registry, one, leaving[one.name]) for one in here]
    if damaged := deletion_notes.damaged_notes(registry.workspace):
        raise RegistryError(
            f"the note that {', '.join(damaged)} is to be deleted cannot be read",
            "a note as `bpeline delete` writes it",
            f"type `bpeline delete {damaged[0]} --yes` again",
        )
    return deleted


def _chosen(registry: Registry, wanted: ByNumber | str, by: str, reason: str) -> list[Tombstone]:
    """What is meant, as MLflow says; begun deletions of it with who began them and why."""
    store = registry.store
    name = wanted if isinstance(wanted, str) else wanted.name
    tracked = registry.tracker.versions(name)
    found = {
        one.number: Tombstone(name, one.number, one.digest, by, reason, utc_now())
        for one in tracked
    }
    found |= {
        one.number: one
        for place, one in deletion_notes.noted_deletions(registry.workspace)
        if (place, one.name) == (store, name)
    }
    if isinstance(wanted, ByNumber):
        found = {number: one for number, one in found.items() if number == wanted.number}
    if not found:
        raise _nothing(registry, wanted, name)
    there = {one.number for one in tracked}
    _require_no_alias(registry.tracker.aliases(name).get(name, {}), name, found.keys() & there)
    return list(found.values())


def _remembered(
    registry: Registry, wanted: ByNumber | str, by: str, reason: str
) -> list[Tombstone]:
    """What is meant, as was last seen of an MLflow that does not answer."""
    store = registry.known_store
    name = wanted if isinstance(wanted, str) else wanted.name
    found = [
        Tombstone(name, row.number, row.digest, by, reason, utc_now())
        for row in registry.catalogue.registrations(name, store)
        if isinstance(wanted, str) or row.number == wanted.number
    ]
    _require_no_alias(aliases_of(registry, name), name, {one.number for one in found})
    return found


def _nothing(registry: Registry, wanted: ByNumber | str, name: str) -> UnknownVersion:
    for one in tombstones(registry, name):
        if isinstance(wanted, ByNumber) and one.number == wanted.number:
            return UnknownVersion(
                f"{one.reference} was {one}",
                "accepted are versions that there are",
                f"type `bpeline versions {name}` to see them",
            )
    what = f"no version of {name}" if isinstance(wanted, str) else f"no {wanted}"
    return UnknownVersion(
        f"there is {what} in MLflow at {registry.tracker.settings.place}",
        _ACCEPTED,
        "type `bpeline versions` to see what there is",
    )


def _require_no_alias(aliases: dict[str, int], name: str, numbers: set[int]) -> None:
    """Refuse while somebody who loads an alias would miss the version.

    Raises:
        VersionInUse: an alias points there.
    """
    pointing = {alias: number for alias, number in sorted(aliases.items()) if number in numbers}
    if pointing:
        said = ", ".join(f"{name}@{alias} to {name}/{at}" for alias, at in pointing.items())
        alias = next(iter(pointing))
        raise VersionInUse(
            f"{'an alias points' if len(pointing) == 1 else 'aliases point'} to what is to be "
            f"deleted: {said}",
            "accepted are versions without an alias",
            f"move it, `bpeline promote {name}/NUMBER --to {alias}` or `bpeline rollback {name} "
            f"--alias {alias}`; or remove it, `bpeline delete {name}@{alias} --yes`",
        )


def _waiting(noted: Sequence[Tombstone], error: RegistryUnreachable) -> RegistryUnreachable:
    called = ", ".join(one.reference for one in noted)
    return RegistryUnreachable(
        f"{error.happened}; it is noted that {called} is to be deleted",
        error.accepted,
        f"{error.next_step}; then type `bpeline resume`, which deletes what is left",
    )


def _delete(registry: Registry, one: Tombstone, leaving: Collection[int]) -> DeletedVersion:
    """Everything after the note; safe to repeat from the beginning.

    Args:
        leaving: the numbers of the name that go together.
    """
    catalogue, tracker, workspace = registry.catalogue, registry.tracker, registry.workspace
    told = _described(registry, one, leaving)
    with catalogue.moving():
        version = tracker.version(one.name, one.number)
        if version is not None:
            _require_the_same(registry, one, version)
            tracker.add_tombstone(one)
            tracker.withdraw_version(one.name, one.number)
            if tracker.version(one.name, one.number) is not None:
                raise RegistryError(
                    f"{one.reference} was to be deleted, and MLflow at {tracker.settings.place} "
                    "still has it",
                    "accepted is a server that does what it says it did",
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
    if workspace.words_database.exists():  # its tokens; what others need of it is made again
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
    stays = told.stays + _hidden(registry, removed)
    return replace(told, removed=True, stays=stays)


def _require_the_same(registry: Registry, one: Tombstone, version: TrackedVersion) -> None:
    """The last look before anything goes; what cannot be deleted is not noted any more."""
    try:
        if version.digest != one.digest:
            raise RegistryError(
                f"{one.reference} was {one.digest[:12]} when it was to be deleted, and MLflow says "
                f"now that it is {version.digest[:12] or 'of somebody else'}",
                "accepted is an MLflow whose numbers keep their meaning",
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
    """What others need of a version that goes.

    ``numbers``: of the same name, which are the same tokenizer; ``runs``: MLflow's, that other
    versions were made from; ``files``: who else needs the files, in words.
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
        called = [f"{version.name}/{version.number}" for version in same]
        return cls(
            tuple(f"{one.name}/{v.number}" for v in same if v.name == one.name),
            frozenset(version.mlflow_run_id for version in others),
            (*called, *elsewhere, *waiting),
        )


def _is_the_end(registry: Registry, name: str, leaving: Collection[int]) -> bool:
    """Whether nothing of a name is left, here or in another MLflow, once these numbers are gone."""
    left = [one for one in registry.tracker.versions(name) if one.number not in leaving]
    left_elsewhere = [
        row for row in registry.catalogue.registrations(name) if row.store != registry.store
    ]
    waiting = [one for _, one in waiting_publications(registry.workspace) if one.name == name]
    return not (left or left_elsewhere or waiting)


def _own_sets(registry: Registry, name: str) -> list[str]:
    """The evaluation sets that a name has and had, and no other name."""
    sets = registry.catalogue.evaluation_sets()
    others = {one.digest for one in sets if one.name != name}
    return [*dict.fromkeys(one.digest for one in sets if one.name == name and
                           one.digest not in others)]  # fmt: skip


def _described(registry: Registry, one: Tombstone, leaving: Collection[int]) -> DeletedVersion:
    kept, workspace = _Kept.of(registry, one), registry.workspace
    goes, stays = [f"version {one.number} of {one.name} in MLflow"], []
    if kept.numbers:
        stays.append(
            f"runs and models in MLflow, for {_listed(kept.numbers)} is the same tokenizer"
        )
    else:
        traces = registry.tracker.models.traces(one.name, one.digest, kept.runs)
        runs, models = len(traces.runs), len(traces.models)
        goes.append(f"its runs ({runs}) and models ({models}) there, with their files")
    directory = workspace.version_directory(one.digest)
    if kept.files:
        stays.append(f"its files in {directory}, which others need: {_listed(kept.files)}")
    elif directory.is_dir() or workspace.store:
        place = f" and {workspace.store}" if workspace.store else ""
        goes.append(f"files in {directory}{place}")
    goes.append("what the catalogue measured of it")
    named = registry.catalogue.evaluation_set(one.name)
    if named is not None and _is_the_end(registry, one.name, leaving):
        for digest in _own_sets(registry, one.name):
            goes.append(f"evaluation set {digest[:8]}, for no version of {one.name} is left")
    elif named is not None:
        stays.append(
            f"evaluation set {named.digest[:8]} of {one.name}, on which its other versions are "
            "measured; it may hold documents of this one's corpus: "
            f"`bpeline evaluate {one.name} --set-from FILES` gives another to the name; former "
            f"sets: {_removal_of_leftovers(registry)}"
        )
    for name in _extending(registry, one.digest):
        stays.append(f"{name}, which was extended from it and has all of its tokens")
    return DeletedVersion(one.name, one.number, one.digest, False, tuple(goes), tuple(stays))


def stays_after_deletion(registry: Registry) -> tuple[str, ...]:
    """What stays of every version that is deleted, and what removes it, in sentences."""
    stays = [
        f"word counts and checkpoints: {_removal_of_leftovers(registry)}",
        "what was copied elsewhere: exports, encoded datasets, backups, reports of versions that "
        "were compared with it",
    ]
    if registry.workspace.store:
        stays.append(
            "copies that other machines fetched: directories of its digest below `versions` in "
            "their workspaces"
        )
    return tuple(stays)


def _removal_of_leftovers(registry: Registry) -> str:
    """What removes files that nothing needs any more; `gc` refuses shared workspaces."""
    if store := registry.workspace.store:
        return f"lifecycle rules of {store} remove old objects"
    return "`bpeline gc --days 0 --yes` removes what no version needs"


def _extending(registry: Registry, digest: str) -> list[str]:
    """The versions that continue another's merges."""
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
    """What MLflow's interface cannot remove, and the command of its own that does."""
    if not (removed.runs or removed.models):
        return ()
    settings = registry.tracker.settings
    chosen = {"--run-ids": removed.runs, "--logged-model-ids": removed.models}
    ids = " ".join(f"{option} {','.join(ones)}" for option, ones in chosen.items() if ones)
    database = "THE_DATABASE_OF_THE_SERVER" if is_server(settings.uri) else settings.place
    return (
        "hidden in MLflow's database, names, parameters and metrics of runs and models: "
        f"`mlflow gc --backend-store-uri {database} --tracking-uri {settings.place} {ids}` removes "
        "them, and experiments that were deleted there",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
