"""Tokens that hold parts of characters: no text of their own. Looks at vocabs alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bpeline.tokenizer_core.vocabulary import to_printable


@dataclass(frozen=True, slots=True)
class FragmentTokens:
    """Ordinary tokens that are not UTF-8 alone, with their ids, in the order of these.

    Attributes:
        parts: hold nothing but parts of characters; the bytes above 0x7F are among them.
        mixed: hold a part of a character and whole characters, such as a space and the first byte
            of a letter: a model that predicts one commits itself to a character it has not chosen.
    """

    parts: tuple[tuple[int, bytes], ...]
    mixed: tuple[tuple[int, bytes], ...]

    def as_record(self) -> dict[str, Any]:
        """JSON values: numbers, and each token as its id and its bytes in GPT-2's characters."""
        lists = {"parts": self.parts, "mixed": self.mixed}
        shown = {
            name: [[id_, to_printable(token)] for id_, token in tokens]
            for name, tokens in lists.items()
        }
        return {"undecodable_tokens": len(self.parts) + len(self.mixed), **shown}


def fragment_tokens(ids: Mapping[bytes, int]) -> FragmentTokens:
    """Look at ordinary tokens, given with their ids."""
    parts: list[tuple[int, bytes]] = []
    mixed: list[tuple[int, bytes]] = []
    for token, id_ in sorted(ids.items(), key=lambda one: one[1]):
        try:
            token.decode()
        except UnicodeDecodeError:
            whole = token.decode(errors="ignore")  # what is left without the parts
            (mixed if whole else parts).append((id_, token))
    return FragmentTokens(tuple(parts), tuple(mixed))
