"""The table of the sources of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
