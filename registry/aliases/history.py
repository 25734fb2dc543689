"""The history of a name: cost of each version on the same text, aliases, drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.catalogue import utc_now
from bpeline.registry.evaluation_sets import changes_from, has_set, kept_measurement, read_set
from bpeline.registry.loading import PAGES
from bpeline.registry.records import CHAMPION, validate_name
from bpeline.registry.tracking import DRIFTED
from bpeline.registry.versions import deleted_versions, list_versions
from bpeline.tokenizer_core.errors import CorruptFile, RegistryError, UnknownVersion
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN, of_slice

if TYPE_CHECKING:
    from bpeline.registry.catalogue import AliasMove, NamedSet, Version
    from bpeline.registry.evaluation_sets import EvaluationSet
    from bpeline.registry.opening import Registry
    from bpeline.registry.records import PastObservation, Tombstone
    from bpeline.registry.versions import ListedVersion
    from bpeline.tokenizer_core.evaluation import Change

MOST_CHANGES = 50  # only the latest versions are compared

NEW_TEXT_COST = f"drift/{of_slice(BYTES_PER_TOKEN, ALL)}"
OWN_TEXT_COST = f"{NEW_TEXT_COST}.own"
WATCHED = "drift/version"


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A version in the history of its name.

    Attributes:
        not_compared: why its figures cannot be compared with the others; empty if they can.
        bytes_per_token: on the current evaluation set; None if not compared.
        change: of tokens from `NameHistory.reference`; None for the reference itself and if
            unknown.
        report: its report page, if it is in this workspace.
    """

    version: ListedVersion
    not_compared: str
    bytes_per_token: float | None
    change: Change | None
    report: Path | None


@dataclass(frozen=True, slots=True)
class NameHistory:
    """Everything about a name over time.

    Attributes:
        at: when this was read; UTC, ISO 8601.
        measured_on: the evaluation set as text; empty if the name has none.
        versions: by number; may be empty if versions were deleted.
        reference: the version that changes are measured from: the champion, else the latest.
        moves: of its aliases, newest first.
        observations: of drift, in order; None if MLflow does not answer.
    """

    name: str
    at: str
    measured_on: str
    versions: tuple[PastVersion, ...]
    reference: ListedVersion | None
    moves: tuple[AliasMove, ...]
    deleted: tuple[Tombstone, ...]
    observations: tuple[PastObservation, ...] | None

    @property
    def compared(self) -> tuple[PastVersion, ...]:
        return tuple(version for version in self.versions if version.bytes_per_token is not None)


def name_history(registry: Registry, name: str) -> NameHistory:
    """Read the history of a name, as last seen if MLflow does not answer.

    Raises:
        UnknownVersion: the name never had a version.
    """
    listed = list_versions(validate_name(name), registry)
    deleted = deleted_versions(name, registry)
    if not listed and not deleted:
        raise UnknownVersion(
            f"no version of {name} is registered",
            "expected a name with a version",
            "type `bpeline versions` to see what is registered",
        )
    catalogue, current_set = registry.catalogue, registry.catalogue.evaluation_set(name)
    rows = {row.digest: row for row in catalogue.versions(name)}
    evaluation_set = _evaluation_set(registry, current_set)
    not_compared = {
        version.number: _not_compared(version, rows.get(version.digest), current_set)
        for version in listed
    }
    compared = [version for version in listed if not not_compared[version.number]]
    champion = [version for version in compared if CHAMPION in version.aliases]
    reference = next(iter(champion or compared[-1:]), None)
    changes = _changes(registry, evaluation_set, reference, compared)
    return NameHistory(
        name=name,
        at=utc_now(),
        measured_on=_in_words(current_set, evaluation_set),
        versions=tuple(
            PastVersion(
                version,
                not_compared[version.number],
                None if not_compared[version.number] else version.metrics[BYTES_PER_TOKEN],
                changes.get(version.digest),
                _report(registry, version.digest),
            )
            for version in listed
        ),
        reference=reference,
        moves=tuple(catalogue.alias_history(name, store=registry.known_store)),
        deleted=tuple(deleted),
        observations=_observations(registry, name),
    )


def _not_compared(one: ListedVersion, row: Version | None, named: NamedSet | None) -> str:
    if BYTES_PER_TOKEN not in one.metrics:
        return "it is not known what it was measured on"
    if one.comparable:
        return ""
    if row is None or not row.measured_on:
        return "measured on text of its own training"
    now = f"{one.name} has set {named.digest[:8]} now" if named else f"{one.name} has no set"
    return f"measured on evaluation set {row.measured_on[:8]}; {now}"


def _evaluation_set(registry: Registry, named: NamedSet | None) -> EvaluationSet | None:
    if named is None or not has_set(registry.workspace, named.digest):
        return None
    try:
        return read_set(registry.workspace, named.digest)
    except (CorruptFile, OSError):
        return None


def _in_words(named: NamedSet | None, made: EvaluationSet | None) -> str:
    if named is None:
        return ""
    return f"evaluation set {named.digest[:8]}" if made is None else str(made)


def _changes(
    registry: Registry,
    made: EvaluationSet | None,
    reference: ListedVersion | None,
    compared: Sequence[ListedVersion],
) -> dict[str, Change]:
    """Changes by digest; empty if the tokens per document are not known."""
    if made is None or reference is None:
        return {}
    before = kept_measurement(registry.workspace, made, reference.digest)
    if before is None:
        return {}
    others = [
        measurement
        for entry in compared[-MOST_CHANGES:]
        if entry.digest != reference.digest
        and (measurement := kept_measurement(registry.workspace, made, entry.digest)) is not None
    ]
    changes = changes_from(before, others)
    return {entry.digest: change for entry, change in zip(others, changes, strict=True)}


def _report(registry: Registry, digest: str) -> Path | None:
    path = Path(registry.workspace.version_directory(digest)) / PAGES / "report.html"
    return path.absolute() if path.is_file() else None


def _observations(registry: Registry, name: str) -> tuple[PastObservation, ...] | None:
    metrics = (DRIFTED, WATCHED, NEW_TEXT_COST, OWN_TEXT_COST)
    try:
        return tuple(registry.tracker.runs.past_observations(name, metrics))
    except RegistryError:
        return None
