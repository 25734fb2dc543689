"""Charts as SVG files of their own, for MLflow and whoever shows pictures.

They are the charts of pages (`charts`), with a white ground and colours of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bpeline.flows.pages.charts import Chart
from bpeline.flows.pages.rendering import render
from bpeline.tokenizer_core.durable_files import DURABLE

_MOST_ROWS = 40
_THICK = 16
_WIDE = 270  # of the longest bar
_LETTER, _MOST_LETTERS = 6.5, 60  # about as wide as one is; what is longer is cut on the left
_LINE = 16  # of a legend


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars beside each other's names, with their values: for names as long as people make them.

    Attributes:
        axis: what the values are.
        names: of the rows, the first 40 of which are drawn.
        values: of each series, one a row; none below 0.
    """

    axis: str
    names: Sequence[str]
    values: Mapping[str, Sequence[float]]

    @property
    def left(self) -> float:
        """Where bars begin: as far as the longest name needs."""
        longest = max((len(name) for name in self.names[:_MOST_ROWS]), default=0)
        return 12 + _LETTER * min(longest, _MOST_LETTERS)

    @property
    def width(self) -> float:
        """Of names, bars and values; at least that of a chart."""
        return max(self.left + _WIDE + 50, Chart.width)

    @property
    def height(self) -> int:
        """Of all rows and what stands above and below."""
        return 28 + self._step * len(self.names[:_MOST_ROWS])

    @property
    def _step(self) -> int:
        return _THICK * len(self.values) + 8

    @property
    def rows(self) -> list[tuple[float, str]]:
        """y and name of each row."""
        middle = _THICK * len(self.values) / 2
        return [
            (4 + self._step * at + middle, name) for at, name in enumerate(self.names[:_MOST_ROWS])
        ]

    @property
    def bars(self) -> list[tuple[float, float, int, float]]:
        """y, length and colour of each bar, and its value."""
        most = max((value for some in self.values.values() for value in some), default=0) or 1
        return [
            (4 + self._step * at + _THICK * series, _WIDE * value / most, series % 5, value)
            for series, some in enumerate(self.values.values())
            for at, value in enumerate(some[:_MOST_ROWS])
        ]


def write_figure(path: Path, title: str, drawing: Chart | Bars, series: Sequence[str] = ()) -> Path:
    """Draw on an SVG file, which is replaced; the same numbers give the same bytes.

    Args:
        title: shown above.
        series: names of what is drawn, for the legend below; a single one needs none.

    Returns:
        ``path``.
    """
    template = "chart.svg" if isinstance(drawing, Chart) else "bars.svg"
    if isinstance(drawing, Chart):
        drawing = replace(drawing, legend=())  # a page's is short, beside the axis's title
    named = [(_LINE * at, at % 5, name) for at, name in enumerate(series)]
    legend = named if len(named) > 1 else []
    height = drawing.height + 28 + _LINE * len(legend)
    values = {"title": title, "drawing": drawing, "legend": legend, "height": height}
    DURABLE.write(path, render(template, values).encode(errors="backslashreplace"))
    return path
