"""Which versions were deleted, as MLflow says; deletes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.tokenizer_core.errors import RegistryUnreachable, StoreLost

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.records import Tombstone


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


def deleted_digests(registry: Registry) -> dict[tuple[str, str], Tombstone]:
    """The same by name and digest, the newest where a tokenizer was deleted more than once."""
    found = sorted(tombstones(registry), key=lambda one: one.at)
    return {(one.name, one.digest): one for one in found}
