"""The pictures kept with a version: how compression grows with the vocab, how long tokens are.

Draws numbers it is given onto files; knows nothing of tokenizers. Matplotlib is imported when the
first picture is drawn and used without ``pyplot``, which would look for a display.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizer_core.durable_files import DURABLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#20558a"
_LONGEST_SHOWN = 32  # bytes; longer tokens share the last bar


def load_library() -> None:
    """Import what draws, so that the first picture does not wait for it."""
    import matplotlib.figure  # noqa: F401


def draw_compression_curve(curve: Sequence[tuple[int, float]], path: Path, title: str = "") -> Path:
    """Draw bytes per token over the vocab size (logarithmic).

    Args:
        curve: (vocab size, bytes per token), any order, at least one point.
        path: an ``.svg`` or ``.png`` file, replaced.
        title: shown above.

    Returns:
        ``path``.
    """
    points = sorted(curve)
    figure, axes = _empty_picture(title)
    axes.plot([size for size, _ in points], [value for _, value in points], color=_INK, marker="o")
    axes.set_xscale("log", base=2)
    sizes = [size for size, _ in points]
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30, ha="right")
    axes.minorticks_off()
    axes.set_xlabel("vocab size")
    axes.set_ylabel("bytes per token")
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


def _empty_picture(title: str) -> tuple[Any, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
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
