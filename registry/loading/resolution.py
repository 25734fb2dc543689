"""Resolve a reference to one version: name, number and digest.

MLflow has names, numbers and aliases; each number is checked against its digest. If MLflow does not
answer, the last known state of the same MLflow is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bpeline.registry.opening import Registry
from bpeline.registry.records import ByAlias, ByDigest, ByNumber, Tombstone
from bpeline.registry.tracking import is_server, server_alias
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import DIGEST_LENGTH, canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    RegistryError,
    RegistryUnreachable,
    StorageError,
    StoreLost,
    UnknownVersion,
)
from bpeline.tokenizer_core.records import check_fields

if TYPE_CHECKING:
    from pathlib import Path

    from bpeline.registry.opening import Place
    from bpeline.registry.tracking import TrackedVersion

_LARGEST_RECORD = 4096  # bytes
_LISTED = 12  # versions in a message


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """One existing version.

    Attributes:
        name, number: empty and 0 for files found by digest.
        digest: the full digest.
        mlflow_run_id: the MLflow run it was registered from.
    """

    name: str
    number: int
    digest: str
    mlflow_run_id: str

    @classmethod
    def of(cls, tracked: TrackedVersion) -> ResolvedVersion:
        return cls(tracked.name, tracked.number, tracked.digest, tracked.mlflow_run_id)

    def __str__(self) -> str:
        return f"{self.name}/{self.number}" if self.name else self.digest


def remember(
    place: Place, reference: ByAlias | ByNumber, version: ResolvedVersion, store: str
) -> None:
    """Store what a reference means in one MLflow; no-op in a read-only workspace."""
    if recall(place, reference, store) == version or not place.workspace.manifest.exists():
        return
    record = sealed({"store": store, "reference": str(reference), "version": asdict(version)})
    with suppress(OSError, StorageError):
        DURABLE.write(place.workspace.resolved(str(reference)), canonical_json(record))


def forget_resolved(place: Place, name: str, number: int) -> None:
    """Remove all files that refer to a version."""
    for path in place.workspace.resolved_references.glob("*.json"):
        record = _read(path)
        if record is not None and (record[2].name, record[2].number) == (name, number):
            DURABLE.remove(path)


def remembered_numbers(place: Place, store: str) -> Iterator[ResolvedVersion]:
    """Yield the stored versions of one MLflow that were resolved by number."""
    for path in place.workspace.resolved_references.glob("*.json"):
        record = _read(path)
        if record is not None and record[:2] == (store, str(record[2])):
            yield record[2]


def recall(place: Place, reference: ByAlias | ByNumber, store: str) -> ResolvedVersion | None:
    """Return the stored meaning of a reference in this MLflow, or None."""
    record = _read(place.workspace.resolved(str(reference)))
    return record[2] if record is not None and record[:2] == (store, str(reference)) else None


def _read(path: Path) -> tuple[str, str, ResolvedVersion] | None:
    """MLflow identity, reference and version of a file; None if it is unreadable."""
    try:
        record = unsealed(read_json(path, _LARGEST_RECORD))
        version = check_fields(ResolvedVersion(**record["version"]))
        is_valid = len(version.digest) == DIGEST_LENGTH
        return (record["store"], record["reference"], version) if is_valid else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


class VersionsLost(UserWarning):
    """MLflow lacks versions that it had before."""


class StaleAlias(UserWarning):
    """MLflow does not answer; the alias may have moved since it was last read."""


def resolve(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Find the version that a reference means now.

    Raises:
        UnknownVersion: there is none, or a digest prefix is ambiguous; lists what exists.
        RegistryError: MLflow has another tokenizer under this number than before.
        RegistryUnreachable: MLflow does not answer, and nothing is known here.
        StorageError: another MLflow than before answers.
    """
    if isinstance(reference, ByDigest):
        return _by_digest(registry, reference)
    try:
        if isinstance(reference, ByAlias):
            known_version = _as_known(registry, reference)
            if known_version is not None:
                return known_version
        store = registry.store
        if isinstance(reference, ByAlias):
            tracked = registry.tracker.version_of_alias(reference.name, reference.alias)
        else:
            tracked = registry.tracker.version(reference.name, reference.number)
    except RegistryUnreachable:
        version = _as_remembered(registry, reference)
        if version is None:
            _refuse_deleted(registry, reference)
            raise
        return version
    if tracked is None or not tracked.digest:
        _refuse_deleted(registry, reference)
        raise _unknown(registry, str(reference), reference.name)
    version = ResolvedVersion.of(tracked)
    if isinstance(reference, ByNumber):
        before = recall(registry.place, reference, store)
        if before is not None and before.digest != version.digest:
            raise RegistryError(
                f"{reference} was the tokenizer {before.digest[:12]}, but MLflow at "
                f"{registry.tracker.settings.place} says now that it is {version.digest[:12]}",
                "expected the same tokenizer under a number; was MLflow restored from a backup?",
                f"load {before.digest[:12]} by its digest, or type `bpeline doctor --fix` to "
                "accept what MLflow says",
            )
    else:
        _warn_of_lost(registry, reference, version, recall(registry.place, reference, store))
    remember(registry.place, reference, version, store)
    return version


def tombstones(registry: Registry, name: str | None = None) -> list[Tombstone]:
    """Return deleted versions, or those of a name; empty if MLflow does not answer."""
    try:
        return registry.tracker.tombstones(name) if registry.store else []
    except (RegistryUnreachable, StoreLost):
        return []


def _warn_of_lost(
    registry: Registry, alias: ByAlias, now: ResolvedVersion, before: ResolvedVersion | None
) -> None:
    """Warn if an alias moved because MLflow lost the version before."""
    if before is None or before.number == now.number:
        return
    if registry.tracker.version(before.name, before.number) is not None:
        return
    if all(tombstone.number != before.number for tombstone in tombstones(registry, before.name)):
        warnings.warn(
            f"{alias} was {before} and is {now}: MLflow has no {before} any more. Was it restored "
            "from a backup? `bpeline doctor` lists what is missing",
            VersionsLost,
            stacklevel=4,
        )


def _as_known(registry: Registry, reference: ByAlias) -> ResolvedVersion | None:
    """The known version of a server's alias if it has not moved; one cheap request."""
    uri = registry.tracker.settings.uri
    known_version = (
        recall(registry.place, reference, registry.known_store) if is_server(uri) else None
    )
    if known_version is None:
        return None
    current = server_alias.version_of_alias(uri, reference.name, reference.alias)
    same = current is not None and (current.number, current.digest) == (
        known_version.number,
        known_version.digest,
    )
    return known_version if same else None


def _as_remembered(registry: Registry, reference: ByAlias | ByNumber) -> ResolvedVersion | None:
    """The last known meaning of a reference; warns with `StaleAlias` for an alias."""
    store, name = registry.known_store, reference.name
    version = recall(registry.place, reference, store)
    if version is None:
        with suppress(StorageError, RegistryUnreachable):
            number = reference.number if isinstance(reference, ByNumber) else None
            if isinstance(reference, ByAlias):
                moves = registry.catalogue.alias_history(name, reference.alias, store)
                number = moves[0].to_number if moves else None
            for row in registry.catalogue.registrations(name, store):
                if row.number == number:
                    version = ResolvedVersion(name, number, row.digest, "")
    if version is not None and isinstance(reference, ByAlias):
        warnings.warn(
            f"MLflow at {registry.tracker.settings.place} does not answer; using {version} for "
            f"{reference}, as last seen here",
            StaleAlias,
            stacklevel=4,
        )
    return version


def _by_digest(registry: Registry, reference: ByDigest) -> ResolvedVersion:
    prefix = reference.prefix
    matches: dict[str, ResolvedVersion] = {}
    with suppress(StorageError):  # a read-only catalogue of an earlier release
        matches = {
            row.digest: ResolvedVersion("", 0, row.digest, "")
            for row in registry.catalogue.versions()
            if row.digest.startswith(prefix)
        }
    for directory in registry.workspace.versions.glob(f"{prefix}*"):
        if len(directory.name) == DIGEST_LENGTH and directory.name not in matches:
            matches[directory.name] = ResolvedVersion("", 0, directory.name, "")
    try:
        for tracked in reversed(registry.tracker.versions()):
            if tracked.digest.startswith(prefix):
                matches[tracked.digest] = ResolvedVersion.of(tracked)
    except RegistryUnreachable:
        if not matches:
            raise
    if len(matches) > 1:
        raise UnknownVersion(
            f"{len(matches)} tokenizers have a digest beginning with {prefix}",
            f"they are {_enumerated(sorted(matches))}",
            "type more digits",
        )
    if not matches:
        _refuse_deleted(registry, reference)
        raise _unknown(registry, f"a digest beginning with {prefix}", None)
    return matches.popitem()[1]


def _refuse_deleted(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> None:
    """Raise UnknownVersion if a number or digest is that of a deleted version."""
    if isinstance(reference, ByAlias):
        return
    name = reference.name if isinstance(reference, ByNumber) else None
    for tombstone in tombstones(registry, name):
        if isinstance(reference, ByNumber):
            is_match = tombstone.number == reference.number
        else:
            is_match = tombstone.digest.startswith(reference.prefix)
        if is_match:
            raise UnknownVersion(
                f"{tombstone.reference} ({tombstone.digest[:12]}) was {tombstone}",
                "expected an existing version; a deleted number is never used again",
                f"type `bpeline versions {tombstone.name}` to see them",
            )


def _unknown(registry: Registry, wanted: str, name: str | None) -> UnknownVersion:
    tracked = registry.tracker.versions()
    names = {one.name for one in tracked}
    known = {f"{one.name}/{one.number}" for one in tracked if name in (None, one.name)}
    aliases = {f"{one}@{a}" for one, at in registry.tracker.aliases(name).items() for a in at}
    if name is not None and not known:
        what = f"no tokenizer is called {name}"
        exists = (
            f"expected one of {_enumerated(sorted(names))}" if names else "the registry is empty"
        )
    else:
        what = f"there is no {wanted}" if name else f"no version has {wanted}"
        everything = sorted(aliases) + sorted(known)
        exists = (
            f"expected one of {_enumerated(everything)}" if everything else "the registry is empty"
        )
    there = _elsewhere(registry, name)
    alias = wanted.removeprefix(f"{name}@")
    if name is not None and known and alias != wanted:
        latest = max(one.number for one in tracked if one.name == name)
        advice = f"or `bpeline promote {name}/{latest} --to {alias}` to create it"
    else:
        advice = "or `bpeline train` to make one"
    return UnknownVersion(
        f"{what} in MLflow at {registry.tracker.settings.place}{there}",
        exists,
        f"type `bpeline versions` to see them all, {advice}",
    )


def _elsewhere(registry: Registry, name: str | None) -> str:
    """A note on versions of the name in another MLflow; may be empty."""
    others: list[str] = []
    with suppress(StorageError, RegistryUnreachable):
        others = [
            f"{registration.name}/{registration.number} ({registration.digest[:12]})"
            for registration in registry.catalogue.registrations(name)
            if registration.store != registry.known_store
        ]
    return f"; another MLflow has {_enumerated(others)}" if others else ""


def _enumerated(texts: Iterable[str]) -> str:
    shown = list(texts)
    more = "" if len(shown) <= _LISTED else f" and {len(shown) - _LISTED} more"
    return ", ".join(shown[:_LISTED]) + more
