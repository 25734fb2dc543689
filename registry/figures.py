"""Charts of several trainings: vocab sizes, mixtures and drift over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bpeline.tokenizer_core.charts import Chart, Line, svg_file
from bpeline.tokenizer_core.durable_files import DURABLE

Curve = Sequence[tuple[int, float]]

_MOST_CURVES = 8
_Y_TITLE = "bytes per token"


def draw_sweep(lines: Mapping[str, Curve], path: Path, title: str = "") -> Path:
    """Draw bytes per token over the vocab size, one line per split pattern."""
    drawn = [Line(_short(name), sorted(points), dots=True) for name, points in lines.items()]
    return _save(path, title, Chart("Sweep", "vocab size", _Y_TITLE, drawn))


def draw_choices(
    values: Mapping[str, Sequence[float]], choices: Sequence[str], path: Path, title: str = ""
) -> Path:
    """Draw bytes per token of slices over unordered choices, one line per slice."""
    drawn = [Line(name, [*enumerate(measured)], dots=True) for name, measured in values.items()]
    return _save(path, title, Chart("Mixtures", "", _Y_TITLE, drawn, names=choices))


def draw_observations(
    lines: Mapping[str, Curve],
    watched: Mapping[int, float],
    path: Path,
    title: str = "",
    level: float | None = None,
) -> Path:
    """Draw bytes per token over observation numbers; lines break between versions.

    Args:
        lines: slice → (number, bytes per token); the first eight are drawn.
        watched: observation number → version number.
        level: bytes per token on the version's own text.
    """
    numbers = sorted({number for points in lines.values() for number, _ in points})
    places = {number: place for place, number in enumerate(numbers)}
    curves = []
    for name, points in list(lines.items())[:_MOST_CURVES]:
        for version in dict.fromkeys(watched.get(number) for number, _ in points):
            of_version = [
                (places[number], value)
                for number, value in sorted(points)
                if watched.get(number) == version
            ]
            curves.append(Line(name, of_version, dots=True))
    if level is not None:
        ends = [(0, level), (len(numbers) - 1, level)]
        curves.append(Line("the version's own text", ends, dashed=True))
    names = [str(number) for number in numbers]
    return _save(path, title, Chart("Drift", "observation", _Y_TITLE, curves, names=names))


def _short(name: str) -> str:
    return name if len(name) < 30 else f"{name[:29]}…"


def _save(path: Path, title: str, chart: Chart) -> Path:
    DURABLE.write(path, svg_file(title, [chart]).encode())
    return path
