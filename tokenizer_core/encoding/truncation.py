"""The longest prefix of a text that fits into a number of tokens; knows no vocab."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import whole_number
from bpeline.tokenizer_core.splitting import Cuts

_SEARCHED = 1 << 12  # bytes of a stretch without a cut in which every end is tried

Ends = Callable[[bytes], NDArray[np.int64]]


def longest_prefix(
    content: bytes, max_tokens: int, ends_of: Ends, longest_token: int, cuts: Cuts
) -> str:
    """The longest prefix of at most ``max_tokens`` tokens that splits no character.

    A longer prefix can take fewer tokens than a shorter one, so token ends alone do not answer.
    But at a legal cut tokens of both sides are independent: the prefix ends
    in the last stretch between two cuts in front of which some token is left to spend, and there
    every end is tried, the last one first. What is returned has been encoded and counted.

    Args:
        content: UTF-8.
        max_tokens: not negative.
        ends_of: gives int64 ``[n]``, where each token of a text ends, in bytes.
        longest_token: bytes of the longest token of the vocab.
        cuts: where the text may be cut, and which special tokens are allowed.

    Raises:
        InvalidOption: ``max_tokens`` is negative.
    """
    max_tokens = whole_number("max_tokens", max_tokens, 0, "write max_tokens=512")
    if max_tokens == 0:
        return ""
    # No prefix that fits is longer than that many tokens of the greatest length.
    content = content[: _character_end(content, max_tokens * longest_token)]
    ends = ends_of(content)
    if len(ends) <= max_tokens:
        return content.decode()
    spent = 0 if max_tokens == 1 else int(ends[max_tokens - 2])
    begin = _last_cut(content, ends[: max_tokens - 1], cuts)
    end = _first_cut(content, spent + 1, len(content), cuts)
    end = len(content) if end < 0 else end
    if end - begin > _SEARCHED:
        end = min(end, int(ends[max_tokens - 1]))
    left = max_tokens - int(np.searchsorted(ends, begin, side="right"))
    # Only with a pattern whose cuts are not what they promise is nothing found behind ``begin``.
    for size in _character_ends(content, 0, end):
        if size <= begin or len(ends_of(content[begin:size])) <= left:
            prefix = content[:size]
            if len(ends_of(prefix)) <= max_tokens:
                return prefix.decode()
    return ""


def _last_cut(content: bytes, ends: NDArray[np.int64], cuts: Cuts) -> int:
    """The last legal cut among ends of tokens, or 0."""
    if cuts.pairs is None:
        return 0
    return next((e for e in reversed(ends.tolist()) if _first_cut(content, e, e + 1, cuts) == e), 0)


def _first_cut(content: bytes, begin: int, end: int, cuts: Cuts) -> int:
    """The first cut in [begin, end) that is one also where the text ends soon behind it, or -1.

    The start of a special token is none: a prefix may end within it.
    """
    while cuts.pairs is not None and begin < end:
        begin = cuts.pairs.first(content, begin, end)
        if begin < 0 or cuts.first(content, begin, begin + 1) == begin:
            return begin
        begin += 1
    return -1


def _character_end(content: bytes, position: int) -> int:
    """The last end of a character at or before a position."""
    if position >= len(content):
        return len(content)
    while content[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _character_ends(content: bytes, begin: int, end: int) -> Iterator[int]:
    """Ends of characters in (begin, end], descending."""
    while (end := _character_end(content, end)) > begin:
        yield end
        end -= 1
