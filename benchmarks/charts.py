"""Results as SVG pictures that can be read on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measurement import OURS
from benchmarks.tables import megabytes, speed_of

INK = "#848d97"  # legible on white and on near-black
_OURS, _EQUAL, _OTHER = "#2f81f7", "#8b949e", "#8b949e66"
_LINES = ("#2f81f7", "#db6d28", "#3fb950", "#a371f7", "#d4a72c", "#e5534b", "#39c5cf", "#848d97")
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bpeline",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, slots=True)
class Bars:
    """One panel: a bar for each name, in order."""

    title: str
    values: Sequence[tuple[str, float]]
    colours: Sequence[str]
    label: str


def bars(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Seconds of every trainer, one panel per file; paler bars learn something else."""
    panels = []
    for result in results:
        measured = _measured(result)
        panels.append(
            Bars(
                f"{result['file']}, {megabytes(result['bytes'])}",
                [(name, float(one["seconds"])) for name, one in measured],
                [_colour(*entry) for entry in measured],
                "{:.1f} s",
            )
        )
    draw_bars(panels, path)


def speeds(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """MB/s of every encoder, one panel per file and number of threads; the longer, the better."""
    panels = []
    for result in results:
        measured = sorted(_measured(result), key=lambda entry: -speed_of(entry[1], result))
        threads = result["threads"]
        panels.append(
            Bars(
                f"{result['file']}, {threads} thread{'s' if threads > 1 else ''}",
                [(name, speed_of(one, result)) for name, one in measured],
                [_colour(*entry) for entry in measured],
                "{:.0f} MB/s",
            )
        )
    draw_bars(panels, path)


def draw_bars(panels: Sequence[Bars], path: Path) -> None:
    """Panels below each other, bars lying."""
    pyplot = _pyplot()
    heights = [len(panel.values) + 1.3 for panel in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(7, 0.25 * sum(heights)),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
        layout="constrained",
    )
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        names, values = zip(*panel.values, strict=True)
        drawn = axis.barh(names, values, color=panel.colours, height=0.7)
        axis.bar_label(drawn, [panel.label.format(value) for value in values], padding=3)
        axis.set_title(panel.title, loc="left", fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.spines["bottom"].set_visible(False)
        axis.tick_params(length=0)
        axis.set_xticks([])
    _save(figure, path)


def curves(panels: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Seconds against a size, both logarithmic, one line per trainer.

    Args:
        panels: each with ``title``, ``label`` of the x axis and ``lines``: name → [(x, seconds)].
        path: of the SVG.
    """
    pyplot = _pyplot()
    from matplotlib.ticker import LogLocator

    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4 * len(panels), 3.2), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        for (name, points), colour in zip(panel["lines"].items(), _LINES, strict=False):
            if points:
                x, seconds = zip(*points, strict=True)
                axis.plot(x, seconds, marker="o", markersize=3, color=colour, label=name)
        ticks = sorted({x for points in panel["lines"].values() for x, _ in points})
        axis.set(xscale="log", yscale="log", xlabel=panel["label"], ylabel="seconds")
        axis.set_xticks(ticks, [_short(tick) for tick in ticks])
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_title(panel["title"], loc="left", fontsize=9)
        axis.legend(frameon=False, labelcolor=INK)
    _save(figure, path)


def _measured(result: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    measured = [(name, one) for name, one in result["contestants"].items() if "failure" not in one]
    return sorted(measured, key=lambda entry: float(entry[1]["seconds"]))


def _colour(name: str, one: Mapping[str, Any]) -> str:
    return _OURS if name.startswith(OURS) else _EQUAL if one["equal"] else _OTHER


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:g}"


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update(_STYLE)
    return pyplot


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    _pyplot().close(figure)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")
