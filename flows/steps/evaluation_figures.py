"""The pictures of a version, from its evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bpeline.flows.pages import token_lengths
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.flows.steps.evaluation_metrics import shown_slices
from bpeline.flows.steps.size_choice import SizeChoice
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.charts import Bars, Chart, Line, svg_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN

Curve = Sequence[tuple[int, float]]

_MOST_CURVES = 8


def draw_figures(
    name: str, evaluated: Evaluated, directory: Path, choice: SizeChoice | None = None
) -> tuple[Path, ...]:
    """Draw everything worth a look into a directory."""
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
    """Bytes per token over the vocab size: of all text, the champion, and slices."""
    lines = [
        Line("all text", sorted(evaluated.report.curve), dots=True),
        *(Line(name, sorted(curve), dots=True) for name, curve in _beside(evaluated)),
    ]
    return Chart("Compression", "vocab size", "bytes per token", lines[:_MOST_CURVES])


def _merge_gain(evaluated: Evaluated, choice: SizeChoice | None) -> Chart:
    """How many tokens of a million one merge saves, over the vocab size; both logarithmic.

    Where none saves anything, that is drawn.
    """
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
    """What a byte of text costs over the vocab size, and which size was chosen."""
    costs = [(one.vocab_size, one.flops_per_byte / 1e6) for one in choice.found.shown]
    least = [point for point in costs if point[0] == choice.size]
    lines = [Line("cost", costs), Line(f"least: {choice.size:,} ids", least, dots=True)]
    return Chart("Cost", "vocab size", "MFLOPs for a byte of text", lines)


def _slices(name: str, evaluated: Evaluated, slices: Sequence[str]) -> Bars:
    """Bytes per token of every slice, beside those of what it is compared with."""
    evaluation = evaluated.evaluation
    values = {name: evaluation.slices}
    values |= {
        f"{label} ({evaluated.references[label]})" if label == CHAMPION else label: one.slices
        for label, one in evaluation.opponents.items()
    }
    bars = {
        name: [measured[part].metrics[BYTES_PER_TOKEN] for part in slices]
        for name, measured in values.items()
    }
    return Bars("Slices", "bytes per token, more is better", slices, bars)


def _beside(evaluated: Evaluated) -> Iterator[tuple[str, Curve]]:
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    if champion is not None:
        yield f"champion ({evaluated.references[CHAMPION]})", champion.slices[ALL].curve
    for part in shown_slices(evaluated.evaluation):
        yield part.name, evaluated.evaluation.slices[part.name].curve
