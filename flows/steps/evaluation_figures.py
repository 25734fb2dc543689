"""Which pictures a version gets, from its evaluation; how they are drawn is `registry.figures`'."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bpeline.flows.requests import CHAMPION
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.flows.steps.evaluation_metrics import shown_slices
from bpeline.flows.steps.size_choice import SizeChoice
from bpeline.registry.figures import (
    draw_compression_curve,
    draw_merge_gain,
    draw_size_choice,
    draw_slices,
    draw_token_lengths,
)
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN, knee


def draw_figures(
    name: str, evaluated: Evaluated, directory: Path, choice: SizeChoice | None = None
) -> tuple[Path, ...]:
    """Draw everything worth a look into a directory."""
    tokenizer = evaluated.tokenizer
    title = f"{name}, {evaluated.report.vocab_size:,} ids"
    evaluation, report = evaluated.evaluation, evaluated.report
    lengths = [len(token) for token in tokenizer.vocab.values()]
    figures = [
        draw_compression_curve(
            report.curve, directory / "compression.svg", title, dict(_beside(evaluated))
        ),
        draw_token_lengths(lengths, directory / "token-lengths.svg", title),
    ]
    if report.merge_gain:
        figures.append(
            draw_merge_gain(
                report.merge_gain, directory / "merge-gain.svg", title, dict(_marks(evaluated))
            )
        )
    if choice is not None:
        costs = [(one.vocab_size, one.flops_per_byte / 1e6) for one in choice.found.shown]
        asked = f"{name}, for {choice.model.title}"
        figures.append(draw_size_choice(costs, choice.size, directory / "size.svg", asked))
    slices = [ALL, *(part.name for part in shown_slices(evaluation))]
    if len(slices) > 1 or evaluation.opponents:
        values = {name: evaluation.slices}
        values |= {
            f"{label} ({evaluated.references[label]})" if label == CHAMPION else label: one.slices
            for label, one in evaluation.opponents.items()
        }
        bars = {
            name: {part: measured[part].metrics[BYTES_PER_TOKEN] for part in slices}
            for name, measured in values.items()
        }
        place = directory / "slices.svg"
        figures.append(draw_slices(bars, place, title, "bytes per token, more is better"))
    return tuple(figures)


def _beside(evaluated: Evaluated) -> Iterator[tuple[str, tuple[tuple[int, float], ...]]]:
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    if champion is not None:
        yield f"champion ({evaluated.references[CHAMPION]})", champion.slices[ALL].curve
    for part in shown_slices(evaluated.evaluation):
        yield part.name, evaluated.evaluation.slices[part.name].curve


def _marks(evaluated: Evaluated) -> Iterator[tuple[str, int]]:
    bend = knee(evaluated.report.curve)
    if bend is not None:
        yield "knee", bend
    if evaluated.usage is not None and evaluated.usage.largest_well_used is not None:
        yield "95 % of tokens met 100 times", evaluated.usage.largest_well_used
