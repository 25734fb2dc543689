"""Results as SVG pictures for light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurement import OURS
from benchmarks.tables import megabytes, speed_of
from bpeline.tokenizer_core.charts import COLOURS, Bars, Chart, Line, svg_file

Result = Mapping[str, Any]

_NAME_LENGTH = 18  # all panels begin their bars at one edge
_OURS, _EQUAL, _OTHER = COLOURS[0], "rgb(125,133,144)", "rgba(125,133,144,.4)"


def bars(results: Sequence[Result], path: Path) -> None:
    """Seconds of each trainer, one panel per file; paler bars learn something else."""
    panels = [
        _panel(
            f"{result['file']}, {megabytes(result['bytes'])}",
            sorted(_measured(result), key=lambda entry: float(entry[1]["seconds"])),
            lambda one: float(one["seconds"]),
            "{:.1f} s",
        )
        for result in results
    ]
    _write(path, panels)


def speeds(results: Sequence[Result], path: Path) -> None:
    """MB/s of each encoder, one panel per file and number of threads."""
    panels = []
    for result in results:
        threads = result["threads"]
        title = f"{result['file']}, {threads} thread{'s' if threads > 1 else ''}"

        def speed(one: Result, result: Result = result) -> float:
            return speed_of(one, result)

        measured = sorted(_measured(result), key=lambda entry: -speed(entry[1]))
        panels.append(_panel(title, measured, speed, "{:.0f} MB/s"))
    _write(path, panels)


def curves(panels: Sequence[Mapping[str, Any]], path: Path) -> None:
    charts = []
    for panel in panels:
        lines = [Line(name, points, dots=True) for name, points in panel["lines"].items() if points]
        charts.append(Chart(panel["title"], panel["label"], "seconds", lines, y_log=True))
    _write(path, charts, across=True)


def _panel(
    title: str,
    measured: Sequence[tuple[str, Result]],
    figure: Callable[[Result], float],
    value_format: str,
) -> Bars:
    names = [name for name, _ in measured]
    values = {"": [figure(figures) for _, figures in measured]}
    colours = [
        _OURS if name.startswith(OURS) else _EQUAL if figures["equal"] else _OTHER
        for name, figures in measured
    ]
    return Bars(title, "", names, values, value_format, colours, name_length=_NAME_LENGTH)


def _measured(result: Result) -> list[tuple[str, Result]]:
    return [
        (name, figures)
        for name, figures in result["contestants"].items()
        if "failure" not in figures
    ]


def _write(path: Path, charts: Sequence[Bars | Chart], *, across: bool = False) -> None:
    path.write_text(svg_file("", charts, across=across), encoding="utf-8")
