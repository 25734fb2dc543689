"""From what a person typed to one version: its name, number, digest and place in MLflow.

Aliases are MLflow's, because people move them in its UI; numbers and digests never change, so the
catalogue answers for them and MLflow is asked only about what it does not know.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import assert_never

from bpeline.registry.loading.resolved import ResolvedVersion as ResolvedVersion
from bpeline.registry.loading.resolved import recall, remember
from bpeline.registry.opening import Place, Registry
from bpeline.registry.references import ByAlias, ByDigest, ByNumber
from bpeline.registry.tracking import TrackedVersion, tracked_alias
from bpeline.registry.version_files import holds_version
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.errors import RegistryUnreachable, StorageError, UnknownVersion

_LISTED = 12  # how many versions a message shows


class StaleAlias(UserWarning):
    """The registry does not answer; the alias is as it was when somebody last asked."""


def resolve(registry: Registry, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion:
    """Find the one version that a reference means now.

    Raises:
        UnknownVersion: there is none, or a digest prefix fits several; lists what exists.
        RegistryUnreachable: MLflow does not answer and the catalogue does not know.
    """
    match reference:
        case ByAlias():
            return _by_alias(registry, reference)
        case ByNumber():
            version = _by_number(registry, reference)
            remember(registry.place, reference, version)
            return version
        case ByDigest():
            return _by_digest(registry, reference)
    assert_never(reference)


def resolve_kept(place: Place, reference: ByAlias | ByNumber | ByDigest) -> ResolvedVersion | None:
    """The version a reference means now, if that is certain here and its files are kept.

    Imports neither MLflow nor SQLAlchemy, so that a program that loads what it loaded before is
    not kept waiting for them.

    Returns:
        None where `resolve` has to be asked.
    """
    version: ResolvedVersion | None = None
    match reference:
        case ByAlias():
            version = recall(place, reference)
            tracked = tracked_alias(place.tracking_uri, reference.name, reference.alias)
            if version is None or tracked is None or tracked.digest != version.digest:
                return None
        case ByNumber():
            version = recall(place, reference)
        case ByDigest():
            if len(reference.prefix) == DIGEST_LENGTH:
                version = ResolvedVersion("", 0, reference.prefix, 0, "")
    kept = version is not None and holds_version(place.workspace, version.digest)
    return version if kept else None


def resolve_as_remembered(
    place: Place, reference: ByAlias | ByNumber | ByDigest
) -> ResolvedVersion | None:
    """What a reference meant when it was last resolved, for a day without a registry.

    An alias may have been moved since: a `StaleAlias` warning says so.

    Returns:
        None when it was never resolved here, or its files are not kept.
    """
    version = None if isinstance(reference, ByDigest) else recall(place, reference)
    if version is None or not holds_version(place.workspace, version.digest):
        return None
    if isinstance(reference, ByAlias):
        warnings.warn(
            f"the registry does not answer; {reference} is taken to be {version}, as when it was "
            "last resolved here",
            StaleAlias,
            stacklevel=3,
        )
    return version


def _by_alias(registry: Registry, reference: ByAlias) -> ResolvedVersion:
    name, alias = reference.name, reference.alias
    try:
        tracked = registry.tracker.version_of_alias(name, alias)
    except RegistryUnreachable:
        remembered = registry.catalogue.aliases(name).get(alias)
        if remembered is None:
            raise
        warnings.warn(
            f"MLflow at {registry.tracker.settings.place} does not answer; {reference} is taken "
            f"to be {name}/{remembered}, as the catalogue remembers it",
            StaleAlias,
            stacklevel=4,
        )
        return _by_number(registry, ByNumber(name, remembered))
    if tracked is None or not tracked.digest:
        raise _unknown(registry, str(reference), name)
    found = _known_version(registry, tracked)
    # Remember where people moved it, for the day MLflow does not answer; a catalogue that this
    # process may only read is no reason to fail.
    with suppress(StorageError):
        row = registry.catalogue.find_version(name, tracked.digest)
        if row is not None and registry.catalogue.aliases(name).get(alias) != row.number:
            registry.catalogue.set_alias(
                name, alias, row.number, by="mlflow", reason="moved in MLflow"
            )
    remember(registry.place, reference, found)
    return found


def _by_number(registry: Registry, reference: ByNumber) -> ResolvedVersion:
    for row in registry.catalogue.versions(reference.name):
        if row.number == reference.number:
            return ResolvedVersion(
                row.name, row.number, row.digest, int(row.mlflow_version or 0), row.mlflow_run_id
            )
    tracked = registry.tracker.version(reference.name, reference.number)
    if tracked is None or not tracked.digest:
        raise _unknown(registry, str(reference), reference.name)
    return _known_version(registry, tracked)


def _by_digest(registry: Registry, reference: ByDigest) -> ResolvedVersion:
    prefix = reference.prefix
    found = {
        row.digest: ResolvedVersion(
            row.name, row.number, row.digest, int(row.mlflow_version or 0), row.mlflow_run_id
        )
        for row in reversed(registry.catalogue.versions())
        if row.digest.startswith(prefix)
    }
    for directory in registry.workspace.versions.glob(f"{prefix}*"):
        if len(directory.name) == DIGEST_LENGTH and directory.name not in found:
            found[directory.name] = ResolvedVersion("", 0, directory.name, 0, "")
    if not found:
        found = {
            tracked.digest: _known_version(registry, tracked)
            for tracked in reversed(registry.tracker.find_digest(prefix))
        }
    if len(found) > 1:
        raise UnknownVersion(
            f"{len(found)} tokenizers have a digest beginning with {prefix}",
            f"they are {_enumerated(sorted(found))}",
            "type more digits",
        )
    if not found:
        raise _unknown(registry, f"a digest beginning with {prefix}", None)
    return found.popitem()[1]


def _known_version(registry: Registry, tracked: TrackedVersion) -> ResolvedVersion:
    row = registry.catalogue.find_version(tracked.name, tracked.digest)
    number = tracked.number if row is None else row.number
    return ResolvedVersion(
        tracked.name, number, tracked.digest, tracked.number, tracked.mlflow_run_id
    )


def _unknown(registry: Registry, wanted: str, name: str | None) -> UnknownVersion:
    """Say what does not exist, and what does."""
    names = {row.name for row in registry.catalogue.versions()}
    known = {row.reference for row in registry.catalogue.versions(name)}
    aliases: set[str] = set()
    try:
        tracked = registry.tracker.versions(name)
        names |= {one.name for one in tracked}
        known |= {f"{one.name}/{one.number}" for one in tracked}
        for one in {one.name for one in tracked}:
            aliases |= {f"{one}@{alias}" for alias in registry.tracker.aliases(one)}
    except RegistryUnreachable:
        pass  # the catalogue's answer is better than none
    if name is not None and not known:
        what = f"no tokenizer is called {name}"
        exists = f"known are {_enumerated(sorted(names))}" if names else "the registry is empty"
    else:
        what = f"there is no {wanted}" if name else f"no version has {wanted}"
        everything = sorted(aliases) + sorted(known)
        exists = f"known are {_enumerated(everything)}" if everything else "the registry is empty"
    return UnknownVersion(
        what, exists, "type `bpeline versions` to see them all, or `bpeline train` to make one"
    )


def _enumerated(texts: Iterable[str]) -> str:
    shown = list(texts)
    more = "" if len(shown) <= _LISTED else f" and {len(shown) - _LISTED} more"
    return ", ".join(shown[:_LISTED]) + more
