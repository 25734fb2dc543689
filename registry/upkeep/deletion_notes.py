"""Deletion notes in the outbox: one for each version that is being deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.records import Tombstone
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.records import check_fields

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace


def noted_deletions(workspace: Workspace) -> list[tuple[str, Tombstone]]:
    """Return the pending deletions, each with the identity of its MLflow."""
    return [note for path in _paths(workspace) if (note := _read(path)) is not None]


def damaged_notes(workspace: Workspace) -> list[str]:
    """Return the versions with unreadable notes, such as ``news/3``."""
    stems = [path.stem for path in _paths(workspace) if _read(path) is None]
    return ["/".join(stem.rsplit(".", 1)) for stem in stems]


def _paths(workspace: Workspace) -> list[Path]:
    return sorted(Path(workspace.outbox).glob("*.deletion"))


def _read(path: Path) -> tuple[str, Tombstone] | None:
    try:
        record = unsealed(read_json(path))
        return str(record["store"]), check_fields(Tombstone(**record["deleted"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(workspace: Workspace, store: str, chosen: Iterable[Tombstone]) -> None:
    """Write notes for versions to be deleted from one MLflow."""
    for tombstone in chosen:
        record = sealed({"store": store, "deleted": asdict(tombstone)})
        DURABLE.write(
            workspace.deletion_note(tombstone.name, tombstone.number), canonical_json(record)
        )


def remove(workspace: Workspace, one: Tombstone) -> None:
    """Remove the note of a version."""
    DURABLE.remove(workspace.deletion_note(one.name, one.number))
