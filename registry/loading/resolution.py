"""From what a person typed to one version, name, number and digest; and which were deleted.

Names, numbers and aliases are MLflow's, and each number counts only with its digest. While MLflow
does not answer, what was last seen of the same MLflow is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress

from bpeline.registry.loading.resolved import ResolvedVersion as ResolvedVersion
from bpeline.registry.loading.resolved import recall, remember
from bpeline.registry.opening import Registry
from bpeline.registry.records import ByAlias, ByDigest, ByNumber, Tombstone
from bpeline.registry.tracking import is_server, server_alias
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.errors import (
    RegistryError,
    RegistryUnreachable,
    StorageError,
    StoreLost,
    UnknownVersion,
)

_LISTED = 12  # how many versions a message shows


class VersionsLost(UserWarning):
    """MLflow has not all versions any more that it had."""


class StaleAlias(UserWarning):
    """The registry does not answer; the alias is as it was when somebody last asked."""


def resolve(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Find the one version that a reference means now.

    Raises:
        UnknownVersion: there is none, or a digest prefix fits several; lists what exists.
        RegistryError: MLflow has another tokenizer under this number than it had.
        RegistryUnreachable: MLflow does not answer, and nobody here knows.
        StorageError: another MLflow answers than the one that was there.
    """
    if isinstance(reference, ByDigest):
        return _by_digest(registry, reference)
    try:
        if isinstance(reference, ByAlias):
            known = _as_known(registry, reference)
            if known is not None:
                return known
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
                f"{reference} was the tokenizer {before.digest[:12]}, and MLflow at "
                f"{registry.tracker.settings.place} says now that it is {version.digest[:12]}",
                "accepted is an MLflow whose numbers keep their meaning; was it restored from a "
                "backup?",
                f"load {before.digest[:12]} by its digest, or type `bpeline doctor --fix` to "
                "accept what MLflow says",
            )
    else:
        _warn_of_lost(registry, reference, version, recall(registry.place, reference, store))
    remember(registry.place, reference, version, store)
    return version


def tombstones(registry: Registry, name: str | None = None) -> list[Tombstone]:
    """The versions (of a name) that were deleted in the MLflow that is configured.

    Returns:
        By name and number; empty while MLflow does not answer. What MLflow has under such a number
        is still to be removed.
    """
    try:
        return registry.tracker.tombstones(name) if registry.store else []
    except (RegistryUnreachable, StoreLost):
        return []


def _warn_of_lost(
    registry: Registry, alias: ByAlias, now: ResolvedVersion, before: ResolvedVersion | None
) -> None:
    """Say that an alias points elsewhere because MLflow lost the version that it pointed to."""
    if before is None or before.number == now.number:
        return
    if registry.tracker.version(before.name, before.number) is not None:
        return
    if all(one.number != before.number for one in tombstones(registry, before.name)):
        warnings.warn(
            f"{alias} was {before} and is {now}: MLflow has no {before} any more. Was it restored "
            "from a backup? `bpeline doctor` says what it lacks",
            VersionsLost,
            stacklevel=4,
        )


def _as_known(registry: Registry, reference: ByAlias) -> ResolvedVersion | None:
    """What a server's alias means, where it is what it was: one call, and no import of MLflow.

    Raises:
        RegistryUnreachable: no server answers.
    """
    uri = registry.tracker.settings.uri
    known = recall(registry.place, reference, registry.known_store) if is_server(uri) else None
    if known is None:
        return None
    found = server_alias.version_of_alias(uri, reference.name, reference.alias)
    same = found is not None and (found.number, found.digest) == (known.number, known.digest)
    return known if same else None


def _as_remembered(registry: Registry, reference: ByAlias | ByNumber) -> ResolvedVersion | None:
    """What a reference meant in this MLflow, for a day without it: here, or in the catalogue.

    An alias may have been moved since: a `StaleAlias` warning says so.
    """
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
            f"MLflow at {registry.tracker.settings.place} does not answer; {reference} is taken "
            f"to be {version}, as it was last seen here",
            StaleAlias,
            stacklevel=4,
        )
    return version


def _by_digest(registry: Registry, reference: ByDigest) -> ResolvedVersion:
    prefix = reference.prefix
    found: dict[str, ResolvedVersion] = {}
    with suppress(StorageError):  # one that this process may only read, of an earlier release
        found = {
            row.digest: ResolvedVersion("", 0, row.digest, "")
            for row in registry.catalogue.versions()
            if row.digest.startswith(prefix)
        }
    for directory in registry.workspace.versions.glob(f"{prefix}*"):
        if len(directory.name) == DIGEST_LENGTH and directory.name not in found:
            found[directory.name] = ResolvedVersion("", 0, directory.name, "")
    try:
        for tracked in reversed(registry.tracker.versions()):
            if tracked.digest.startswith(prefix):
                found[tracked.digest] = ResolvedVersion.of(tracked)
    except RegistryUnreachable:
        if not found:
            raise
    if len(found) > 1:
        raise UnknownVersion(
            f"{len(found)} tokenizers have a digest beginning with {prefix}",
            f"they are {_enumerated(sorted(found))}",
            "type more digits",
        )
    if not found:
        _refuse_deleted(registry, reference)
        raise _unknown(registry, f"a digest beginning with {prefix}", None)
    return found.popitem()[1]


def _refuse_deleted(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> None:
    """Raise UnknownVersion where a number or a digest is that of a version that was deleted."""
    if isinstance(reference, ByAlias):
        return
    name = reference.name if isinstance(reference, ByNumber) else None
    for one in tombstones(registry, name):
        if isinstance(reference, ByNumber):
            meant = one.number == reference.number
        else:
            meant = one.digest.startswith(reference.prefix)
        if meant:
            raise UnknownVersion(
                f"{one.reference} ({one.digest[:12]}) was {one}",
                "accepted are versions that there are; a deleted number is never used again",
                f"type `bpeline versions {one.name}` to see them",
            )


def _unknown(registry: Registry, wanted: str, name: str | None) -> UnknownVersion:
    """Say what does not exist, and what does."""
    tracked = registry.tracker.versions()
    names = {one.name for one in tracked}
    known = {f"{one.name}/{one.number}" for one in tracked if name in (None, one.name)}
    aliases = {f"{one}@{a}" for one, at in registry.tracker.aliases(name).items() for a in at}
    if name is not None and not known:
        what = f"no tokenizer is called {name}"
        exists = f"known are {_enumerated(sorted(names))}" if names else "the registry is empty"
    else:
        what = f"there is no {wanted}" if name else f"no version has {wanted}"
        everything = sorted(aliases) + sorted(known)
        exists = f"known are {_enumerated(everything)}" if everything else "the registry is empty"
    there = _elsewhere(registry, name)
    alias = wanted.removeprefix(f"{name}@")
    if name is not None and known and alias != wanted:
        latest = max(one.number for one in tracked if one.name == name)
        advice = f"or `bpeline promote {name}/{latest} --to {alias}` to let it name the latest"
    else:
        advice = "or `bpeline train` to make one"
    return UnknownVersion(
        f"{what} in MLflow at {registry.tracker.settings.place}{there}",
        exists,
        f"type `bpeline versions` to see them all, {advice}",
    )


def _elsewhere(registry: Registry, name: str | None) -> str:
    """That versions of the name were registered in another MLflow."""
    others: list[str] = []
    with suppress(StorageError, RegistryUnreachable):
        others = [
            f"{one.name}/{one.number} ({one.digest[:12]})"
            for one in registry.catalogue.registrations(name)
            if one.store != registry.known_store
        ]
    return f"; another MLflow has {_enumerated(others)}" if others else ""


def _enumerated(texts: Iterable[str]) -> str:
    shown = list(texts)
    more = "" if len(shown) <= _LISTED else f" and {len(shown) - _LISTED} more"
    return ", ".join(shown[:_LISTED]) + more
