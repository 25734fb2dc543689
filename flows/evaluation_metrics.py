"""An evaluation as flat metrics and curves, for MLflow and the catalogue. Computes next to nothing.

The names are `metric_names`', and for what is compared ``vs_champion/tokens_change_percent``.
"""

from __future__ import annotations

from collections.abc import Iterator

from flows.baselines import CHAMPION
from flows.comparison_text import SHOWN_CONFIDENCE
from flows.evaluate import Evaluated
from tokenizer_core.compression_curve import knee
from tokenizer_core.evaluation import Change, Evaluation, Slice
from tokenizer_core.metric_names import (
    ALL,
    BYTES_PER_TOKEN,
    MERGE_GAIN,
    SHOWN_PER_SLICE,
    of_slice,
)

Curve = tuple[tuple[int, float], ...]


def metrics_of(evaluated: Evaluated) -> dict[str, float]:
    """Every metric that is worth a line or a chart; ``evaluation.json`` has the rest."""
    evaluation = evaluated.evaluation
    metrics = dict(evaluation.slices[ALL].metrics)
    for part in shown_slices(evaluation):
        measured = evaluation.slices[part.name].metrics
        metrics |= {of_slice(name, part.name): measured[name] for name in SHOWN_PER_SLICE}
    for label, opponent in evaluation.opponents.items():
        metrics |= dict(_changes(f"vs_{label}", opponent.changes[ALL], ""))
        for part in shown_slices(evaluation):
            change = opponent.changes[part.name]
            metrics |= dict(_changes(f"vs_{label}", change, part.name))
    metrics |= dict(_between_languages(evaluation))
    metrics |= dict(_of_training(evaluated))
    if evaluated.comparison is not None and evaluated.comparison.documents is not None:
        stability = evaluated.comparison.documents.segmentation.stability
        metrics[f"vs_{CHAMPION}/segmentation_stability"] = stability
    return metrics


def curves_of(evaluated: Evaluated) -> dict[str, Curve]:
    """What varies with the vocab size, beside the compression of everything."""
    evaluation = evaluated.evaluation
    curves = {MERGE_GAIN: evaluation.report.merge_gain}
    for part in shown_slices(evaluation):
        name = of_slice(BYTES_PER_TOKEN, part.name)
        curves[name] = evaluation.slices[part.name].curve
    return {name: curve for name, curve in curves.items() if curve}


def shown_slices(evaluation: Evaluation) -> list[Slice]:
    """The slices that say something by themselves: not those that are another one again."""
    shown: list[Slice] = []
    seen = {frozenset(evaluation.parts[0].texts)}
    for part in evaluation.parts:
        if frozenset(part.texts) not in seen:
            seen.add(frozenset(part.texts))
            shown.append(part)
    return shown


def _changes(group: str, change: Change, part: str) -> Iterator[tuple[str, float]]:
    values = {"tokens_change_percent": 100 * change.value, "mean_tokens_ratio": change.mean_ratio}
    if SHOWN_CONFIDENCE in change.intervals:
        low, high = change.intervals[SHOWN_CONFIDENCE]
        values["tokens_change_percent_low"] = 100 * low
        values["tokens_change_percent_high"] = 100 * high
    for name, value in values.items():
        yield of_slice(f"{group}/{name}", part) if part else f"{group}/{name}", value


def _between_languages(evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    if evaluation.parity is not None:
        yield "parity/gini", evaluation.parity.gini
        yield "parity/max_over_min", evaluation.parity.max_over_min
    for language, premium in evaluation.premiums.items():
        yield of_slice("parity/premium", language), premium
    if evaluation.divergences:
        yield "parity/divergence_bits_highest", max(evaluation.divergences.values())


def _of_training(evaluated: Evaluated) -> Iterator[tuple[str, float]]:
    usage, bend = evaluated.usage, knee(evaluated.report.curve)
    if bend is not None:
        yield "suggested/vocab_size_knee", bend
    if usage is None:
        return
    yield "training/dead_tokens", usage.dead
    yield "training/rare_tokens", usage.rare
    yield "training/junk_tokens", usage.junk
    yield "training/f95", usage.f95_by_size[-1][1]
    if usage.largest_well_used is not None:
        yield "suggested/vocab_size_well_used", usage.largest_well_used
