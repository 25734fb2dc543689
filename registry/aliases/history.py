"""The versions of a name together: what each costs on the same text, which was in use, drift.

Reads what is remembered and measures nothing; knows no page.
"""

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

MOST_CHANGES = 50  # of more versions, the latest

NEW_TEXT_COST = f"drift/{of_slice(BYTES_PER_TOKEN, ALL)}"
OWN_TEXT_COST = f"{NEW_TEXT_COST}.own"
WATCHED = "drift/version"


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A version beside the others of its name.

    Attributes:
        version: which one.
        not_compared: why its figures are not beside those of the others; empty where they are.
        bytes_per_token: on the evaluation set that the name has; None where it is not compared.
        change: of the tokens for the same documents, from those of `NameHistory.reference`; None
            for that one itself, and where the tokens of each document are not known here.
        report: its page of figures in this workspace; None where there is none.
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
        name: of the tokenizer.
        at: when this was read, UTC, ISO 8601.
        measured_on: the evaluation set in words; empty where the name has none.
        versions: by number, at least one or one that was deleted.
        reference: the version that changes are from, the champion where that is compared.
        moves: of its aliases, newest first.
        deleted: versions that are gone.
        observations: of drift, in order, see the names of metrics above; None while MLflow does not
            answer.
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
        """The versions whose figures are of the same text."""
        return tuple(one for one in self.versions if one.bytes_per_token is not None)


def name_history(registry: Registry, name: str) -> NameHistory:
    """Read everything about the versions of a name.

    While MLflow does not answer, versions and aliases are those that were last seen of it (with a
    warning, see `list_versions`).

    Raises:
        InvalidOption: a misspelt name.
        UnknownVersion: it has no version, and never had one.
        StorageError: a store that was here is lost.
    """
    listed = list_versions(validate_name(name), registry)
    deleted = deleted_versions(name, registry)
    if not listed and not deleted:
        raise UnknownVersion(
            f"no version of {name} is registered",
            "accepted are names with a version",
            "type `bpeline versions` to see what is registered",
        )
    catalogue, named = registry.catalogue, registry.catalogue.evaluation_set(name)
    rows = {row.digest: row for row in catalogue.versions(name)}
    made = _evaluation_set(registry, named)
    not_compared = {one.number: _not_compared(one, rows.get(one.digest), named) for one in listed}
    compared = [one for one in listed if not not_compared[one.number]]
    champion = [one for one in compared if CHAMPION in one.aliases]
    reference = next(iter(champion or compared[-1:]), None)
    changes = _changes(registry, made, reference, compared)
    return NameHistory(
        name=name,
        at=utc_now(),
        measured_on=_in_words(named, made),
        versions=tuple(
            PastVersion(
                one,
                not_compared[one.number],
                None if not_compared[one.number] else one.metrics[BYTES_PER_TOKEN],
                changes.get(one.digest),
                _report(registry, one.digest),
            )
            for one in listed
        ),
        reference=reference,
        moves=tuple(catalogue.alias_history(name, store=registry.known_store)),
        deleted=tuple(deleted),
        observations=_observations(registry, name),
    )


def _not_compared(one: ListedVersion, row: Version | None, named: NamedSet | None) -> str:
    if BYTES_PER_TOKEN not in one.metrics:
        return "nothing is known of what it was measured on"
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
    """By digest; empty where the tokens of each document are not known."""
    if made is None or reference is None:
        return {}
    before = kept_measurement(registry.workspace, made, reference.digest)
    if before is None:
        return {}
    others = [
        found
        for one in compared[-MOST_CHANGES:]
        if one.digest != reference.digest
        and (found := kept_measurement(registry.workspace, made, one.digest)) is not None
    ]
    changes = changes_from(before, others)
    return {one.digest: change for one, change in zip(others, changes, strict=True)}


def _report(registry: Registry, digest: str) -> Path | None:
    path = Path(registry.workspace.version_directory(digest)) / PAGES / "report.html"
    return path.absolute() if path.is_file() else None


def _observations(registry: Registry, name: str) -> tuple[PastObservation, ...] | None:
    wanted = (DRIFTED, WATCHED, NEW_TEXT_COST, OWN_TEXT_COST)
    try:
        return tuple(registry.tracker.runs.past_observations(name, wanted))
    except RegistryError:
        return None
