"""Which pictures a version gets, from its evaluation; how they are drawn is `flows.pages`'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from bpeline.flows.pages import Bars, Chart, Series, bar_chart, line_chart, write_figure
from bpeline.flows.requests import CHAMPION
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.flows.steps.evaluation_metrics import shown_slices
from bpeline.flows.steps.size_choice import SizeChoice
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN

Curve = Sequence[tuple[int, float]]

_LONGEST_SHOWN = 32  # bytes; longer tokens share the last bar
_MOST_CURVES = 8


def draw_figures(
    name: str, evaluated: Evaluated, directory: Path, choice: SizeChoice | None = None
) -> tuple[Path, ...]:
    """Draw everything worth a look into a directory."""
    title = f"{name}, {evaluated.report.vocab_size:,} ids"
    drawn: dict[str, tuple[str, Chart | Bars, Sequence[str]]] = {
        "compression.svg": (title, *_curves(evaluated)),
        "token-lengths.svg": (title, _lengths(evaluated), ()),
    }
    if evaluated.report.merge_gain:
        drawn["merge-gain.svg"] = (title, *_merge_gain(evaluated, choice))
    if choice is not None:
        drawn["size.svg"] = (f"{name}, for {choice.model.title}", *_sizes(choice))
    slices = [ALL, *(part.name for part in shown_slices(evaluated.evaluation))]
    if len(slices) > 1 or evaluated.evaluation.opponents:
        bars = _slices(name, evaluated, slices)
        drawn["slices.svg"] = (title, bars, tuple(bars.values))
    return tuple(write_figure(directory / file, *what) for file, what in drawn.items())


def _curves(evaluated: Evaluated) -> tuple[Chart, list[str]]:
    """Bytes per token over the vocab size: of all text, the champion, and slices."""
    shown = [
        Series("all text", sorted(evaluated.report.curve), dots=True),
        *(Series(name, sorted(curve), dots=True) for name, curve in _beside(evaluated)),
    ]
    return _lines("compression", "bytes per token", shown[:_MOST_CURVES])


def _lines(
    what: str, axis: str, series: list[Series], *, y_log: bool = False
) -> tuple[Chart, list[str]]:
    """Lines over the vocab size, and their names."""
    chart = line_chart(what, "vocab size", axis, series, y_log=y_log)
    return chart, [one.name for one in series]


def _lengths(evaluated: Evaluated) -> Chart:
    """How many tokens of the vocab have which length."""
    tokens = evaluated.tokenizer.vocab.values()
    lengths = Counter(min(len(token), _LONGEST_SHOWN) for token in tokens)
    bars = [
        (f"{length}{'+' if length == _LONGEST_SHOWN else ''}", float(lengths[length]))
        for length in range(1, max(lengths, default=1) + 1)
    ]
    return bar_chart("token lengths", "bytes in a token", "tokens", bars)


def _merge_gain(evaluated: Evaluated, choice: SizeChoice | None) -> tuple[Chart, list[str]]:
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
    lines = [Series(f"{mark}: {n:,}", [(n, low), (n, high)]) for mark, n in marks.items()]
    series = [Series("gain", shown, dots=True), *lines]
    axis = "tokens that one merge saves of a million"
    return _lines("merge gain", axis, series, y_log=bool(saving))


def _sizes(choice: SizeChoice) -> tuple[Chart, list[str]]:
    """What a byte of text costs over the vocab size, and which size was chosen."""
    costs = [(one.vocab_size, one.flops_per_byte / 1e6) for one in choice.found.shown]
    least = [point for point in costs if point[0] == choice.size]
    series = [Series("cost", costs), Series(f"least: {choice.size:,} ids", least, dots=True)]
    return _lines("cost", "MFLOPs for a byte of text", series)


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
    return Bars("bytes per token, more is better", slices, bars)


def _beside(evaluated: Evaluated) -> Iterator[tuple[str, Curve]]:
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    if champion is not None:
        yield f"champion ({evaluated.references[CHAMPION]})", champion.slices[ALL].curve
    for part in shown_slices(evaluated.evaluation):
        yield part.name, evaluated.evaluation.slices[part.name].curve
