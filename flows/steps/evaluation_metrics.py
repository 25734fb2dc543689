"""An evaluation as flat metrics and curves, for MLflow and the catalogue. Computes next to nothing.

The names are those of `metric_names`; ``vs_champion_percent/german`` says by how many per cent the
number of tokens of that slice differs from the champion's, ``…_low`` and ``…_high`` how sure it is,
``vs_champion_beyond_chance/german`` what that says: -1 fewer tokens, 1 more, 0 perhaps chance;
there is none of fewer documents than an interval takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bpeline.flows.requests import ORDINARY
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.flows.wording import SHOWN_CONFIDENCE
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.evaluation import (
    ALL,
    BYTES_PER_TOKEN,
    GINI_OF_TEXTS,
    MERGE_GAIN,
    NEW_TEXT,
    SHOWN_PER_SLICE,
    SHOWN_ROBUSTNESS,
    WELL_USED,
    Change,
    Evaluation,
    Slice,
    gini_of_texts,
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
        metrics[f"vs_{label}/mean_tokens_ratio"] = opponent.changes[ALL].mean_ratio
        for part in evaluation.distinct_parts:
            change = opponent.changes[part.name]
            metrics |= dict(_percent(f"vs_{label}_percent/{part.name}", change))
            if label == CHAMPION and SHOWN_CONFIDENCE in change.intervals:
                low, high = change.intervals[SHOWN_CONFIDENCE]
                metrics[f"vs_{label}_beyond_chance/{part.name}"] = float((low > 0) - (high < 0))
    metrics |= dict(_between_languages(evaluation))
    metrics |= dict(_between_sources(evaluation))
    if evaluated.robustness is not None:
        robust = evaluated.robustness.tokenizers[""].metrics
        metrics |= {name: robust[name] for name in SHOWN_ROBUSTNESS if name in robust}
    metrics |= dict(_on_new_text(evaluated))
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
    """The slices that say something by themselves, without everything."""
    return evaluation.distinct_parts[1:]


def _percent(name: str, change: Change) -> Iterator[tuple[str, float]]:
    """By how many per cent the number of tokens changes, and the ends of the interval."""
    yield name, 100 * change.value
    if SHOWN_CONFIDENCE in change.intervals:
        low, high = change.intervals[SHOWN_CONFIDENCE]
        yield f"{name}_low", 100 * low
        yield f"{name}_high", 100 * high


def _on_new_text(evaluated: Evaluated) -> Iterator[tuple[str, float]]:
    new = evaluated.new
    if new is None:
        return
    yield f"{NEW_TEXT}bytes_per_token", new.report.bytes_per_token
    yield f"{NEW_TEXT}documents", float(new.report.documents)
    yield f"{NEW_TEXT}bytes", float(new.report.bytes)
    for label, opponent in new.opponents.items():
        yield from _percent(f"{NEW_TEXT}vs_{label}_percent", opponent.changes[ALL])


def _between_languages(evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    if evaluation.parity is not None:
        yield "parity/gini", evaluation.parity.gini
        yield "parity/max_over_min", evaluation.parity.max_over_min
    for language, premium in evaluation.premiums.items():
        yield f"premium/{language}", premium
    if evaluation.divergences:
        yield "parity/divergence_bits_highest", max(evaluation.divergences.values())


def _between_sources(evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    """How equally sources are treated that a training serves alike, and were without it."""
    ordinary = evaluation.opponents.get(ORDINARY)
    if ordinary is None:
        return
    for name, slices in (
        (GINI_OF_TEXTS, evaluation.slices),
        (f"vs_{ORDINARY}/gini_of_texts", ordinary.slices),
    ):
        if (gini := gini_of_texts(evaluation.parts, slices)) is not None:
            yield name, gini


def _of_training(evaluated: Evaluated) -> Iterator[tuple[str, float]]:
    usage = evaluated.usage
    if usage is None:
        return
    yield "training/dead_tokens", usage.dead
    yield "training/rare_tokens", usage.rare
    yield "training/junk_tokens", usage.junk
    yield "training/f95", usage.f95_by_size[-1][1]
    if usage.largest_well_used is not None:
        yield WELL_USED, usage.largest_well_used
