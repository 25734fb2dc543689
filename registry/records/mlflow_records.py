"""What MLflow stores: runs, drift observations, and tags of deleted and rejected versions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bpeline.registry.records.publication import CorpusInput
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.redaction import in_one_line

Curve = tuple[tuple[int, float], ...]  # step and value

_REFUSAL = "refusal."  # followed by the alias
# A drift that retraining cannot end with this evaluation set and these rules.
STUCK = "drifted, and the rules reject the retrained version: change the set, or the rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The content of one MLflow run.

    Only the decisive params, metrics and curves are logged, see `decisive_metrics`.

    Attributes:
        title: run name; empty for ``name-run_id``.
        run_id: the bpeline run; empty for runs other than trainings.
        started_at, ended_at: UTC, ISO 8601; empty for now.
        started_by: a user; empty for the current user.
        metrics: logged at ``step``; names are grouped by ``/``.
        set_number: number of the evaluation set among those of the name; 0 for own texts.
        files: artifact path → a file or its text.
        note: Markdown for the run's page; ``note_file`` is the artifact with the full text.
    """

    name: str
    title: str = ""
    run_id: str = ""
    started_at: str = ""
    ended_at: str = ""
    started_by: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    step: int = 0
    set_number: int = 1
    inputs: tuple[CorpusInput, ...] = ()
    files: Mapping[str, Path | str] = field(default_factory=dict)
    note: str = ""
    note_file: str = ""
    children: tuple[RunRecord, ...] = ()

    @property
    def points(self) -> dict[tuple[str, int], float]:
        """Values by metric name and step; metrics at the full size replace a curve's end."""
        curves = {(key, step): value for key, curve in self.curves.items() for step, value in curve}
        return curves | {(key, self.step): value for key, value in self.metrics.items()}


@dataclass(frozen=True, slots=True)
class DriftObservation:
    """One drift check of new text.

    Attributes:
        said: the version and the verdict of the rules, in a few words.
        time_ms: milliseconds since 1970.
        metrics: ``drift/…`` → value, one point of each series; ``drift/drifted`` is 1, 0, or −1 if
            it could not be judged.
    """

    name: str
    said: str
    time_ms: int
    metrics: Mapping[str, float]
    record: Mapping[str, Any]
    page: str


@dataclass(frozen=True, slots=True)
class PastObservation:
    """An observation as stored in MLflow.

    Attributes:
        time_ms: milliseconds since 1970.
        metrics: the requested metrics that it has, see `DriftObservation`.
    """

    number: int
    time_ms: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A version that was deleted or is being deleted; its number is never reused.

    Stored as a tag of the registered model; ``at`` is UTC, ISO 8601.
    """

    name: str
    number: int
    digest: str
    by: str = ""
    reason: str = ""
    at: str = ""

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"

    def __str__(self) -> str:
        user = f" by {self.by}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        return in_one_line(f"deleted on {self.at[:16].replace('T', ' ')} UTC{user}{reason}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rules rejected a version for an alias; stored as a tag of the version.

    Attributes:
        present: digest of the version that the alias points to.
        new_bytes: bytes of training text that the present version was not trained on; 0 if the
            word counts of either version are gone.
        drifted: whether new text has drifted from the present version and has not grown much since.
    """

    present: str
    rules: str
    evaluation_set: str
    locked: bool
    new_bytes: int
    drifted: bool = False

    def as_tag(self, alias: str) -> dict[str, str]:
        """The tag for an alias."""
        return {f"{_REFUSAL}{alias}": canonical_json(asdict(self)).decode()}


def refusals_in(tags: Mapping[str, str]) -> dict[str, Refusal]:
    """Return alias → refusal from a version's tags; unreadable tags are skipped."""
    refusals = {}
    for key, value in tags.items():
        if key.startswith(_REFUSAL):
            with suppress(TypeError, ValueError):
                refusals[key.removeprefix(_REFUSAL)] = check_fields(
                    Refusal(**parse_json(value.encode()))
                )
    return refusals
