"""Mixtures as people see them: a table, a picture, and nested runs of MLflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flows.mixtures import Choice, Mixtures, slices_of
from flows.source_spelling import decimal
from flows.training.summary import markdown_table
from flows.training.training_request import TrainingRequest
from registry.figures import draw_choices
from registry.sweep_record import SweepChild, SweepRecord
from registry.tracking.ui_links import run_link

if TYPE_CHECKING:
    from registry.opening import Registry
    from registry.publishing.publication import CorpusInput


def table_of(mixtures: Mixtures) -> list[tuple[str, ...]]:
    """A row for each choice under a row of titles: bytes/token, and the change from the first."""
    slices = slices_of(mixtures)
    present = mixtures.choices[0].bytes_per_token
    shares = [f"{one.source} share" for one in mixtures.choices[0].sources]
    rows = [("bytes/token", *slices, *shares)]
    for choice in mixtures.choices:
        cells = []
        for name in slices:
            value = choice.bytes_per_token[name]
            change = "" if choice is mixtures.choices[0] else f" {value / present[name] - 1:+.2%}"
            cells.append(f"{value:.4f}{change}")
        shares = [f"{one.weighted_share:.1%} (×{one.weight:.4g})" for one in choice.sources]
        rows.append((choice.title, *cells, *shares))
    return rows


def draw_mixtures(mixtures: Mixtures, path: Path) -> Path:
    """Draw bytes per token of every slice over the choices, as SVG or PNG by the path's suffix."""
    values = {
        name: [choice.bytes_per_token[name] for choice in mixtures.choices]
        for name in slices_of(mixtures)
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
    """Draw them and tell MLflow.

    Returns:
        The mixtures with a link to their run.

    Raises:
        RegistryUnreachable: MLflow does not answer; what was learned stays in the workspace.
    """
    first = next(iter(requests.values()))
    asked = {key: value for key, value in first.as_config().items() if value not in (None, [], {})}
    with registry.workspace.temporary_directory("mixtures") as directory:
        run = registry.tracker.record_sweep(
            SweepRecord(
                name=mixtures.name,
                title=f"mixtures-{mixtures.run_id[:8]}",
                params={**asked, "mixtures": ", ".join(requests)},
                curves={},
                children=tuple(_child(one, requests[one.title]) for one in mixtures.choices),
                inputs=tuple(inputs),
                figures=(draw_mixtures(mixtures, directory / "mixtures.svg"),),
                table=markdown_table(table_of(mixtures)) + "\n",
            )
        )
    base = registry.tracker.settings.ui
    return replace(mixtures, link=run_link(base, run.experiment_id, run.run_id))


def _child(choice: Choice, request: TrainingRequest) -> SweepChild:
    weights = ", ".join(f"{one.source}={decimal(one.weight)}" for one in choice.sources)
    params = {**request.as_config(), "weights": weights, "temperature": request.temperature}
    return SweepChild(
        title=re.sub(r"[^A-Za-z0-9.=_-]+", "-", choice.title),
        vocab_size=int(choice.record["vocab_size"]),
        params={key: value for key, value in params.items() if value not in (None, [], {})},
        metrics=choice.metrics,
        curves=choice.curves,
        evaluation=choice.record,
    )
