"""Which special tokens a call recognizes in its text, and which it refuses to find there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.model import find_special_tokens
from bpeline.tokenizer_core.text import Text


@dataclass(frozen=True, slots=True)
class SpecialPolicy:
    """The decision of one call.

    Attributes:
        allowed: recognized special tokens and their ids.
        forbidden: special tokens whose text is an error; all others are ordinary text.
    """

    allowed: Mapping[str, int]
    forbidden: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        special_tokens: Mapping[str, int],
        allowed_special: str | Collection[str],
        on_special: str,
    ) -> SpecialPolicy:
        """Read the two parameters of every ``encode``.

        Raises:
            InvalidOption: neither ``none``, ``all`` nor a set; or ``on_special`` is unknown.
            InvalidSpecialToken: allows what is no special token of this tokenizer.
        """
        if on_special not in ("text", "error"):
            raise InvalidOption(
                f"on_special is {on_special!r}",
                "accepted: 'text' (a special token not allowed is ordinary text), 'error'",
                "leave it out for 'text'",
            )
        allowed = _allowed(special_tokens, allowed_special)
        if on_special == "text":
            return cls(allowed)
        return cls(allowed, tuple(token for token in special_tokens if token not in allowed))

    @property
    def longest(self) -> int:
        """Characters of the longest special token that matters to this call, or 0."""
        return max(map(len, (*self.allowed, *self.forbidden)), default=0)

    def refuse_forbidden(self, text: str) -> None:
        """Raise when ``text`` holds a special token that is not allowed.

        Raises:
            InvalidSpecialToken: naming the ways out.
        """
        for token in self.forbidden:
            at = str.find(text, token)  # a subclass may find what it likes
            if at >= 0:
                raise InvalidSpecialToken(
                    f"the text holds the special token {token!r} at character {at}",
                    "with on_special='error' only allowed special tokens may occur",
                    f"allow it: allowed_special={{{token!r}}} (or 'all'); "
                    "or encode it as ordinary text: on_special='text'",
                )


def _allowed(
    special_tokens: Mapping[str, int], allowed_special: str | Collection[str]
) -> Mapping[str, int]:
    if isinstance(allowed_special, str):
        if allowed_special == "none":
            return {}
        if allowed_special == "all":
            return special_tokens
        raise InvalidOption(
            f"allowed_special is the string {allowed_special!r}",
            "accepted: 'none', 'all' or a set of special tokens",
            f"write allowed_special={{{allowed_special!r}}}"
            if allowed_special in special_tokens
            else "write allowed_special='all'",
        )
    unknown = [token for token in allowed_special if token not in special_tokens]
    if unknown:
        known = ", ".join(map(repr, special_tokens)) or "none at all"
        raise InvalidSpecialToken(
            f"allowed_special names {unknown[0]!r}, which is no special token here",
            f"special tokens of this tokenizer: {known}",
            "remove it, or train with it as a special token",
        )
    return {token: special_tokens[token] for token in allowed_special}


def spans_between(
    text: Text, begin: int, end: int, allowed: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut [begin, end) at allowed special tokens: leftmost first, the longest at one place.

    Returns:
        spans, int64 ``[n, 2]``: the text before each special token and behind the last one (some
        may be empty); and int64 ``[n]``: the id of the special token behind each span, or −1.
    """
    found = find_special_tokens(text, begin, end, [token.encode() for token in allowed])
    spans = np.empty((len(found) + 1, 2), np.int64)
    spans[0, 0] = begin
    spans[1:, 0] = found[:, 1]
    spans[:-1, 1] = found[:, 0]
    spans[-1, 1] = end
    behind = np.full(len(spans), -1, np.int64)
    behind[:-1] = np.fromiter(allowed.values(), np.int64, len(allowed))[found[:, 2]]
    return spans, behind
