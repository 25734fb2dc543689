"""The pictures kept with a version: compression by size and slice, gains of merges, lengths.

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
_LONGEST_SHOWN = 32  # bytes; longer tokens share the last bar
_MOST_CURVES = 8
_MOST_BARS = 40


def load_library() -> None:
    """Import what draws, so that the first picture does not wait for it."""
    import matplotlib.figure  # noqa: F401


def draw_compression_curve(
    curve: Curve, path: Path, title: str = "", others: Mapping[str, Curve] | None = None
) -> Path:
    """Draw bytes per token over the vocab size (logarithmic).

    Args:
        curve: (vocab size, bytes per token), any order, at least one point.
        path: an ``.svg`` or ``.png`` file, replaced.
        title: shown above.
        others: curves to draw beside it, by name: slices, or another tokenizer. The first seven.

    Returns:
        ``path``.
    """
    figure, axes = _empty_picture(title)
    shown = list((others or {}).items())[: _MOST_CURVES - 1]
    for color, (name, points) in zip(_OTHERS, shown, strict=False):
        xs, ys = _columns(points)
        axes.plot(xs, ys, color=color, marker="o", markersize=3, linewidth=1.2, label=name)
    xs, ys = _columns(curve)
    axes.plot(xs, ys, color=_INK, marker="o", linewidth=2, label="all text")
    if shown:
        axes.legend(frameon=False, fontsize=8)
    _sizes_below(axes, sorted({int(x) for _, points in [("", curve), *shown] for x, _ in points}))
    axes.set_ylabel("bytes per token")
    return _save(figure, path)


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
    lines: Mapping[str, Curve], path: Path, title: str = "", level: float | None = None
) -> Path:
    """Draw bytes per token over the number of the observation, a line for each slice.

    Args:
        lines: slice → (number, bytes per token); the first eight.
        level: of the version's own text, a dashed line.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _empty_picture(title)
    for number, (name, points) in enumerate(list(lines.items())[:_MOST_CURVES]):
        color = _INK if number == 0 else _OTHERS[(number - 1) % len(_OTHERS)]
        xs, ys = _columns(points)
        axes.plot(xs, ys, color=color, marker="o", label=name)
    if level is not None:
        axes.axhline(level, color="#777777", linestyle="--", label="the version's own text")
    axes.legend(frameon=False, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("observation")
    axes.set_ylabel("bytes per token")
    return _save(figure, path)


def draw_merge_gain(
    gains: Curve, path: Path, title: str = "", marks: Mapping[str, int] | None = None
) -> Path:
    """Draw how many tokens of a million one merge saves, over the vocab size; both logarithmic.

    Args:
        gains: (vocab size, tokens), at least one point; those of 0 are left out.
        marks: vocab sizes to mark with a line, by name.
    """
    figure, axes = _empty_picture(title)
    xs, ys = _columns([point for point in gains if point[1] > 0] or gains)
    axes.plot(xs, ys, color=_INK, marker="o")
    axes.set_yscale("log")
    for color, (name, size) in zip(_OTHERS, (marks or {}).items(), strict=False):
        axes.axvline(size, color=color, linestyle="--", label=f"{name}: {size:,}")
    if marks:
        axes.legend(frameon=False, fontsize=8)
    _sizes_below(axes, sorted({*xs, *(marks or {}).values()}))
    axes.set_ylabel("tokens that one merge saves of a million")
    return _save(figure, path)


def draw_size_choice(costs: Curve, chosen: int, path: Path, title: str = "") -> Path:
    """Draw what a byte of text costs over the vocab size, and which size was chosen.

    Args:
        costs: (vocab size, MFLOPs per byte), at least one point.
        chosen: marked with a line.
    """
    figure, axes = _empty_picture(title)
    xs, ys = _columns(costs)
    axes.plot(xs, ys, color=_INK, marker="o", markersize=3)
    axes.axvline(chosen, color=_OTHERS[0], linestyle="--", label=f"least: {chosen:,} ids")
    axes.legend(frameon=False, fontsize=8)
    _sizes_below(axes, sorted({xs[0], chosen, xs[-1]}))
    axes.set_ylabel("MFLOPs for a byte of text")
    return _save(figure, path)


def draw_slices(
    values: Mapping[str, Mapping[str, float]], path: Path, title: str = "", axis: str = ""
) -> Path:
    """Draw one value for every slice, of one or several tokenizers, as bars.

    Args:
        values: tokenizer → slice → value, the same slices for all, the first 40 of them.
        axis: what the value is.
    """
    slices = list(next(iter(values.values())))[:_MOST_BARS]
    height = 0.8 / len(values)
    figure, axes = _empty_picture(title, rows=len(slices) * max(1, len(values)))
    for number, (name, found) in enumerate(values.items()):
        color = _INK if number == 0 else _OTHERS[(number - 1) % len(_OTHERS)]
        places = [place + height * (number - (len(values) - 1) / 2) for place in range(len(slices))]
        bars = axes.barh(places, [found[one] for one in slices], height, color=color, label=name)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set_yticks(range(len(slices)), slices)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#dddddd")
    axes.margins(x=0.12)
    axes.set_xlabel(axis)
    if len(values) > 1:
        figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return _save(figure, path)


def draw_token_lengths(lengths: Sequence[int], path: Path, title: str = "") -> Path:
    """Draw how many tokens of the vocab have which length.

    Args:
        lengths: bytes of every token.
        path: an ``.svg`` or ``.png`` file, replaced.
        title: shown above.

    Returns:
        ``path``.
    """
    bars = [0] * (_LONGEST_SHOWN + 1)
    for length in lengths:
        bars[min(length, _LONGEST_SHOWN)] += 1
    last = max((length for length, count in enumerate(bars) if count), default=1)
    figure, axes = _empty_picture(title)
    axes.bar(range(1, last + 1), bars[1 : last + 1], color=_INK)
    axes.set_xlabel(
        "bytes in a token" + (f" ({last} = {last} or more)" if last == _LONGEST_SHOWN else "")
    )
    axes.set_ylabel("tokens")
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
