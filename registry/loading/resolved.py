"""What references meant when they were last resolved: one small file each in the workspace.

An alias may have been moved since and an MLflow replaced, so a file is believed only when nobody
else can be asked, and tells when a number changed its meaning.
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
        name: the tokenizer's name; empty for files found by digest alone.
        number: its number in MLflow; 0 likewise.
        digest: its full digest.
        mlflow_run_id: the MLflow run it was registered from.
    """

    name: str
    number: int
    digest: str
    mlflow_run_id: str

    @classmethod
    def of(cls, tracked: TrackedVersion) -> ResolvedVersion:
        """What MLflow says that a reference means."""
        return cls(tracked.name, tracked.number, tracked.digest, tracked.mlflow_run_id)

    def __str__(self) -> str:
        return f"{self.name}/{self.number}" if self.name else self.digest


def remember(
    place: Place, reference: ByAlias | ByNumber, version: ResolvedVersion, store: str
) -> None:
    """Keep what a reference means in one MLflow; not where the workspace can only be read."""
    if recall(place, reference, store) == version or not place.workspace.manifest.exists():
        return
    record = sealed({"store": store, "reference": str(reference), "version": asdict(version)})
    with suppress(OSError, StorageError):
        DURABLE.write(place.workspace.resolved(str(reference)), canonical_json(record))


def forget_resolved(place: Place, name: str, number: int) -> None:
    """Remove every memory of a version: what its number meant, and aliases that pointed to it."""
    for path in place.workspace.resolved_references.glob("*.json"):
        record = _read(path)
        if record is not None and (record[2].name, record[2].number) == (name, number):
            DURABLE.remove(path)


def remembered_numbers(place: Place, store: str) -> Iterator[ResolvedVersion]:
    """What numbers meant in one MLflow when they were last resolved here."""
    for path in place.workspace.resolved_references.glob("*.json"):
        record = _read(path)
        if record is not None and record[:2] == (store, str(record[2])):
            yield record[2]


def recall(place: Place, reference: ByAlias | ByNumber, store: str) -> ResolvedVersion | None:
    """What a reference meant, or None: never resolved here, or in another MLflow."""
    record = _read(place.workspace.resolved(str(reference)))
    return record[2] if record is not None and record[:2] == (store, str(reference)) else None


def _read(path: Path) -> tuple[str, str, ResolvedVersion] | None:
    """In which MLflow, which reference meant what; None for what cannot be read."""
    try:
        record = unsealed(read_json(path, _LARGEST_RECORD))
        version = check_fields(ResolvedVersion(**record["version"]))
        sound = len(version.digest) == DIGEST_LENGTH
        return (record["store"], record["reference"], version) if sound else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
