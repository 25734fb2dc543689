"""What people see in a terminal and in a notebook: tokens, tables, lines; measures nothing."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bpeline.tokenizer_core.redaction import without_controls

# Colours that text is read on, light or dark: neighbours differ, and the order says nothing.
_HUES = (210, 30, 130, 280, 0, 170)
_STYLE = (
    "padding:0 .1em;border-radius:.2em;white-space:pre-wrap;-webkit-box-decoration-break:clone;"
    "box-decoration-break:clone;background:hsla({hue},75%,55%,.28);"
)
_SPECIAL = "outline:1px solid currentColor;"
_MOST = 2_000  # tokens shown in a page
_SEEN = {"\n": "⏎\n", "\t": "→\t"}


@dataclass(frozen=True, slots=True)
class ShownToken:
    """One token: its id, its text (of a part of a character, its bytes), whether it is special."""

    id: int
    text: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class ShownTokens:
    """The tokens of a text; prints itself with ``|`` between them, and coloured in a notebook."""

    tokens: tuple[ShownToken, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        return without_controls("|".join(token.text for token in self.tokens))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        spans = []
        for number, token in enumerate(self.tokens[:_MOST]):
            style = _STYLE.format(hue=_HUES[number % len(_HUES)])
            seen = "".join(_SEEN.get(character, character) for character in token.text)
            spans.append(
                f'<span title="{token.id}" style="{style}{_SPECIAL if token.special else ""}">'
                f"{html.escape(seen)}</span>"
            )
        more = len(self.tokens) - _MOST
        rest = f" … {more:,} more" if more > 0 else ""
        return (
            f'<div style="line-height:1.7;overflow-wrap:anywhere">{"".join(spans)}{rest}'
            f'<div style="opacity:.7">{len(self.tokens):,} tokens</div></div>'
        )


def shown_token(id_: int, token: bytes, special: bool) -> ShownToken:
    """A token as it is shown: text where it is whole characters, else its bytes."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        text = "".join(f"‹{byte:02X}›" for byte in token)
    return ShownToken(id_, text, special)


def card(facts: dict[str, str], sample: ShownTokens) -> str:
    """Facts about a tokenizer and a coloured sample, as HTML for a notebook."""
    return f"{table((), facts.items())}{sample._repr_html_()}"


def megabytes(size: int) -> str:
    """Bytes as people read them; decimal units."""
    if size < 10_000:
        return f"{size:,} bytes"
    if size < 10_000_000:
        return f"{size / 1e3:,.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
    return f"{size / 1e6:,.0f} MB"


def number_text(value: float | None, sign: str = "") -> str:
    """A metric as people read it, empty for None; ``sign="+"`` shows the sign of a difference."""
    if value is None:
        return ""
    return format(value, f"{sign},.0f" if value == int(value) else f"{sign},.6g")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table for a notebook: names to the left, figures to the right, everything escaped.

    Colours are the page's, so it is read on light and on dark ones.

    Args:
        heads: of the columns; without, the first cell of each row is a head.
        rows: the cells of each.
        caption: a sentence below.
    """

    def cell(tag: str, text: str, place: int) -> str:
        side = "left" if place == 0 or not heads else "right"
        return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'

    lines = [[cell("th", text, place) for place, text in enumerate(heads)]] if heads else []
    for row in rows:
        lines.append([
            cell("td" if heads or place else "th", text, place) for place, text in enumerate(row)
        ])  # fmt: skip
    shown = "".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    below = f'<p style="opacity:.7">{html.escape(caption)}</p>' if caption else ""
    return f"<table>{shown}</table>{below}"


def line_chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over a logarithmic x-axis as SVG for a notebook; points say their values.

    Args:
        title: what y is.
        lines: name → (x, y) in order of x, all x above 0; at least one point.
    """
    points = [point for line in lines.values() for point in line]
    xs, ys = [math.log(x) for x, _ in points], [y for _, y in points]
    left, right, top, bottom = 60, 460, 30, 200
    width, height = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (right - left) * (math.log(x) - min(xs)) / width
        return across, bottom - (bottom - top) * (y - min(ys)) / height

    axes = f'd="M{left} {top}V{bottom}H{right}" fill="none" stroke="currentColor"'
    drawn = [
        f'<text x="{left}" y="16">{html.escape(title)}</text>',
        f'<path {axes} opacity=".4"/>',
    ]
    drawn += [
        f'<text x="{left - 6}" y="{place(points[0][0], y)[1] + 4:.0f}" text-anchor="end">'
        f"{y:.4g}</text>"
        for y in sorted({min(ys), max(ys)})
    ]
    drawn += [
        f'<text x="{place(x, min(ys))[0]:.0f}" y="{bottom + 18}" text-anchor="middle">'
        f"{x:,.0f}</text>"
        for x in sorted({min(x for x, _ in points), max(x for x, _ in points)})
    ]
    for number, (name, line) in enumerate(lines.items()):
        colour = f"hsl({_HUES[number % len(_HUES)]},65%,50%)"
        placed = [place(x, y) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>'
            f"{html.escape(name)} {at:,.0f}: {value:.6g}</title></circle>"
            for (x, y), (at, value) in zip(placed, line, strict=True)
        ]
        if len(lines) > 1:
            drawn.append(
                f'<text x="{right + 8}" y="{top + 16 * number}" fill="{colour}">'
                f"{html.escape(name[:24])}</text>"
            )
    wide = right + (190 if len(lines) > 1 else 30)
    return (
        f'<svg viewBox="0 0 {wide} {bottom + 30}" width="{wide}" role="img" '
        f'style="max-width:100%;font:12px sans-serif" fill="currentColor">{"".join(drawn)}</svg>'
    )
