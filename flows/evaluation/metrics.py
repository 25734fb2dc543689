"""Metrics and charts of an evaluation for MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bpeline.flows.evaluation.evaluated import Evaluated
from bpeline.flows.evaluation.size_choice import SizeChoice
from bpeline.flows.pages import token_lengths
from bpeline.flows.requests import ORDINARY
from bpeline.flows.wording import SHOWN_CONFIDENCE
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.charts import Bars, Chart, Line, svg_file
from bpeline.tokenizer_core.durable_files import DURABLE
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
    """Return the metrics for MLflow; ``evaluation.json`` has all of them."""
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
    """Return the curves over the vocab size, apart from the compression of all text."""
    evaluation = evaluated.evaluation
    curves = {MERGE_GAIN: evaluation.report.merge_gain}
    for part in shown_slices(evaluation):
        name = of_slice(BYTES_PER_TOKEN, part.name)
        curves[name] = evaluation.slices[part.name].curve
    return {name: curve for name, curve in curves.items() if curve}


def shown_slices(evaluation: Evaluation) -> list[Slice]:
    """Return the slices that differ from the whole text."""
    return evaluation.distinct_parts[1:]


def _percent(name: str, change: Change) -> Iterator[tuple[str, float]]:
    """Yield the change of the number of tokens in per cent, and its interval."""
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
    """Yield the Gini coefficients of balanced sources, with --parity and without it."""
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


Points = Sequence[tuple[int, float]]

_MOST_CURVES = 8


def draw_figures(
    name: str, evaluated: Evaluated, directory: Path, choice: SizeChoice | None = None
) -> tuple[Path, ...]:
    """Draw all charts of an evaluation into a directory."""
    title = f"{name}, {evaluated.report.vocab_size:,} ids"
    charts: dict[str, Chart | Bars] = {
        "compression.svg": _curves(evaluated),
        "token-lengths.svg": token_lengths(evaluated.tokenizer),
    }
    if evaluated.report.merge_gain:
        charts["merge-gain.svg"] = _merge_gain(evaluated, choice)
    if choice is not None:
        charts["size.svg"] = _sizes(choice)
    slices = [ALL, *(part.name for part in shown_slices(evaluated.evaluation))]
    if len(slices) > 1 or evaluated.evaluation.opponents:
        charts["slices.svg"] = _slices(name, evaluated, slices)
    for file, chart in charts.items():
        shown = f"{name}, for {choice.model.title}" if choice and file == "size.svg" else title
        DURABLE.write(directory / file, svg_file(shown, [chart]).encode())
    return tuple(directory / file for file in charts)


def _curves(evaluated: Evaluated) -> Chart:
    """Draw bytes per token over the vocab size: all text, the champion, and slices."""
    lines = [
        Line("all text", sorted(evaluated.report.curve), dots=True),
        *(Line(name, sorted(curve), dots=True) for name, curve in _beside(evaluated)),
    ]
    return Chart("Compression", "vocab size", "bytes per token", lines[:_MOST_CURVES])


def _merge_gain(evaluated: Evaluated, choice: SizeChoice | None) -> Chart:
    """Draw the tokens that one merge saves, of a million, over the vocab size."""
    gains = sorted(evaluated.report.merge_gain)
    saving = [point for point in gains if point[1] > 0]
    shown = saving or gains
    low, high = min(y for _, y in shown), max(y for _, y in shown)
    usage, marks = evaluated.usage, {}
    if choice is not None:
        marks[f"costs {choice.model.title} least"] = choice.size
    elif usage is not None and usage.largest_well_used is not None:
        marks["95 % of tokens met 100 times"] = usage.largest_well_used
    lines = [Line(f"{mark}: {n:,}", [(n, low), (n, high)]) for mark, n in marks.items()]
    return Chart(
        "Merge gain",
        "vocab size",
        "tokens that one merge saves of a million",
        [Line("gain", shown, dots=True), *lines],
        y_log=bool(saving),
    )


def _sizes(choice: SizeChoice) -> Chart:
    """Draw the cost of a byte of text over the vocab size, with the chosen size."""
    costs = [(size.vocab_size, size.flops_per_byte / 1e6) for size in choice.found.shown]
    least = [point for point in costs if point[0] == choice.size]
    lines = [Line("cost", costs), Line(f"least: {choice.size:,} ids", least, dots=True)]
    return Chart("Cost", "vocab size", "MFLOPs for a byte of text", lines)


def _slices(name: str, evaluated: Evaluated, slices: Sequence[str]) -> Bars:
    """Draw bytes per token of every slice, beside those of the opponents."""
    evaluation = evaluated.evaluation
    values = {name: evaluation.slices}
    values |= {
        f"{label} ({evaluated.references[label]})" if label == CHAMPION else label: opponent.slices
        for label, opponent in evaluation.opponents.items()
    }
    bars = {
        name: [measured[part].metrics[BYTES_PER_TOKEN] for part in slices]
        for name, measured in values.items()
    }
    return Bars("Slices", "bytes per token, more is better", slices, bars)


def _beside(evaluated: Evaluated) -> Iterator[tuple[str, Points]]:
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    if champion is not None:
        yield f"champion ({evaluated.references[CHAMPION]})", champion.slices[ALL].curve
    for part in shown_slices(evaluated.evaluation):
        yield part.name, evaluated.evaluation.slices[part.name].curve
