"""The content of MLflow runs: trainings and drift observations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpeline.registry.records.publication import CorpusInput

Curve = tuple[tuple[int, float], ...]  # step and value


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
