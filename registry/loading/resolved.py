"""The last known meaning of references, one small file each in the workspace.

An alias may have moved or MLflow been replaced since, so the files are used only while MLflow does
not answer, and to notice that a number changed its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bpeline.registry.records import ByAlias, ByNumber
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import DIGEST_LENGTH, canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.records import check_fields

if TYPE_CHECKING:
    from pathlib import Path

    from bpeline.registry.opening import Place
    from bpeline.registry.tracking import TrackedVersion

_LARGEST_RECORD = 4096  # bytes


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
