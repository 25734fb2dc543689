"""What is to be deleted, noted in the outbox: a record for each version until all of it is gone."""

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
    """What was begun, or waits for MLflow; each with the identity of the MLflow that has it."""
    return [note for path in _paths(workspace) if (note := _read(path)) is not None]


def damaged_notes(workspace: Workspace) -> list[str]:
    """The versions whose notes cannot be read, such as ``news/3``, by the names of the files."""
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
    """Note what is to be deleted in one MLflow."""
    for one in chosen:
        record = sealed({"store": store, "deleted": asdict(one)})
        DURABLE.write(workspace.deletion_note(one.name, one.number), canonical_json(record))


def remove(workspace: Workspace, one: Tombstone) -> None:
    """Note it no more: it is done, or nothing was done for it."""
    DURABLE.remove(workspace.deletion_note(one.name, one.number))
