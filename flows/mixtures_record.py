"""Mixtures as people see them: a table, a picture, and nested runs of MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.requests import PRESENT, TrainingRequest, decimal
from bpeline.flows.steps import (
    SourceStatistics,
    Trial,
    logged_change,
    measured_on,
    nested_run,
    record_trials,
)
from bpeline.flows.wording import markdown_table
from bpeline.registry.figures import draw_choices
from bpeline.registry.opening import Registry
from bpeline.registry.records import CorpusInput, SweepChild
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN


def table_of(mixtures: Mixtures) -> list[tuple[str, ...]]:
    """A row for each choice under a row of titles: bytes/token, and the change in tokens."""
    slices = mixtures.slices
    shares = [f"{one.source} share" for one in mixtures.choices[0].sources]
    rows = [("bytes/token, tokens against the first", *slices, *shares)]
    for choice in mixtures.choices:
        cells = []
        for name in slices:
            value = choice.bytes_per_token[name]
            cells.append(f"{value:.4f} {logged_change(choice.metrics, PRESENT, name)}".rstrip())
        shares = [f"{one.weighted_share:.1%} (×{one.weight:.4g})" for one in choice.sources]
        rows.append((choice.title, *cells, *shares))
    return rows


def draw_mixtures(mixtures: Mixtures, path: Path) -> Path:
    """Draw bytes per token of every slice over the choices, as SVG."""
    values = {
        name: [choice.bytes_per_token[name] for choice in mixtures.choices]
        for name in mixtures.slices
    }
    titles = [choice.title for choice in mixtures.choices]
    title = f"{mixtures.name}: {mixtures.vocab_size:,} ids, bytes per token by mixture"
    return draw_choices(values, titles, path, title)


def record_mixtures(
    mixtures: Mixtures,
    requests: Mapping[str, TrainingRequest],
    inputs: Sequence[CorpusInput],
    registry: Registry,
) -> Mixtures:
    """Draw them and tell MLflow; the mixtures with a link to their run.

    Raises:
        RegistryUnreachable: MLflow does not answer; what was learned stays in the workspace.
    """
    first = next(iter(requests.values()))
    asked = {key: value for key, value in first.as_config().items() if value not in (None, [], {})}
    link = record_trials(
        registry,
        lambda directory: draw_mixtures(mixtures, directory / "mixtures.svg"),
        name=mixtures.name,
        title=f"mixtures-{mixtures.run_id[:8]}",
        params={**asked, "mixtures": ", ".join(requests)},
        curves={},
        children=tuple(_child(one, requests[one.title]) for one in mixtures.choices),
        inputs=tuple(inputs),
        table=f"{markdown_table(table_of(mixtures))}\n\n{measured_on(mixtures.choices[0].record)}\n",
    )
    return replace(mixtures, link=link)


def _child(choice: Choice, request: TrainingRequest) -> SweepChild:
    weights = ", ".join(f"{one.source}={decimal(one.weight)}" for one in choice.sources)
    params = {**request.as_config(), "weights": weights, "temperature": request.temperature}
    title, size = re.sub(r"[^A-Za-z0-9.=_-]+", "-", choice.title), choice.record["vocab_size"]
    return nested_run(title, int(size), params, choice.metrics, choice.curves, choice.record)


@dataclass(frozen=True, slots=True)
class Choice:
    """One mixture, measured.

    Attributes:
        title: ``as it is``, ``de=2 en=1`` or ``T=5``.
        temperature: of it.
        sources: the statistics of every source: its weight after temperature, its share.
        bytes_per_token: by slice: everything, sources, languages, domains.
        against_champion: change in tokens by slice, as a share; empty without a champion.
        metrics, curves: as a training would log them.
        record: the content of its ``evaluation.json``.
    """

    title: str
    temperature: float
    sources: tuple[SourceStatistics, ...]
    bytes_per_token: dict[str, float]
    against_champion: dict[str, float]
    metrics: dict[str, float]
    curves: dict[str, tuple[tuple[int, float], ...]]
    record: dict[str, Any]

    @classmethod
    def of(cls, title: str, trial: Trial) -> Choice:
        """What was measured."""
        evaluation = trial.evaluated.evaluation
        names = [part.name for part in evaluation.distinct_parts]
        return cls(
            title,
            trial.request.temperature,
            trial.words.sources,
            {name: evaluation.slices[name].metrics[BYTES_PER_TOKEN] for name in names},
            trial.against_champion(names),
            **trial.logged,
        )


@dataclass(frozen=True, slots=True)
class Mixtures:
    """All choices, the present one first."""

    name: str
    run_id: str
    vocab_size: int
    choices: tuple[Choice, ...]
    link: str = ""

    @property
    def slices(self) -> list[str]:
        """Everything first."""
        return list(self.choices[0].bytes_per_token)
