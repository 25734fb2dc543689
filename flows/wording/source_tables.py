"""Tables of the sources of a corpus, and of what each language pays with a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bpeline.tokenizer_core.tables import Table

COLUMNS = {
    "source": "source",
    "language": "language",
    "domain": "domain",
    "documents": "documents",
    "MB": "bytes",
    "words": "words",
    "distinct": "distinct_words",
    "share": "share",
    "weight": "weight",
    "weighted": "weighted_share",
}


def statistics_table(statistics: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each source; labels that no source has are left out."""
    shown = {
        title: name
        for title, name in COLUMNS.items()
        if name not in ("language", "domain") or any(one[name] for one in statistics)
    }
    rows = [tuple(_cell(name, one[name]) for name in shown.values()) for one in statistics]
    return Table(tuple(shown), rows)


def _cell(name: str, value: Any) -> str:
    if name == "bytes":
        return f"{value / 1e6:,.1f}"
    if name in ("share", "weighted_share"):
        return f"{value:.2%}"
    if name == "weight":
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


TITLES = ("tokens per 1,000 bytes", "before", "after", "change", "95 % interval")
NOT_MEASURED = "not measured"


def language_costs(
    metrics: Mapping[str, float], before: str, gini: str, sources: Iterable[Mapping[str, Any]]
) -> Table | None:
    """A row for each text that was measured apart, for sources that were not, and for Gini.

    Args:
        metrics: of a training, which was measured beside another one.
        before: the label of that.
        gini: the metric that says how unequally the texts are treated.
        sources: the named sources of the corpus, see `SourceStatistics`.

    Returns:
        None where the other training was not measured.
    """
    if f"vs_{before}_percent/all" not in metrics:
        return None
    rows: list[tuple[str, ...]] = []
    group, percent = "bytes_per_token/", f"vs_{before}_percent/"
    texts = [
        key.removeprefix(group)
        for key in metrics
        if key.startswith(group) and percent + key.removeprefix(group) in metrics
    ]
    for text in texts:
        cost, change = 1000 / metrics[group + text], metrics[percent + text]
        low, high = (metrics.get(f"{percent}{text}_{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f"{low:+.2f} … {high:+.2f}"
        paid = cost / (1 + change / 100)
        rows.append((text, f"{paid:.1f}", f"{cost:.1f}", f"{change:+.2f} %", interval))
    for source in unmeasured(metrics, sources):
        rows.append((source, *[NOT_MEASURED] * 2, "", ""))
    both = [metrics.get(name) for name in (f"vs_{before}/{gini.partition('/')[2]}", gini)]
    if None not in both:
        rows.append(("Gini coefficient", *(f"{value:.4f}" for value in both), "", ""))
    return Table(TITLES, rows)


def unmeasured(metrics: Mapping[str, float], sources: Iterable[Mapping[str, Any]]) -> list[str]:
    """The named sources of which no text was measured apart, by name or by language."""
    return [
        str(one["source"])
        for one in sources
        if not any(
            f"bytes_per_token/{name}" in metrics
            for name in (one["source"], f"language:{one['language']}")
        )
    ]
