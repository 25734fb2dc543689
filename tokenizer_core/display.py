"""Tokens of a text as people see them, in a terminal and in a notebook; encodes nothing."""

from __future__ import annotations

import html
from dataclasses import dataclass

# Colours that text is read on, light or dark: neighbours differ, and the order says nothing.
_HUES = (210, 30, 130, 280, 0, 170)
_STYLE = (
    "display:inline-block;padding:0 .1em;margin:.05em 0;border-radius:.2em;white-space:pre;"
    "background:hsla({hue},75%,55%,.28)"
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
        return "|".join(token.text for token in self.tokens)

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
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(title)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for title, value in facts.items()
    )
    return f"<table>{rows}</table>{sample._repr_html_()}"
