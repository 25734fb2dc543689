"""Which special tokens are legal and where they stand in a text; knows nothing of their ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidSpecialToken
from bpeline.tokenizer_core.kernels.scanning.find_specials import find_specials
from bpeline.tokenizer_core.text import Text

_FEW_AT_ONCE, _MOST_AT_ONCE = 64, 1 << 16  # occurrences


def validate_special_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    """The same tokens in the same order, once each is known to be usable.

    Raises:
        InvalidSpecialToken: a single string instead of a sequence, an empty token, a duplicate,
            or a lone surrogate (which UTF-8 cannot hold).
    """
    if isinstance(tokens, str):
        raise InvalidSpecialToken(
            f"special tokens were given as the one string {tokens!r}",
            "a sequence of strings is accepted",
            f"write [{tokens!r}]",
        )
    seen: set[str] = set()
    for position, token in enumerate(tokens):
        if not isinstance(token, str) or not token:
            raise InvalidSpecialToken(
                f"special token {position} is {token!r}",
                "a special token is a string of at least one character",
                "remove it from the list",
            )
        if token in seen:
            raise InvalidSpecialToken(
                f"special token {token!r} is given twice",
                "each special token has one id",
                f"give {token!r} once",
            )
        try:
            token.encode()
        except UnicodeEncodeError:
            raise InvalidSpecialToken(
                f"special token {token!r} contains a lone surrogate",
                "every character must have a UTF-8 form",
                "remove the characters U+D800 to U+DFFF from it",
            ) from None
        seen.add(token)
    return tuple(tokens)


class SpecialTokenMatcher:
    """Finds the same special tokens in any number of texts; any number of threads may use it.

    Args:
        tokens: non-empty byte strings.
    """

    __slots__ = ("_index", "_offsets", "_openings", "_sought")

    def __init__(self, tokens: Sequence[bytes]) -> None:
        longest_first = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        in_order = [tokens[index] for index in longest_first]
        first_two = {(token[0], token[1] if len(token) > 1 else -1) for token in in_order}
        self._index = np.array(longest_first, np.int64)
        # bytes of a frozen array would be read-only, and kernels are compiled for writable arrays
        self._sought = np.frombuffer(bytearray(b"".join(in_order)), np.uint8)
        self._offsets = np.cumsum([0, *map(len, in_order)], dtype=np.int64)
        self._openings = np.array(sorted(first_two), np.int16).reshape(-1, 2)

    def find(self, text: Text, begin: int, end: int) -> NDArray[np.int64]:
        """Where the tokens stand in [begin, end): leftmost first, the longest at one place.

        Occurrences never overlap: the search goes on behind each one, so ``<|a|><|a|>`` is two.

        Returns:
            int64 of shape [n, 3]: begin, end (byte positions in ``text``), index in ``tokens``.
        """
        parts = []
        capacity = _FEW_AT_ONCE
        while begin < end and len(self._index):
            found = np.empty((capacity, 3), np.int64)
            count, begin = find_specials(
                text.data, begin, end, self._openings, self._sought, self._offsets, found
            )
            parts.append(found[:count])
            capacity = min(capacity * 8, _MOST_AT_ONCE)
        if not parts:
            return np.empty((0, 3), np.int64)
        occurrences = parts[0] if len(parts) == 1 else np.concatenate(parts)
        occurrences[:, 2] = self._index[occurrences[:, 2]]
        return occurrences


def find_special_tokens(
    text: Text, begin: int, end: int, tokens: Sequence[bytes]
) -> NDArray[np.int64]:
    """What a `SpecialTokenMatcher` of these tokens finds in one text."""
    return SpecialTokenMatcher(tokens).find(text, begin, end)
