"""Rows of cells as text in columns, and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpeline.tokenizer_core.redaction import in_one_line


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of text in columns, the first one to the left and all others to the right."""
    rows = [tuple(map(in_one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *cells in rows:
        shown = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *shown]).rstrip())
    return lines


def bordered(
    titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool]
) -> list[str]:
    """Cells between bars, so that spaces at the edge of a word are seen; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    lines = ["-+-".join("-" * width for width in widths)]
    for row in (titles, *rows):
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numbers, strict=True)
        )
        lines.append(" | ".join(cells).rstrip())
    return [lines[1], lines[0], *lines[2:]]


def markdown_table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of text as a table of Markdown, the first row being titles."""
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


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


def statistics_table(statistics: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of text under a row of titles; labels that no source has are left out."""
    shown = {
        title: name
        for title, name in COLUMNS.items()
        if name not in ("language", "domain") or any(one[name] for one in statistics)
    }
    rows = [tuple(_cell(name, one[name]) for name in shown.values()) for one in statistics]
    return [tuple(shown), *rows]


def _cell(name: str, value: Any) -> str:
    if name == "bytes":
        return f"{value / 1e6:,.1f}"
    if name in ("share", "weighted_share"):
        return f"{value:.2%}"
    if name == "weight":
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
