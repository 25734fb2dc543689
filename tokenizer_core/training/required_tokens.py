"""Merges that make tokens somebody requires; they come before all learned ones. Counts nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting import SplitPattern, pre_tokens
from bpeline.tokenizer_core.vocabulary import byte_order

_BYTES = 256
# A token of n bytes costs up to n − 1 merges, and each looks at all of the token's parts.
LONGEST_REQUIRED_TOKEN = 1 << 10  # bytes

Pair = tuple[int, int]
T = TypeVar("T")


def required_merges(
    tokens: Sequence[str],
    pattern: SplitPattern | str,
    tie_break: str = "smallest-ids",
    max_token_bytes: int | None = None,
) -> NDArray[np.int32]:
    """Merges after which each of ``tokens`` is encoded as one token, whatever is learned later.

    Token by token: the token is encoded with the merges so far, then its first two parts are
    merged, wherever they are neighbours in it, until one part is left. The merges so far have
    smaller ranks and go first when text is encoded, so every token made here is reached. (From
    left to right over the *bytes* it would not be: after ``bc``, the merges ``a b`` and ``ab c``
    never make ``abc``.)

    A token is possible when the split pattern leaves it whole: no merge crosses the edges of a
    pre-token, so any other text could never be one token.

    Args:
        tokens: texts, such as ``" tokenizer"``; a leading space belongs to the token.
        pattern: what cuts text into pre-tokens.
        tie_break: decides how bytes are numbered.
        max_token_bytes: the longest token that training may make.

    Returns:
        int32 [m, 2]: as `learn_merges` takes them.

    Raises:
        InvalidOption: a single string instead of a sequence, an empty or repeated token, one
            that UTF-8 cannot hold, one that the pattern cuts, or one that is too long.
    """
    pattern = SplitPattern.parse(pattern)
    if isinstance(tokens, str):
        raise InvalidOption(
            f"required tokens were given as the one string {tokens!r}",
            "a sequence of strings is accepted",
            f"write [{tokens!r}]",
        )
    longest = min(max_token_bytes or LONGEST_REQUIRED_TOKEN, LONGEST_REQUIRED_TOKEN)
    seen: set[str] = set()
    for token in tokens:
        _refuse_impossible(token, pattern, longest)
        if token in seen:
            raise InvalidOption(
                f"the required token {token!r} is given twice",
                "each token has one id",
                f"give {token!r} once",
            )
        seen.add(token)
    ids = {byte: id_ for id_, byte in enumerate(byte_order(tie_break))}
    made: dict[Pair, int] = {}
    for token in tokens:
        parts = _encoded([ids[byte] for byte in token.encode()], made)
        while len(parts) > 1:
            pair = parts[0], parts[1]
            made[pair] = _BYTES + len(made)
            parts = merged(parts, pair, made[pair])
    return np.array(list(made), np.int32).reshape(-1, 2)


def _refuse_impossible(token: str, pattern: SplitPattern, longest: int) -> None:
    if not isinstance(token, str) or not token:
        raise InvalidOption(
            f"{token!r} cannot be a required token",
            "a required token is a string of at least one character",
            "remove it from the list",
        )
    try:
        size = len(token.encode())
    except UnicodeEncodeError:
        raise InvalidOption(
            f"the required token {token!r} contains a lone surrogate",
            "every character must have a UTF-8 form",
            "remove the characters U+D800 to U+DFFF from it",
        ) from None
    if size > longest:
        raise InvalidOption(
            f"the required token {token[:40]!r}… has {size} bytes",
            f"required tokens have at most {longest} bytes, and at most max_token_bytes",
            "make it a special token, or raise max_token_bytes",
        )
    pieces = pre_tokens(token, pattern)
    if pieces != [token]:
        name = pattern.name or pattern.regex
        shown = ", ".join(map(repr, pieces[:4])) + (", …" if len(pieces) > 4 else "")
        raise InvalidOption(
            f"the required token {token!r} is cut by the split pattern {name!r}: {shown}",
            "a required token is one pre-token, such as ' word' with its leading space",
            f"require its pieces, or make it a special token: special_tokens=[{token!r}]",
        )


def _encoded(parts: list[int], made: dict[Pair, int]) -> list[int]:
    """``parts`` after all merges made so far, the earliest first."""
    while len(parts) > 1:
        pairs = [pair for pair in itertools.pairwise(parts) if pair in made]
        if not pairs:
            break
        pair = min(pairs, key=made.__getitem__)
        parts = merged(parts, pair, made[pair])
    return parts


def merged(parts: Sequence[T], pair: tuple[T, T], made: T) -> list[T]:
    """``parts`` with each occurrence of ``pair`` replaced, from left to right."""
    result: list[T] = []
    at = 0
    while at < len(parts):
        is_pair = (*parts[at : at + 2],) == pair
        result.append(made if is_pair else parts[at])
        at += 2 if is_pair else 1
    return result
