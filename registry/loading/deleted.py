"""Which versions were deleted: as MLflow says, and as the catalogue remembers; deletes nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bpeline.registry.catalogue import Deletion
from bpeline.tokenizer_core.errors import RegistryUnreachable, StorageError, StoreLost

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry


def tombstones(registry: Registry, name: str | None = None) -> list[Deletion]:
    """The versions (of a name) that were deleted in the MLflow that is configured.

    Those of other workspaces too, as long as MLflow answers.

    Returns:
        By name and number. What MLflow has under such a number is still to be removed.
    """
    found: dict[tuple[str, int], Deletion] = {}
    try:
        store = registry.store
        for told in registry.tracker.tombstones(name) if store else ():
            found[told.name, told.number] = Deletion(
                store, told.name, told.number, told.digest, told.by, told.reason, told.at, told.at
            )
    except (RegistryUnreachable, StoreLost):
        store = registry.known_store
    with suppress(StorageError):  # a catalogue of an earlier release, which may only be read
        for one in registry.catalogue.deletions(name, store):
            if one.done_at:
                found[one.name, one.number] = one
    return [found[key] for key in sorted(found)]


def deleted_digests(registry: Registry) -> dict[tuple[str, str], Deletion]:
    """The same by name and digest, the newest where a tokenizer was deleted more than once."""
    found = sorted(tombstones(registry), key=lambda one: one.at)
    return {(one.name, one.digest): one for one in found}
