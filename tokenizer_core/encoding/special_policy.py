"""Which special tokens a call recognizes in its text, and which it refuses to find there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import SpecialTokenMatcher

_KEPT_POLICIES = 32


@dataclass(frozen=True)
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

    @cached_property
    def matcher(self) -> SpecialTokenMatcher:
        """Finds what is allowed."""
        return SpecialTokenMatcher([token.encode() for token in self.allowed])

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """int64 ``[n]``: the ids of what is allowed, in the order of the matcher."""
        return np.fromiter(self.allowed.values(), np.int64, len(self.allowed))

    @cached_property
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


class SpecialPolicies:
    """The policies of one tokenizer, each of them made once.

    Args:
        special_tokens: token → id.
    """

    __slots__ = ("_made", "_named", "_special_tokens")

    def __init__(self, special_tokens: Mapping[str, int]) -> None:
        self._special_tokens = special_tokens
        self._named = {"none": frozenset[str](), "all": frozenset(special_tokens)}
        self._made = dict[tuple[str | frozenset[str], str], SpecialPolicy]()

    def of(self, allowed_special: str | Collection[str], on_special: str) -> SpecialPolicy:
        """The policy of two parameters.

        Raises:
            InvalidOption, InvalidSpecialToken: as `SpecialPolicy.of`.
        """
        allowed: str | frozenset[str]
        if isinstance(allowed_special, str):
            allowed = self._named.get(allowed_special, allowed_special)
        else:
            allowed = frozenset(allowed_special)
        key = allowed, on_special
        policy = self._made.get(key)
        if policy is None:
            policy = SpecialPolicy.of(self._special_tokens, allowed, on_special)
            if len(self._made) >= _KEPT_POLICIES:
                self._made.clear()  # so many sets are made for single texts
            self._made[key] = policy
        return policy


def spans_between(
    text: Text, begin: int, end: int, policy: SpecialPolicy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut [begin, end) at allowed special tokens: leftmost first, the longest at one place.

    Returns:
        spans, int64 ``[n, 2]``: the text before each special token and behind the last one (some
        may be empty); and int64 ``[n]``: the id of the special token behind each span, or −1.
    """
    found = policy.matcher.find(text, begin, end)
    spans = np.empty((len(found) + 1, 2), np.int64)
    spans[0, 0] = begin
    spans[1:, 0] = found[:, 1]
    spans[:-1, 1] = found[:, 0]
    spans[-1, 1] = end
    behind = np.full(len(spans), -1, np.int64)
    behind[:-1] = policy.ids[found[:, 2]]
    return spans, behind
