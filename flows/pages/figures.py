"""Charts as SVG files of their own, for MLflow and whoever shows pictures.

They are the charts of pages (`charts`), with a white ground and colours of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bpeline.flows.pages.charts import Chart
from bpeline.flows.pages.rendering import render
from bpeline.tokenizer_core.durable_files import DURABLE

_MOST_ROWS = 40
_THICK = 16
_NAMED, _WIDE = 150, 270  # from the left edge to a bar, and of the longest bar


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

    left, width = _NAMED, Chart.width

    @property
    def height(self) -> int:
        """Of all rows and what stands above and below."""
        return 44 + self._step * len(self.names[:_MOST_ROWS])

    @property
    def _step(self) -> int:
        return _THICK * len(self.values) + 8

    @property
    def rows(self) -> list[tuple[float, str]]:
        """y and name of each row."""
        middle = _THICK * len(self.values) / 2
        return [
            (24 + self._step * at + middle, name) for at, name in enumerate(self.names[:_MOST_ROWS])
        ]

    @property
    def bars(self) -> list[tuple[float, float, int, float]]:
        """y, length and colour of each bar, and its value."""
        most = max((value for some in self.values.values() for value in some), default=0) or 1
        return [
            (24 + self._step * at + _THICK * series, _WIDE * value / most, series % 5, value)
            for series, some in enumerate(self.values.values())
            for at, value in enumerate(some[:_MOST_ROWS])
        ]

    @property
    def legend(self) -> list[tuple[int, str]]:
        """Colour and name of each series, where there are several."""
        shown = [(at % 5, name) for at, name in enumerate(self.values)]
        return shown if len(shown) > 1 else []


def write_figure(path: Path, title: str, drawing: Chart | Bars) -> Path:
    """Draw on an SVG file, which is replaced; the same numbers give the same bytes.

    Args:
        title: shown above.

    Returns:
        ``path``.
    """
    template = "chart.svg" if isinstance(drawing, Chart) else "bars.svg"
    drawn = render(template, {"title": title, "drawing": drawing})
    DURABLE.write(path, drawn.encode(errors="backslashreplace"))
    return path
