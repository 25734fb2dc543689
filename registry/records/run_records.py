"""The values that MLflow's runs are written from: of what was done, and of drift that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpeline.registry.records.publication import CorpusInput

Curve = tuple[tuple[int, float], ...]  # step and value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What one MLflow run shows.

    Attributes:
        name: of the tokenizer, and of the experiment.
        title: of the run; empty for the name with ``run_id``.
        run_id: our run; empty for runs of no training.
        started_at, ended_at: UTC, ISO 8601; empty for now.
        started_by: a user; empty for this one.
        params: the decisive ones are logged.
        metrics: likewise, at ``step``; names are grouped by ``/``.
        curves: likewise; each has steps of its own.
        step: the vocab size.
        set_number: of the evaluation set among those of the name; 0 for texts of its own.
        files: place among the artifacts → a file of that name, or a text.
        note: Markdown for the run's page; ``note_file`` is the artifact that has all of it.
        children: nested runs.
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
        """Value by name and step; what is measured at the full size replaces a curve's end."""
        curves = {(key, step): value for key, curve in self.curves.items() for step, value in curve}
        return curves | {(key, self.step): value for key, value in self.metrics.items()}


@dataclass(frozen=True, slots=True)
class DriftObservation:
    """One look at new text.

    Attributes:
        name: of the tokenizer, which is the experiment's too.
        said: which version, and what the rules said, in a few words.
        time_ms: when, in milliseconds since 1970.
        metrics: ``drift/…`` → value: one point of each series; ``drift/drifted`` is 1, or 0, or −1
            where it could not be judged.
        record: everything, as JSON values.
        page: Markdown.
    """

    name: str
    said: str
    time_ms: int
    metrics: Mapping[str, float]
    record: Mapping[str, Any]
    page: str


@dataclass(frozen=True, slots=True)
class PastObservation:
    """An observation as MLflow remembers it.

    Attributes:
        number: from 1.
        time_ms: when, in milliseconds since 1970.
        metrics: those that were asked for and that it has, see `DriftObservation`.
    """

    number: int
    time_ms: int
    metrics: Mapping[str, float]
