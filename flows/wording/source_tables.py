"""Tables of a corpus's sources, and of the cost of each language."""

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
    """Return a row for each source, without label columns that are empty."""
    shown = {
        title: name
        for title, name in COLUMNS.items()
        if name not in ("language", "domain") or any(source[name] for source in statistics)
    }
    rows = [tuple(_cell(name, source[name]) for name in shown.values()) for source in statistics]
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
    """Return the cost of each text and source in tokens; None if it was not compared.

    Args:
        before: label of the training compared with.
        gini: metric of the inequality between texts.
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
        cost_before = cost / (1 + change / 100)
        rows.append((text, f"{cost_before:.1f}", f"{cost:.1f}", f"{change:+.2f} %", interval))
    for source in unmeasured(metrics, sources):
        rows.append((source, *[NOT_MEASURED] * 2, "", ""))
    both = [metrics.get(name) for name in (f"vs_{before}/{gini.partition('/')[2]}", gini)]
    if None not in both:
        rows.append(("Gini coefficient", *(f"{value:.4f}" for value in both), "", ""))
    return Table(TITLES, rows)


def unmeasured(metrics: Mapping[str, float], sources: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the named sources without evaluation text of their name or language."""
    return [
        str(source["source"])
        for source in sources
        if not any(
            f"bytes_per_token/{name}" in metrics
            for name in (source["source"], f"language:{source['language']}")
        )
    ]
