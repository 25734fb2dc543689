"""Charts measured out: where ``templates/charts.html`` draws lines, bars and names in SVG.

They need no library, follow the page's colours, and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
Scale = Callable[[float], float]

_COLOURS = 5
_TICKS = 5
_LETTER = 6  # about as wide as one is
_LONGEST_NAME = 14
_Y_TITLE = 140  # room for the name of the y-axis
_MANY_DECADES = 3


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or points where there are few of them and each was measured.

    Attributes:
        name: for the legend.
        points: (x, y) in order of x.
        dots: whether to mark the points.
    """

    name: str
    points: Sequence[Point]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A value at one of several places in a row.

    Attributes:
        place: from 0.
        value, said: how high it is, and what is shown when somebody points at it.
        line: what is measured; a line joins only values of the same.
        low, high: ends of an interval around it.
        ringed: drawn with a ring around it.
    """

    place: int
    value: float
    said: str
    line: str
    low: float | None = None
    high: float | None = None
    ringed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that is drawn, in the units of the drawing.

    Attributes:
        title, x_title, y_title: what it shows.
        levels: y and name of each line across.
        names: x and name of what is below.
        lines: colour and corners of each series, and whether these are marked.
        bars: x, y, width and height of each, and what is shown when somebody points at it.
        spots: x, y, colour and name of each likewise, and whether it has a ring.
        intervals: x, both ends and colour of each upright line.
        legend: x, colour and name of each series, where there are several.
    """

    title: str
    x_title: str
    y_title: str
    levels: Sequence[tuple[float, str]]
    names: Sequence[tuple[float, str]]
    lines: Sequence[tuple[int, Sequence[Point], bool]] = ()
    bars: Sequence[tuple[float, float, float, float, str]] = ()
    spots: Sequence[tuple[float, float, int, str, bool]] = ()
    intervals: Sequence[tuple[float, float, float, int]] = ()
    legend: Sequence[tuple[float, int, str]] = ()

    width, height = 480, 270
    left, right, top, bottom = 50, 466, 30, 226  # the edges of the field


def line_chart(
    title: str, x_title: str, y_title: str, series: Sequence[Series], *, y_log: bool = False
) -> Chart:
    """Lines over a logarithmic x-axis; all x (and with ``y_log`` all y) above 0."""
    points = [point for one in series for point in one.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_ticks = _log_ticks(xs)
    y_ticks = _log_ticks(ys) if y_log else _ticks(ys)
    x_of = _scale([*xs, *x_ticks], Chart.left, Chart.right, math.log)
    y_of = _scale([*ys, *y_ticks], Chart.bottom, Chart.top, math.log if y_log else float)
    lines = [
        (place % _COLOURS, [(x_of(x), y_of(y)) for x, y in one.points], one.dots)
        for place, one in enumerate(series)
    ]
    levels = [(y_of(tick), short_number(tick)) for tick in y_ticks]
    names = [(x_of(tick), short_number(tick)) for tick in x_ticks]
    legend = _legend([one.name for one in series])
    return Chart(title, x_title, y_title, levels, names, lines, legend=legend)


def bar_chart(title: str, x_title: str, y_title: str, bars: Sequence[tuple[str, float]]) -> Chart:
    """Upright bars from 0 with their names below, which are left out where they would touch."""
    y_ticks = _ticks([0.0, *(value for _, value in bars)])
    y_of = _scale(y_ticks, Chart.bottom, Chart.top, float)
    step = (Chart.right - Chart.left) / max(len(bars), 1)
    every = max(1, math.ceil(max((len(name) for name, _ in bars), default=1) * 7 / step))
    drawn, names = [], []
    for place, (name, value) in enumerate(bars):
        x, y = Chart.left + place * step, y_of(value)
        said = f"{name}: {value:,.6g}"
        drawn.append((x + step * 0.1, y, step * 0.8, Chart.bottom - y, said))
        if place % every == 0:
            names.append((x + step / 2, name))
    levels = [(y_of(tick), short_number(tick)) for tick in y_ticks]
    return Chart(title, x_title, y_title, levels, names, bars=drawn)


def spot_chart(
    title: str,
    x_title: str,
    y_title: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[Spot]],
) -> Chart:
    """Values at places in a row, a colour for each series; at least one of them.

    Args:
        names: what each place is called; left out where they would touch.
    """
    spots = [(row, spot) for row, some in enumerate(series.values()) for spot in some]
    drawn = [one for _, s in spots for one in (s.value, s.low, s.high) if one is not None]
    y_ticks = _ticks(drawn)
    y_of = _scale([*drawn, *y_ticks], Chart.bottom, Chart.top, float)
    step = (Chart.right - Chart.left) / len(names)
    every = max(1, math.ceil((max(map(len, names)) * _LETTER + 6) / step))

    def x_of(place: int) -> float:
        return Chart.left + (place + 0.5) * step

    lines: dict[tuple[int, str], list[Point]] = {}
    for row, spot in spots:
        lines.setdefault((row, spot.line), []).append((x_of(spot.place), y_of(spot.value)))
    return Chart(
        title,
        x_title,
        y_title,
        levels=[(y_of(tick), short_number(tick)) for tick in y_ticks],
        names=[(x_of(at), name) for at, name in enumerate(names) if at % every == 0],
        lines=[(row % _COLOURS, points, False) for (row, _), points in lines.items()],
        spots=[
            (x_of(spot.place), y_of(spot.value), row % _COLOURS, spot.said, spot.ringed)
            for row, spot in spots
        ],
        intervals=[
            (x_of(spot.place), y_of(spot.low), y_of(spot.high), row % _COLOURS)
            for row, spot in spots
            if spot.low is not None and spot.high is not None
        ],
        legend=_legend(list(series)),
    )


def short_number(value: float) -> str:
    """``1.2k``, ``32k``, ``5M``: for axes."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def legend_fits(names: Sequence[str]) -> bool:
    """Whether a chart has a colour for each series, and room for their names beside that of y."""
    return len(names) <= _COLOURS and sum(_widths(names)) <= Chart.right - _Y_TITLE


def _widths(names: Sequence[str]) -> list[int]:
    return [_LETTER * min(len(name), _LONGEST_NAME + 1) + 28 for name in names]


def _legend(names: Sequence[str]) -> list[tuple[float, int, str]]:
    """From the right edge to the left; a single series needs none."""
    if len(names) < 2:
        return []
    widths = _widths(names)
    names = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…" for name in names]
    starts = [Chart.right - sum(widths[place:]) for place in range(len(names))]
    return [(x, place % _COLOURS, names[place]) for place, x in enumerate(starts)]


def _scale(values: Sequence[float], low: float, high: float, over: Scale) -> Scale:
    first, last = over(min(values)), over(max(values))
    span = (last - first) or 1.0
    return lambda value: low + (over(value) - first) / span * (high - low)


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers around the values, about `_TICKS` of them."""
    low, high = min(values), max(values)
    rough = (high - low) / _TICKS or abs(high) / _TICKS or 1.0
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, … among the values; powers of ten alone where there would be too many."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(decades) > _MANY_DECADES + 1 else (1, 2, 5)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in ticks if low <= tick <= high] or [low]
