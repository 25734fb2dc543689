"""Display of tokens and numbers in terminals, notebooks and pages."""

from __future__ import annotations

import html
from dataclasses import dataclass

import regex

from bpeline.tokenizer_core.redaction import without_controls
from bpeline.tokenizer_core.tables import Table

# Readable on light and dark backgrounds; neighbouring tokens differ.
_HUES = (210, 30, 130, 280, 0, 170)
_STYLE = (
    "padding:0 .1em;border-radius:.2em;white-space:pre-wrap;-webkit-box-decoration-break:clone;"
    "box-decoration-break:clone;background:hsla({hue},75%,55%,.28);"
)
_SPECIAL = "outline:1px solid currentColor;"
_MOST = 2_000  # tokens shown in HTML
_SEEN = {"\n": "⏎\n", "\t": "→\t"}
_INVISIBLE = regex.compile(r"[^\P{C}\n]|[^\P{Z} ]|\p{Default_Ignorable_Code_Point}")


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token with its displayed text, or bytes for part of a character."""

    id: int
    text: str
    special: bool = False


@dataclass(frozen=True, slots=True)
class ShownTokens:
    """Tokens of a text: printed with ``|`` between them, coloured in notebooks."""

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
    """Return a token for display: as text if it is whole characters, else as bytes."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        text = "".join(f"‹{byte:02X}›" for byte in token)
    return ShownToken(id_, text, special)


def printable(text: str) -> str:
    """Replace invisible characters and direction marks by code points: ``[U+202E]``."""
    if text.isascii() and text.isprintable():
        return text
    shown: str = _INVISIBLE.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)
    return shown


def card(facts: dict[str, str], sample: ShownTokens) -> str:
    """Return facts about a tokenizer and a coloured sample as HTML for a notebook."""
    return f"{Table((), list(facts.items())).html()}{sample._repr_html_()}"


def megabytes(size: int) -> str:
    """Format a number of bytes in decimal units."""
    if size < 10_000:
        return f"{size:,} bytes"
    if size < 10_000_000:
        return f"{size / 1e3:,.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
    return f"{size / 1e6:,.0f} MB"


def number_text(value: float | None, sign: str = "") -> str:
    """Format a metric; empty for None. ``sign="+"`` shows the sign of a difference."""
    if value is None:
        return ""
    return format(value, f"{sign},.0f" if value == int(value) else f"{sign},.6g")
