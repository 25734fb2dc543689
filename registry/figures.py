"""The pictures of several trainings: sweeps, mixtures, and what drift was observed.

Draws numbers it is given onto files; knows nothing of tokenizers. Matplotlib is imported when the
first picture is drawn and used without ``pyplot``, which would look for a display.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core.durable_files import DURABLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = Sequence[tuple[int, float]]

_INK = "#20558a"
_OTHERS = ("#d1495b", "#2a9d8f", "#e9a03b", "#7b5ea7", "#5c8001", "#8d6e63", "#00798c")
_MOST_CURVES = 8


def draw_sweep(lines: Mapping[str, Curve], path: Path, title: str = "") -> Path:
    """Draw bytes per token over the vocab size, a line for each split pattern."""
    figure, axes = _empty_picture(title)
    for number, (name, points) in enumerate(lines.items()):
        color = _INK if number == 0 else _OTHERS[(number - 1) % len(_OTHERS)]
        xs, ys = _columns(points)
        axes.plot(
            xs, ys, color=color, marker="o", label=name if len(name) < 30 else f"{name[:29]}…"
        )
    axes.legend(frameon=False, fontsize=8)
    _sizes_below(axes, sorted({size for points in lines.values() for size, _ in points}))
    axes.set_ylabel("bytes per token")
    return _save(figure, path)


def draw_choices(
    values: Mapping[str, Sequence[float]], choices: Sequence[str], path: Path, title: str = ""
) -> Path:
    """Draw bytes per token of every slice over choices that have no order but the given one.

    Args:
        values: slice → a value for each choice; that of everything is drawn thicker.
        choices: what they are called.
    """
    figure, axes = _empty_picture(title, rows=2 * len(values))
    places = range(len(choices))
    for number, (name, measured) in enumerate(values.items()):
        color = _INK if name == "all" else _OTHERS[number % len(_OTHERS)]
        width = 2.5 if name == "all" else 1.2
        axes.plot(places, measured, color=color, marker="o", linewidth=width)
        axes.annotate(
            name, (len(choices) - 1, measured[-1]), xytext=(6, 0), textcoords="offset points",
            color=color, fontsize=8, va="center",
        )  # fmt: skip
    axes.set_xticks(places, choices, rotation=30, ha="right")
    axes.margins(x=0.15)
    axes.set_ylabel("bytes per token")
    return _save(figure, path)


def draw_observations(
    lines: Mapping[str, Curve],
    watched: Mapping[int, float],
    path: Path,
    title: str = "",
    level: float | None = None,
) -> Path:
    """Draw bytes per token over the number of the observation; a line ends with its version.

    Args:
        lines: slice → (number, bytes per token); the first eight.
        watched: number → of which version.
        level: of the version's own text, a dashed line.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _empty_picture(title)
    for number, (name, points) in enumerate(list(lines.items())[:_MOST_CURVES]):
        color = _INK if number == 0 else _OTHERS[(number - 1) % len(_OTHERS)]
        versions = dict.fromkeys(watched.get(number) for number, _ in points)
        for place, version in enumerate(versions):
            xs, ys = _columns([one for one in points if watched.get(one[0]) == version])
            axes.plot(xs, ys, color=color, marker="o", label="" if place else name)
    if level is not None:
        axes.axhline(level, color="#777777", linestyle="--", label="the version's own text")
    axes.legend(frameon=False, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("observation")
    axes.set_ylabel("bytes per token")
    return _save(figure, path)


def _columns(points: Curve) -> tuple[list[int], list[float]]:
    ordered = sorted(points)
    return [size for size, _ in ordered], [value for _, value in ordered]


def _sizes_below(axes: Axes, sizes: Sequence[int]) -> None:
    """A logarithmic axis of vocab sizes, the last ones never on top of each other."""
    shown: list[int] = []
    for size in reversed(sizes):
        if not shown or size <= shown[-1] / 1.3:
            shown.append(size)
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [f"{size:,}" for size in shown], rotation=30, ha="right")
    axes.minorticks_off()
    axes.set_xlabel("vocab size")


def _empty_picture(title: str, rows: int = 0) -> tuple[Any, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, max(4, 1.2 + 0.28 * rows)), dpi=120)
    if rows:  # names as long as people make them: measured, which means drawing twice
        figure.set_layout_engine("constrained")
    else:
        figure.subplots_adjust(left=0.14, right=0.97, bottom=0.2, top=0.92)
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.grid(axis="y", color="#dddddd")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    # Without a date and with fixed ids, the same numbers give the same bytes.
    from matplotlib import rc_context

    kind = path.suffix.removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "bpeline"}), DURABLE.writing_aside(path) as aside:
        figure.savefig(aside, format=kind, metadata=metadata)
    return path
