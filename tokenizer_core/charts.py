"""Charts as deterministic SVG text, for pages, notebooks, MLflow and README.

Text inherits the colour of its surroundings; series colours work on light and dark backgrounds.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bpeline.tokenizer_core.display import printable

COLOURS = (
    "rgb(47,129,247)", "rgb(214,96,40)", "rgb(34,150,80)", "rgb(152,100,235)",
    "rgb(222,72,92)", "rgb(20,146,160)", "rgb(166,128,20)", "rgb(125,133,144)",
)  # fmt: skip
_FONT = 'font-family="system-ui, Liberation Sans, sans-serif" font-size="11.5"'
_LETTER = 6.2  # width of a character
_WIDTH = 480
_RIGHT = 466  # right edge of the plot area; next: top and bottom
_TOP, _BOTTOM = 30, 226
_BELOW = 44  # height of the x-axis labels and title
_LEGEND_ROW = 18
_TICKS = 5
_OWN_TICKS = 8  # up to this many x values are used as ticks themselves
_MANY_DECADES = 3
_LONGEST_NAME = 8  # characters; longer names are tilted if they would overlap
_TILTED_LENGTH = 40  # characters shown of a tilted name
_BAR_LENGTH, _BAR_STEP = 270, 16
_BAR_ROWS = 40
_BAR_NAME = 60  # characters that fit in the name of a row
_ZOOM = 1.5  # of SVG files
_MIDDLE, _END = ' text-anchor="middle"', ' text-anchor="end"'
_PALE = ' opacity=".75"'
_STYLE = (
    "svg{color:#222}.ground{fill:#fff}@media(prefers-color-scheme:dark)"
    "{svg{color:#e6e8ea}.ground{fill:#15181b}}"
)

Scale = Callable[[float], float]
Curve = Sequence[tuple[float, float]]


class Point(NamedTuple):
    """A value with a tooltip and an interval; ``ringed`` draws a ring around it."""

    x: float
    y: float
    tooltip: str = ""
    low: float | None = None
    high: float | None = None
    ringed: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Points in order of x. Lines with one name share a colour and a legend entry."""

    name: str
    points: Sequence[tuple[float, float] | Point]
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """SVG elements with the width and height of their area."""

    width: float
    height: float
    elements: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines or vertical bars over an x-axis; a legend is added for several names.

    Attributes:
        bars: one height for each of ``names``; without bars, there must be a point.
        names: labels of x = 0, 1, 2, …; without names, the x-axis is logarithmic.
        y_log: logarithmic y-axis; all y must be positive.
    """

    title: str
    x_title: str
    y_title: str
    lines: Sequence[Line] = ()
    bars: Sequence[float] = ()
    names: Sequence[str] = ()
    y_log: bool = False

    def draw(self) -> Drawing:
        points = [Point(*point) for line in self.lines for point in line.points]
        ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
        ys += [0.0, *self.bars] if self.bars else []
        y_ticks = _log_ticks(ys) if self.y_log else _ticks(ys)
        y_of = _scale([*ys, *y_ticks], _BOTTOM, _TOP, math.log if self.y_log else float)
        left = 14 + _LETTER * max(len(short_number(tick)) for tick in y_ticks)
        tilted = bool(self.names) and _would_touch(self.names, left)
        longest = min(max(map(len, self.names), default=0), _TILTED_LENGTH)
        if tilted:
            left = max(left, 0.7 * _LETTER * longest)
        x_of, ticks = self._x_axis([point.x for point in points], left, tilted)
        bottom = _BOTTOM + _BELOW + (0.5 * _LETTER * longest if tilted else 0)
        colours = _colours(line.name for line in self.lines)
        legend, height = _legend(colours, left, _WIDTH - left, bottom)
        elements = [
            _axes(left, [(y_of(tick), short_number(tick)) for tick in y_ticks], ticks, tilted),
            _text((left + _RIGHT) / 2, bottom - 8, self.x_title, _MIDDLE),
            _text(4, 14, self.y_title),
            *self._upright_bars(x_of, y_of, left),
            *(e for line in self.lines for e in self._line(line, colours[line.name], x_of, y_of)),
            legend,
        ]
        return Drawing(_WIDTH, bottom + height, "".join(elements))

    def _x_axis(
        self, xs: Sequence[float], left: float, tilted: bool
    ) -> tuple[Scale, list[tuple[float, str]]]:
        """Return the scale of the x-axis and its labels, without overlaps."""
        if self.names:
            x_of = _scale([-0.5, len(self.names) - 0.5], left, _RIGHT, float)
            named = [
                (x_of(index), name if len(name) <= _TILTED_LENGTH else f"{name[:_TILTED_LENGTH]}…")
                for index, name in enumerate(self.names)
            ]
        else:
            own = sorted(set(xs))
            ticks = own if len(own) <= _OWN_TICKS else _log_ticks(xs)
            x_of = _scale([*xs, *ticks], left, _RIGHT, math.log)
            named = [(x_of(tick), short_number(tick)) for tick in ticks]
        labels: list[tuple[float, str]] = []
        for x, name in reversed(named):
            room = 14 if tilted else _LETTER * len(name) + 6
            if not labels or labels[-1][0] - x >= room:
                labels.append((x, name))
        return x_of, labels[::-1]

    def _upright_bars(self, x_of: Scale, y_of: Scale, left: float) -> Iterable[str]:
        thick = 0.8 * (_RIGHT - left) / max(len(self.bars), 1)
        for place, value in enumerate(self.bars):
            yield (
                f'<rect x="{x_of(place) - thick / 2:.1f}" y="{y_of(value):.1f}" '
                f'width="{thick:.1f}" height="{_BOTTOM - y_of(value):.1f}" fill="{COLOURS[0]}">'
                f"{_tooltip(f'{self.names[place]}: {value:,.6g}')}</rect>"
            )

    def _line(self, line: Line, colour: str, x_of: Scale, y_of: Scale) -> Iterable[str]:
        points = [Point(*point) for point in line.points]
        corners = "L".join(f"{x_of(point.x):.1f},{y_of(point.y):.1f}" for point in points)
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        yield (
            f'<path d="M{corners}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-linejoin="round"{dashes}/>'
        )
        for point in points:
            x, y = f"{x_of(point.x):.1f}", f"{y_of(point.y):.1f}"
            if point.low is not None and point.high is not None:
                yield (
                    f'<path d="M{x},{y_of(point.low):.1f}V{y_of(point.high):.1f}" fill="none" '
                    f'stroke="{colour}" stroke-width="2" opacity=".55"/>'
                )
            if point.ringed:
                yield (
                    f'<circle cx="{x}" cy="{y}" r="8" fill="none" stroke="{colour}" '
                    'stroke-width="2"/>'
                )
            if line.dots:
                place = self.names[int(point.x)] if self.names else f"{point.x:,.0f}"
                text = point.tooltip or f"{line.name} {place}: {point.y:.6g}".lstrip()
                yield (
                    f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}">{_tooltip(text)}</circle>'
                )


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars with names and values, at most 40 rows.

    Attributes:
        values: name of a series to its values, one for each row; none below 0.
        colours: one for each row of a single series; by default, each series has its own.
        name_length: minimum width of names in characters, to align several panels.
    """

    title: str
    axis: str
    names: Sequence[str]
    values: Mapping[str, Sequence[float]]
    value_format: str = "{:.2f}"
    colours: Sequence[str] = ()
    name_length: int = 0

    def draw(self) -> Drawing:
        names = self.names[:_BAR_ROWS]
        longest = max(self.name_length, *map(len, names), 0)
        left = 12 + 1.05 * _LETTER * min(longest, _BAR_NAME)
        width = max(left + _BAR_LENGTH + 70, _WIDTH)
        step = _BAR_STEP * len(self.values) + (4 if len(self.values) == 1 else 8)
        most = max((value for series in self.values.values() for value in series), default=0) or 1
        colours = _colours(self.values)
        elements = [
            _text(left - 6, 7 + step * row + _BAR_STEP * len(self.values) / 2, name, _END)
            for row, name in enumerate(names)
        ]
        for index, (name, series) in enumerate(self.values.items()):
            for row, value in enumerate(series[:_BAR_ROWS]):
                y, length = 4 + step * row + _BAR_STEP * index, _BAR_LENGTH * value / most
                colour = self.colours[row] if self.colours else colours[name]
                elements += [
                    f'<rect x="{left:.1f}" y="{y}" width="{length:.1f}" height="14" '
                    f'fill="{colour}"/>',
                    _text(left + length + 4, y + 11, self.value_format.format(value), _PALE),
                ]
        bottom = 8 + step * len(names)
        if self.axis:
            bottom += 20
            elements.append(_text(left, bottom - 8, self.axis))
        legend, height = _legend(colours, left, width - left, bottom)
        return Drawing(width, bottom + height, "".join([*elements, legend]))


def inline_svg(chart: Chart | Bars) -> str:
    """Return a chart as inline SVG for a page or a notebook, without a title."""
    area = chart.draw()
    return (
        f'<svg viewBox="0 0 {area.width:g} {area.height:g}" width="{area.width:g}" {_FONT} '
        f'role="img" aria-label="{_escaped(chart.title)}">{area.elements}</svg>'
    )


def svg_file(title: str, charts: Sequence[Chart | Bars], *, across: bool = False) -> str:
    """Return an SVG file that follows the viewer's light or dark mode.

    Several charts have titles, and are drawn below each other, or side by side if ``across``.
    """
    elements, width, height, top = [], 0.0, 0.0, 24 if title else 4
    for chart in charts:
        area = chart.draw()
        x, y = (width, float(top)) if across else (0.0, height or top)
        if len(charts) > 1:
            elements.append(_text(x + 4, y + 16, chart.title, ' font-weight="600"'))
            y += 24
        elements.append(
            f'<svg x="{x:g}" y="{y:g}" width="{area.width:g}" height="{area.height:g}">\n'
            f"{area.elements}\n</svg>"
        )
        width = width + area.width if across else max(width, area.width)
        height = max(height, y + area.height) if across else y + area.height
    heading = _text(4, 16, title, ' font-size="13"') if title else ""
    body = "\n".join(elements).replace("><", ">\n<")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{_ZOOM * width:g}" height="{_ZOOM * height:g}" {_FONT}>\n'
        f"<title>{_escaped(title or charts[0].title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="ground" width="100%" height="100%"/>\n{heading}\n{body}\n</svg>\n'
    )


def curves_in_notebook(curves: Mapping[str, Curve]) -> str:
    """Return a chart of bytes per token by vocabulary size; empty without data."""
    lines = [Line(name, curve, dots=True) for name, curve in curves.items() if curve]
    return inline_svg(Chart("", "ids", "bytes per token", lines)) if lines else ""


def short_number(value: float) -> str:
    """Format a number for axes: ``1.2k``, ``32k``, ``5M``."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def _axes(
    left: float,
    levels: Sequence[tuple[float, str]],
    names: Sequence[tuple[float, str]],
    tilted: bool,
) -> str:
    grid = "".join(f"M{left:.1f},{y:.1f}H{_RIGHT}" for y, _ in levels)
    line = 'fill="none" stroke="currentColor" opacity='
    below = _BOTTOM + (14 if tilted else 16)
    elements = [
        f'<path d="{grid}" {line}".15"/>',
        f'<path d="M{left:.1f},{_BOTTOM}H{_RIGHT}" {line}".5"/>',
        *(_text(left - 8, y + 4, name, _END + _PALE) for y, name in levels),
    ]
    for x, name in names:
        placed = f'{_END} transform="rotate(-30 {x:.1f} {below})"' if tilted else _MIDDLE
        elements.append(_text(x, below, name, placed + _PALE))
    return "".join(elements)


def _colours(names: Iterable[str]) -> dict[str, str]:
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(dict.fromkeys(names))}


def _legend(colours: Mapping[str, str], left: float, room: float, top: float) -> tuple[str, float]:
    if len(colours) < 2:
        return "", 0
    elements, x, row = [], 0.0, 0
    for name, colour in colours.items():
        width = _LETTER * len(name) + 32
        if x and x + width > room:
            x, row = 0.0, row + 1
        y = top + _LEGEND_ROW * row
        elements += [
            f'<rect x="{left + x:.1f}" y="{y:.1f}" width="10" height="10" rx="2" fill="{colour}"/>',
            _text(left + x + 15, y + 9, name),
        ]
        x += width
    return "".join(elements), _LEGEND_ROW * (row + 1)


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor"{attributes}>{_escaped(text)}</text>'


def _tooltip(text: str) -> str:
    return f"<title>{_escaped(text)}</title>"


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _would_touch(names: Sequence[str], left: float) -> bool:
    longest = max(map(len, names))
    step = (_RIGHT - left) / len(names)
    return longest > _LONGEST_NAME and _LETTER * longest + 6 > step


def _scale(values: Sequence[float], low: float, high: float, over: Scale) -> Scale:
    first, last = over(min(values)), over(max(values))
    span = (last - first) or 1.0
    return lambda value: low + (over(value) - first) / span * (high - low)


def _ticks(values: Sequence[float]) -> list[float]:
    """About `_TICKS` round numbers that enclose the values."""
    low, high = min(values), max(values)
    rough = (high - low) / _TICKS or abs(high) / _TICKS or 1.0
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    return [number * step for number in range(first, last + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, … between the values; only powers of ten over many decades."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1,) if len(decades) > _MANY_DECADES + 1 else (1, 2, 5)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in ticks if low <= tick <= high] or [low]
