"""How well the version compresses: curves over the vocab size, slices, every metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from bpeline.flows.report.charts import Series, bar_chart, line_chart
from bpeline.flows.report.contents import ReportContents, merged_ids, saved_by_last, training_curve
from bpeline.flows.report.facts import table
from bpeline.flows.report.token_html import text_html
from bpeline.flows.wording import number_text

_CURVE = "compression/bytes_per_token"
_SECONDS = "seconds/"
_BOUNDS = ("_low", "_high")  # of an interval
_LONGEST_BAR = 24  # bytes; longer tokens share the last bar


def compression(contents: ReportContents) -> str:
    """Charts, then tables."""
    cards = [*_curves(contents), *_use(contents), _lengths(contents)]
    figures = "".join(f"<figure class=card>{html}</figure>" for html in cards)
    charts = f'<div class="columns charts">{figures}</div>'
    return f"{charts}{_slices(contents.metrics)}{_metrics(contents)}"


def _curves(contents: ReportContents) -> Iterable[str]:
    series = []
    trained = training_curve(contents.tokenizer, contents.use) if contents.use else []
    if trained:
        series.append(Series("training", trained))
    measured = {
        key: curve
        for key, curve in contents.curves.items()
        if len(curve) > 1 and "bytes_per_token" in key
    }
    for key in sorted(measured, key=lambda one: (one != _CURVE, one))[:4]:
        series.append(Series(_name_of(key), measured[key], dots=True))
    if not series:
        return
    said = (
        "One training gives every smaller vocabulary: the first merges alone are the tokenizer of "
        "that size."
    )
    if contents.use is not None and len(contents.use.gains) > 10:
        said += f" The last tenth of the merges saves {saved_by_last(contents.use):.2%} of tokens."
    chart = line_chart(
        "Bytes per token over the vocabulary size", "vocabulary size", "bytes per token", series
    )
    rows = [
        [text_html(one.name), f"{size:,}", f"{value:.4f}"]
        for one in series
        if one.dots
        for size, value in one.points
    ]
    head = [("text", False), ("vocabulary", True), ("bytes/token", True)]
    figures = f"<details><summary>Figures</summary>{table(head, rows)}</details>" if rows else ""
    yield f"<h3>Compression by size</h3>{chart}<figcaption>{text_html(said)}</figcaption>{figures}"


def _name_of(key: str) -> str:
    if key == _CURVE:
        return "evaluated"
    return key.removeprefix(f"{_CURVE}.").removesuffix("/bytes_per_token")


def _use(contents: ReportContents) -> Iterable[str]:
    use = contents.use
    if use is None:
        return
    ids = np.array(sorted(contents.tokenizer.vocab), np.int64)
    counts = np.sort(use.left[ids])[::-1]
    counts = counts[counts > 0]
    if len(counts) < 2:
        return
    ranks = np.unique(np.geomspace(1, len(counts), 80).astype(np.int64))
    points = [(int(rank), int(counts[rank - 1])) for rank in ranks]
    rare = int((use.left[merged_ids(contents.tokenizer)] < 100).sum())
    chart = line_chart(
        "Occurrences of tokens by rank", "tokens, most frequent first", "occurrences",
        [Series("training text", points)], y_log=True,
    )  # fmt: skip
    said = f"On the training text; {rare:,} merged tokens are left fewer than 100 times."
    yield f"<h3>How often tokens occur</h3>{chart}<figcaption>{text_html(said)}</figcaption>"
    gains = use.gains[use.gains > 0]
    if len(gains) < 2:
        return
    # One merge says little, its neighbours together do.
    edges = np.unique(np.geomspace(1, len(gains) + 1, 60).astype(np.int64))
    sums = np.add.reduceat(gains, edges[:-1] - 1) / np.diff(edges)
    saved = [(float(edge), float(one)) for edge, one in zip(edges[:-1], sums, strict=True)]
    chart = line_chart(
        "Tokens that each merge saves", "rank of the merge", "tokens saved",
        [Series("training text", saved)], y_log=True,
    )  # fmt: skip
    last = f"{int(gains[-1]):,}"
    said = (
        "Each time a merge fires, the training text is one token shorter; the last one fires "
        f"{last} times."
    )
    yield f"<h3>What each merge saves</h3>{chart}<figcaption>{text_html(said)}</figcaption>"


def _lengths(contents: ReportContents) -> str:
    vocab = contents.tokenizer.vocab
    lengths = Counter(
        min(len(token), _LONGEST_BAR)
        for id_, token in vocab.items()
        if not contents.tokenizer.is_special(id_)
    )
    bars = [
        (f"{length}{'+' if length == _LONGEST_BAR else ''}", float(lengths[length]))
        for length in range(1, max(lengths, default=1) + 1)
    ]
    chart = bar_chart("Tokens by length", "bytes of a token", "tokens", bars)
    return f"<h3>How long tokens are</h3>{chart}<figcaption>Without special tokens.</figcaption>"


def _slices(metrics: Mapping[str, float]) -> str:
    """Metrics that were measured by language or domain, ``metric.slice``: a row for each slice."""
    slices: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        metric, name = _of_slice(key, metrics)
        if name:
            slices.setdefault(name, {})[metric] = value
    if not slices:
        return ""
    every = sorted({metric for values in slices.values() for metric in values})
    columns = [metric for metric in every if not metric.endswith(_BOUNDS)]
    rows = (
        [text_html(name), *(_with_interval(values, metric) for metric in columns)]
        for name, values in sorted(slices.items())
    )
    head = [("slice", False), *((_title(metric), True) for metric in columns)]
    return f"<h3>Slices</h3><div class='card wrapped'>{table(head, rows)}</div>"


def _with_interval(values: Mapping[str, float], metric: str) -> str:
    """A value, and the interval it was measured with."""
    low, high = (values.get(metric + bound) for bound in _BOUNDS)
    said = number_text(values.get(metric))
    if low is None or high is None:
        return said
    return f"{said}<br><small>{low:.4g} … {high:.4g}</small>"


def _title(metric: str) -> str:
    group, _, name = metric.rpartition("/")
    against = f"{group}: " if group.startswith("vs_") else ""
    return f"{against}{name}".replace("_", " ")


def _of_slice(key: str, metrics: Mapping[str, float]) -> tuple[str, str]:
    """A metric and a slice; the slice is empty for what was measured of everything."""
    parts = key.split(".")
    for end in range(1, len(parts)):
        metric = ".".join(parts[:end])
        if metric in metrics:
            return metric, ".".join(parts[end:])
    return key, ""


def _metrics(contents: ReportContents) -> str:
    rows = [
        [f"<code>{text_html(key)}</code>", text_html(number_text(value))]
        for key, value in sorted(contents.metrics.items())
        if not key.startswith(_SECONDS) and not _of_slice(key, contents.metrics)[1]
    ]
    if not rows:
        return ""
    return (
        "<details><summary>Every metric</summary><div class=card>"
        + table([("metric", False), ("value", True)], rows)
        + "</div></details>"
    )
