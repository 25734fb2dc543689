"""Results as tables: for the terminal and, in Markdown, for README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.results import OURS, phases_of

HEADINGS = (
    "",
    "seconds",
    "CPU s",
    "peak MB",
    "counting",
    "merging",
    "ratio",
    "CPU ratio",
    "merges",
)


def title(result: Mapping[str, Any]) -> str:
    rounds = result["rounds"]
    return (
        f"{result['file']}: {result['bytes'] / 1e6:.3g} MB, vocabulary {result['vocab_size']:,}, "
        f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}, "
        f"median of {rounds} run{'s' if rounds > 1 else ''}"
    )


def rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row per trainer, fastest first; failures and missing packages last."""
    measured = {name: one for name, one in result["trainers"].items() if "failure" not in one}
    lines = [
        _row(name, measured[name])
        for name in sorted(measured, key=lambda name: float(measured[name]["seconds"]))
    ]
    for name, one in result["trainers"].items():
        if "failure" in one:
            lines.append((name, *[""] * 7, f"failed: {one['failure']}"))
    lines.extend((name, *[""] * 7, "not installed") for name in result["not_installed"])
    return lines


def plain(result: Mapping[str, Any]) -> str:
    """Aligned columns, and where each trainer differs from us."""
    lines = [title(result), *aligned([HEADINGS, *rows(result)])]
    for name, one in result["trainers"].items():
        if one.get("divergence"):
            index, ours, theirs = one["divergence"]
            lines.append(f"  {name} differs at merge {index}: ours {ours}, theirs {theirs}")
    return "\n".join(lines)


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the first and the last column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def markdown(result: Mapping[str, Any]) -> str:
    return as_markdown(HEADINGS, rows(result))


def as_markdown(headings: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """A table with the first and the last column to the left, the others to the right."""
    marks = ["---", *["---:"] * (len(headings) - 2), "---"]
    return "\n".join(_piped(row) for row in (headings, marks, *table))


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    counting, merging = phases_of(one)
    return (
        name,
        _seconds(one["seconds"]),
        _seconds(one["cpu_seconds"]),
        f"{one['peak_megabytes']:,.0f}",
        _seconds(counting),
        _seconds(merging),
        _times(name, one["ratio"]),
        _times(name, one["cpu_ratio"]),
        one["verdict"],
    )


def _times(name: str, ratio: float | None) -> str:
    return "1" if name == OURS else "–" if ratio is None else f"{ratio:.1f}×"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
