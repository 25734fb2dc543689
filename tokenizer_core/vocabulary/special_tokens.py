"""Special tokens: validation, search in texts, and the policy of a call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, WrongKind
from bpeline.tokenizer_core.kernels.scanning.find_strings import (
    COLUMNS,
    find_longest,
    find_specials,
    find_specials_in_spans,
    read_from_right,
)
from bpeline.tokenizer_core.text import Text

_FEW_AT_ONCE, _MOST_AT_ONCE = 64, 1 << 16  # occurrences
_WINDOW = 1 << 16  # bytes
_KEPT_POLICIES = 32
_MOST_COMPARED = 32  # distinct first two bytes; for more, a lookup table is faster


def validate_special_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return special tokens as a tuple, or raise `InvalidSpecialToken`."""
    if isinstance(tokens, str):
        raise InvalidSpecialToken(
            f"special tokens were given as one string, {tokens!r}",
            "expected a sequence of strings",
            f"write [{tokens!r}]",
        )
    if not isinstance(tokens, Iterable):
        raise InvalidSpecialToken(
            f"special tokens were given as {tokens!r}",
            "expected a sequence of strings",
            'write ["<|endoftext|>"]',
        )
    seen: set[str] = set()
    for position, token in enumerate(tokens):
        if not isinstance(token, str) or not token:
            raise InvalidSpecialToken(
                f"special token {position} is {token!r}",
                "expected a string of at least one character",
                "remove it from the list",
            )
        if token in seen:
            raise InvalidSpecialToken(
                f"special token {token!r} is given twice",
                "expected each special token once",
                f"remove one {token!r}",
            )
        try:
            token.encode()
        except UnicodeEncodeError:
            raise InvalidSpecialToken(
                f"special token {token!r} contains a lone surrogate",
                "expected characters that UTF-8 can encode",
                "remove the characters U+D800 to U+DFFF from it",
            ) from None
        seen.add(token)
    return tuple(tokens)


def refuse_clashes(special_tokens: Sequence[str], tokens: Iterable[bytes]) -> None:
    """Raise InvalidSpecialToken for special tokens that are also ordinary tokens."""
    special = {token.encode() for token in special_tokens}
    clashing = special.intersection(tokens) if special else special
    for token in special_tokens:
        if token.encode() in clashing:
            raise InvalidSpecialToken(
                f"the special token {token!r} is also an ordinary token",
                "expected more than one byte, no required token or part of one, and a text that "
                "does not occur inside words",
                f"count the words with special_tokens=[{token!r}], or choose another",
            )


class SpecialTokenMatcher:
    """Finds special tokens (non-empty byte strings) in texts; thread-safe."""

    __slots__ = ("_index", "_states", "_tables")

    def __init__(self, tokens: Sequence[bytes]) -> None:
        index_of = {token: index for index, token in reversed([*enumerate(tokens)])}
        in_order = sorted(index_of)
        openings = np.array(
            sorted({(token[0], token[1] if len(token) > 1 else -1) for token in in_order}), np.int16
        ).reshape(-1, 2)
        begins_like_one = np.zeros((256, 256), np.bool_)  # by the second byte, then the first
        for first, second in openings.tolist():
            begins_like_one[slice(None) if second < 0 else second, first] = True
        pairs = np.packbits(begins_like_one, bitorder="little").view(np.uint64)
        first_bytes = np.array([token[0] for token in in_order], np.int64)
        firsts = np.searchsorted(first_bytes, np.arange(257)).astype(np.int64)
        # A bytearray, because kernels are compiled for writable arrays.
        strings = np.frombuffer(bytearray(b"".join(in_order)), np.uint8)
        offsets = np.cumsum([0, *map(len, in_order)], dtype=np.int64)
        compared = openings[: len(openings) if len(openings) <= _MOST_COMPARED else 0]
        self._index = np.array([index_of[token] for token in in_order], np.int64)
        self._tables = compared, pairs, firsts, strings, offsets
        self._states: NDArray[np.int32] | None = None  # created at first use

    def find(self, text: Text, begin: int, end: int) -> NDArray[np.int64]:
        """Find tokens in [begin, end): leftmost first, then longest, without overlap.

        Returns int64 ``[n, 3]``: begin and end in ``text`` (bytes), index in ``tokens``.
        """
        parts = []
        capacity = _FEW_AT_ONCE
        while begin < end and len(self._index):
            matches = np.empty((capacity, 3), np.int64)
            count, begin = find_specials(text.data, begin, end, *self._tables, matches)
            parts.append(matches[:count])
            if begin < end and count < capacity:
                parts += self._find_longest(text, begin, end)
                break
            capacity = min(capacity * 8, _MOST_AT_ONCE)
        return self._with_indexes(parts)

    def find_in_spans(
        self, text: Text, spans: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Search ranges, int64 ``[n, 2]``, as in `find`.

        Also returns the number of matches in each range: int64 ``[n]``.
        """
        spans = np.require(spans, np.int64, ["C", "W"])
        counts = np.zeros(len(spans), np.int64)
        parts = []
        capacity = _FEW_AT_ONCE
        span, position = 0, int(spans[0, 0]) if len(spans) else 0
        while span < len(spans) and len(self._index):
            matches = np.empty((capacity, 3), np.int64)
            count, span, position = find_specials_in_spans(
                text.data, spans, *self._tables, matches, counts, span, position
            )
            parts.append(matches[:count])
            if span < len(spans) and count < capacity:
                rest = self._find_longest(text, position, int(spans[span, 1]))
                counts[span] += sum(map(len, rest))
                parts += rest
                span += 1
                position = int(spans[span, 0]) if span < len(spans) else 0
            capacity = min(capacity * 8, _MOST_AT_ONCE)
        return self._with_indexes(parts), counts

    def _find_longest(self, text: Text, begin: int, end: int) -> list[NDArray[np.int64]]:
        """Find tokens in linear time, even if they overlap themselves (``aaaab``)."""
        *_, strings, offsets = self._tables
        if self._states is None:
            states = np.empty((len(strings) + 1, COLUMNS), np.int32)
            used = read_from_right(strings, offsets, states, np.empty(len(states), np.int32))
            self._states = states[:used].copy()
        longest = int(np.diff(offsets).max())
        window = max(_WINDOW, longest)
        longest_at, matches = np.empty(window, np.int32), np.empty((window, 3), np.int64)
        parts = []
        while begin < end:
            until = min(begin + window, end)
            tables = longest, self._states, offsets, longest_at, matches
            count, begin = find_longest(text.data, begin, until, end, *tables)
            parts.append(matches[:count].copy())
        return parts

    def _with_indexes(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        if not parts:
            return np.empty((0, 3), np.int64)
        occurrences = parts[0] if len(parts) == 1 else np.concatenate(parts)
        occurrences[:, 2] = self._index[occurrences[:, 2]]
        return occurrences


def find_special_tokens(
    text: Text, begin: int, end: int, tokens: Sequence[bytes]
) -> NDArray[np.int64]:
    """Find these tokens in a text with a cached `SpecialTokenMatcher`."""
    return _matcher_of(tuple(tokens)).find(text, begin, end)


# Consecutive pieces of files use the same tokens; creating a matcher takes 0.1 ms.
@lru_cache(maxsize=4)
def _matcher_of(tokens: tuple[bytes, ...]) -> SpecialTokenMatcher:
    return SpecialTokenMatcher(tokens)


@dataclass(frozen=True)
class SpecialPolicy:
    """The special tokens that a call recognises, and those that raise an error."""

    allowed: Mapping[str, int]
    forbidden: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        special_tokens: Mapping[str, int],
        allowed_special: str | Collection[str],
        on_special: str,
    ) -> SpecialPolicy:
        """Parse ``allowed_special`` and ``on_special`` of `Tokenizer.encode`."""
        if not isinstance(on_special, str) or on_special not in ("text", "error"):
            raise InvalidOption(
                f"on_special is {on_special!r}",
                "expected: 'text' (encode special tokens that are not allowed as text) or 'error'",
                "leave it out for 'text'",
            )
        allowed = _allowed(special_tokens, allowed_special)
        if on_special == "text":
            return cls(allowed)
        return cls(allowed, tuple(token for token in special_tokens if token not in allowed))

    @cached_property
    def matcher(self) -> SpecialTokenMatcher:
        return SpecialTokenMatcher([token.encode() for token in self.allowed])

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Ids of the allowed tokens, in the order of the matcher: int64 ``[n]``."""
        return np.fromiter(self.allowed.values(), np.int64, len(self.allowed))

    @cached_property
    def longest(self) -> int:
        """Characters of the longest allowed or forbidden token, or 0."""
        return max(map(len, (*self.allowed, *self.forbidden)), default=0)

    def refuse_forbidden(self, text: str) -> None:
        """Raise `InvalidSpecialToken` if ``text`` contains a forbidden special token."""
        for token in self.forbidden:
            at = str.find(text, token)  # a subclass may override `find`
            if at >= 0:
                raise InvalidSpecialToken(
                    f"the text contains the special token {token!r} at character {at}",
                    "with on_special='error', expected only allowed special tokens",
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
            "expected: 'none', 'all' or a set of special tokens",
            f"write allowed_special={{{allowed_special!r}}}"
            if allowed_special in special_tokens
            else "write allowed_special='all'",
        )
    unknown = [token for token in allowed_special if token not in special_tokens]
    if unknown:
        names = ", ".join(map(repr, special_tokens)) or "none at all"
        raise InvalidSpecialToken(
            f"allowed_special names {unknown[0]!r}, which is not a special token here",
            f"special tokens of this tokenizer: {names}",
            "remove it, or train with it as a special token",
        )
    return {token: special_tokens[token] for token in allowed_special}


def _set_of(allowed_special: Collection[str]) -> frozenset[str]:
    try:
        return frozenset(allowed_special)
    except TypeError:  # not iterable, or not hashable
        raise WrongKind(
            f"allowed_special is {allowed_special!r}",
            "expected: 'none', 'all' or a set of special tokens",
            "write allowed_special='all'",
        ) from None


class SpecialPolicies:
    """Cache of the policies of one tokenizer."""

    __slots__ = ("_made", "_named", "_special_tokens")

    def __init__(self, special_tokens: Mapping[str, int]) -> None:
        self._special_tokens = special_tokens
        self._named = {"none": frozenset[str](), "all": frozenset(special_tokens)}
        self._made = dict[tuple[str | frozenset[str], str], SpecialPolicy]()

    def of(self, allowed_special: str | Collection[str], on_special: str) -> SpecialPolicy:
        allowed: str | frozenset[str]
        if isinstance(allowed_special, str):
            allowed = self._named.get(allowed_special, allowed_special)
        else:
            allowed = _set_of(allowed_special)
        key = allowed, on_special
        policy = self._made.get(key) if isinstance(on_special, str) else None
        if policy is None:
            policy = SpecialPolicy.of(self._special_tokens, allowed, on_special)
            if len(self._made) >= _KEPT_POLICIES:
                self._made.clear()  # so many sets are probably each used once
            self._made[key] = policy
        return policy


def spans_between(
    text: Text, begin: int, end: int, policy: SpecialPolicy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split [begin, end) at allowed special tokens: leftmost first, then longest.

    Returns the text before each special token and after the last one, int64 ``[n, 2]``; and the id
    after each of these spans, or −1, int64 ``[n]``.
    """
    matches = policy.matcher.find(text, begin, end)
    spans = np.empty((len(matches) + 1, 2), np.int64)
    spans[0, 0] = begin
    spans[1:, 0] = matches[:, 1]
    spans[:-1, 1] = matches[:, 0]
    spans[-1, 1] = end
    ids_after = np.full(len(spans), -1, np.int64)
    ids_after[:-1] = policy.ids[matches[:, 2]]
    return spans, ids_after
