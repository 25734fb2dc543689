"""Charts as SVG written by hand: they need no library, follow the page's colours, and print."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
Scale = Callable[[float], float]

_WIDTH, _HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 30, 44
_COLOURS = 5
_TICKS = 5
_LETTER = 6  # about as wide as one is
_LONGEST_NAME = 14
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


def line_chart(
    title: str, x_title: str, y_title: str, series: Sequence[Series], *, y_log: bool = False
) -> str:
    """Lines over a logarithmic x-axis; all x (and with ``y_log`` all y) above 0."""
    points = [point for one in series for point in one.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_ticks = _log_ticks(xs)
    y_ticks = _log_ticks(ys) if y_log else _ticks(ys)
    over = math.log if y_log else float
    x_of = _scale([*xs, *x_ticks], _LEFT, _WIDTH - _RIGHT, math.log)
    y_of = _scale([*ys, *y_ticks], _HEIGHT - _BOTTOM, _TOP, over)
    drawn = [*_frame(x_ticks, y_ticks, x_of, y_of, x_title, y_title)]
    for place, one in enumerate(series):
        colour = place % _COLOURS
        at = [(x_of(x), y_of(y)) for x, y in one.points]
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in at)
        drawn.append(f'<path class="s{colour}" d="M{path}"/>')
        if one.dots:
            drawn += [f'<circle class="d{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at]
    drawn += _legend([one.name for one in series])
    return _svg(title, drawn)


def bar_chart(title: str, x_title: str, y_title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Upright bars from 0 with their names below, which are left out where they would touch."""
    y_ticks = _ticks([0.0, *(value for _, value in bars)])
    y_of = _scale(y_ticks, _HEIGHT - _BOTTOM, _TOP, float)
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(bars), 1)
    drawn = [*_grid(y_ticks, y_of), *_titles(x_title, y_title)]
    every = max(1, math.ceil(max((len(name) for name, _ in bars), default=1) * 7 / step))
    for place, (name, value) in enumerate(bars):
        x, top = _LEFT + place * step, y_of(value)
        size = f'width="{step * 0.8:.1f}" height="{_HEIGHT - _BOTTOM - top:.1f}"'
        said = f"<title>{escape(name)}: {value:,.6g}</title>"
        drawn.append(
            f'<rect class="bar" x="{x + step * 0.1:.1f}" y="{top:.1f}" {size}>{said}</rect>'
        )
        if place % every == 0:
            drawn.append(_text(x + step / 2, _HEIGHT - _BOTTOM + 16, name, "middle"))
    return _svg(title, drawn)


def short_number(value: float) -> str:
    """``1.2k``, ``32k``, ``5M``: for axes."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def _frame(
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_of: Scale,
    y_of: Scale,
    x_title: str,
    y_title: str,
) -> Iterable[str]:
    yield from _grid(y_ticks, y_of)
    for tick in x_ticks:
        yield _text(x_of(tick), _HEIGHT - _BOTTOM + 16, short_number(tick), "middle")
    yield from _titles(x_title, y_title)


def _grid(y_ticks: Sequence[float], y_of: Scale) -> Iterable[str]:
    for tick in y_ticks:
        yield _level("grid", y_of(tick))
        yield _text(_LEFT - 8, y_of(tick) + 4, short_number(tick), "end")
    yield _level("axis", _HEIGHT - _BOTTOM)


def _level(kind: str, y: float) -> str:
    ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}"'
    return f'<line class="{kind}" {ends} y1="{y:.1f}" y2="{y:.1f}"/>'


def _titles(x_title: str, y_title: str) -> Iterable[str]:
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x_title, "middle", "name")
    yield _text(4, 14, y_title, "start", "name")


def _legend(names: Sequence[str]) -> Iterable[str]:
    if len(names) < 2:
        return
    names = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…" for name in names]
    widths = [_LETTER * len(name) + 28 for name in names]
    x = _WIDTH - _RIGHT - sum(widths)
    for place, (name, width) in enumerate(zip(names, widths, strict=True)):
        yield f'<rect class="d{place % _COLOURS}" x="{x:.0f}" y="6" width="10" height="10" rx="2"/>'
        yield _text(x + 15, 15, name, "start", "name")
        x += width


def _text(x: float, y: float, content: str, anchor: str, kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{marked}>{escape(content)}</text>'


def _svg(title: str, drawn: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(drawn)
        + "</svg>"
    )


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
