"""How well the version compresses: curves over the vocab size, slices, every metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from bpeline.flows.pages.contents import ReportContents, merged_ids, saved_by_last, training_curve
from bpeline.flows.requests import ORDINARY
from bpeline.flows.wording import language_costs
from bpeline.registry.evaluation import ROBUSTNESS_COLUMNS
from bpeline.tokenizer_core.charts import Chart, Line
from bpeline.tokenizer_core.evaluation import GINI_OF_TEXTS
from bpeline.tokenizer_core.tokenizer import Tokenizer

_CURVE = "compression/bytes_per_token"
_SLICE = "bytes_per_token/"
_SECONDS = "seconds/"
_BOUNDS = ("_low", "_high")  # of an interval
_LONGEST_BAR = 24  # bytes; longer tokens share the last bar


def compression(contents: ReportContents) -> dict[str, Any]:
    """Charts and tables; None where there is nothing to draw."""
    return {
        "sizes": _sizes(contents),
        "choice": _choice(contents.chosen_size),
        "ranks": _ranks(contents),
        "gains": _gains(contents),
        "lengths": token_lengths(contents.tokenizer),
        "slices": _slices(contents.metrics),
        "costs": language_costs(contents.metrics, ORDINARY, GINI_OF_TEXTS, contents.sources),
        "robustness": _robustness(contents),
        "metrics": [
            (key, value)
            for key, value in sorted(contents.metrics.items())
            if not key.startswith(_SECONDS) and not _of_slice(key, contents.metrics)[1]
        ],
    }


def _robustness(contents: ReportContents) -> dict[str, Any]:
    """How many more tokens each kind of change takes, a column for each language."""
    found = [dict(zip(ROBUSTNESS_COLUMNS, row, strict=True)) for row in contents.robustness]
    languages = list(dict.fromkeys(one["language"] for one in found))
    rows: dict[str, dict[str, str]] = {}
    for one in found:
        said = f"{one['inflation']:+.1%}"
        if one["inflation_low"] is not None:
            said += f" ({one['inflation_low']:+.1%} … {one['inflation_high']:+.1%})"
        rows.setdefault(f"{one['family']}: {one['kind']}", {})[one["language"]] = said
    cells = {kind: [of.get(one, "") for one in languages] for kind, of in rows.items()}
    return {"languages": languages, "rows": cells}


def _sizes(contents: ReportContents) -> dict[str, Any] | None:
    """Bytes per token over the vocab size, in training and as evaluated."""
    use, series = contents.use, []
    trained = training_curve(contents.tokenizer, use) if use else []
    if trained:
        series.append(Line("training", trained))
    measured = {
        key: curve
        for key, curve in contents.curves.items()
        if len(curve) > 1 and "bytes_per_token" in key
    }
    for key in sorted(measured, key=lambda one: (one != _CURVE, one))[:4]:
        series.append(Line(_name_of(key), measured[key], dots=True))
    if not series:
        return None
    return {
        "chart": Chart(
            "Bytes per token over the vocabulary size", "vocabulary size", "bytes per token", series
        ),
        "saved_by_last": saved_by_last(use) if use is not None and len(use.gains) > 10 else None,
        "measured": [(one.name, *point) for one in series if one.dots for point in one.points],
    }


def _choice(chosen: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What sizes cost a model, of a number of ids that was chosen by that."""
    if chosen is None:
        return None
    costs = [(size, cost / 1e6) for size, _, cost in chosen["curve"]]
    (least,) = (point for point in costs if point[0] == chosen["vocab_size"])
    return {
        "chart": Chart(
            "What a byte of text costs over the vocabulary size", "vocabulary size",
            "MFLOPs per byte", [Line("cost", costs), Line("chosen", [least], dots=True)],
        ),
        "said": chosen["said"],
        "model": chosen["model"]["title"],
        "measured_on": chosen["measured_on"],
        "figures": [(size, value, cost / 1e6) for size, value, cost in chosen["curve"]],
    }  # fmt: skip


def _name_of(key: str) -> str:
    if key == _CURVE:
        return "evaluated"
    return key.removeprefix(f"{_CURVE}.").removeprefix(_SLICE).removesuffix("/bytes_per_token")


def _ranks(contents: ReportContents) -> dict[str, Any] | None:
    """Occurrences of the tokens, the most frequent first."""
    use = contents.use
    if use is None:
        return None
    counts = np.sort(use.left[list(contents.tokenizer.vocab)])[::-1]
    counts = counts[counts > 0]
    if len(counts) < 2:
        return None
    ranks = np.unique(np.geomspace(1, len(counts), 80).astype(np.int64))
    points = [(int(rank), int(counts[rank - 1])) for rank in ranks]
    return {
        "chart": Chart(
            "Occurrences of tokens by rank", "tokens, most frequent first", "occurrences",
            [Line("training text", points)], y_log=True,
        ),
        "rare": int((use.left[merged_ids(contents.tokenizer)] < 100).sum()),
    }  # fmt: skip


def _gains(contents: ReportContents) -> dict[str, Any] | None:
    """Tokens that each merge saves, by rank."""
    gains = np.zeros(0, np.int64) if contents.use is None else contents.use.gains
    gains = gains[gains > 0]
    if len(gains) < 2:
        return None
    # One merge says little, its neighbours together do.
    edges = np.unique(np.geomspace(1, len(gains) + 1, 60).astype(np.int64))
    sums = np.add.reduceat(gains, edges[:-1] - 1) / np.diff(edges)
    points = [(float(edge), float(one)) for edge, one in zip(edges[:-1], sums, strict=True)]
    return {
        "chart": Chart(
            "Tokens that each merge saves", "rank of the merge", "tokens saved",
            [Line("training text", points)], y_log=True,
        ),
        "last": int(gains[-1]),
    }  # fmt: skip


def token_lengths(tokenizer: Tokenizer) -> Chart:
    """How many tokens have which length, special tokens apart."""
    lengths = Counter(
        min(len(token), _LONGEST_BAR)
        for id_, token in tokenizer.vocab.items()
        if not tokenizer.is_special(id_)
    )
    shown = range(1, max(lengths, default=1) + 1)
    names = [f"{length}{'+' if length == _LONGEST_BAR else ''}" for length in shown]
    bars = [lengths[length] for length in shown]
    return Chart("Tokens by length", "bytes of a token", "tokens", bars=bars, names=names)


def _slices(metrics: Mapping[str, float]) -> dict[str, Any]:
    """Metrics that were measured by text, language or domain: a row for each slice, of values and
    the bounds of their intervals."""
    slices: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        metric, name = _of_slice(key, metrics)
        if name:
            slices.setdefault(name, {})[metric] = value
    every = sorted({metric for values in slices.values() for metric in values})
    columns = [metric for metric in every if not metric.endswith(_BOUNDS)]
    bounds = ("", *_BOUNDS)
    return {
        "titles": [metric.replace("_", " ") for metric in columns],
        "rows": [
            (name, [[values.get(metric + bound) for bound in bounds] for metric in columns])
            for name, values in sorted(slices.items())
        ],
    }


def _of_slice(key: str, metrics: Mapping[str, float]) -> tuple[str, str]:
    """A metric and a slice; the slice is empty for what was measured of everything."""
    metric, _, name = key.partition("/")
    for bound in ("", *_BOUNDS):
        if f"{_SLICE}{name.removesuffix(bound)}" in metrics and name.endswith(bound):
            return metric + bound, name.removesuffix(bound)
    return key, ""
