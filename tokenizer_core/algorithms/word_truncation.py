"""The longest prefix of whole words that fits into a number of tokens; knows no vocab."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bpeline.tokenizer_core.algorithms.word_encoder import PlacedIds
from bpeline.tokenizer_core.errors import InvalidOption


def longest_prefix_of_words(
    content: bytes, max_tokens: int, placed: PlacedIds, count: Callable[[bytes], int]
) -> str:
    """The longest prefix of at most ``max_tokens`` tokens that ends with a word.

    Words are independent, so the tokens up to the end of a word are those of the text up to
    there; only marks around sentences may come to more, so the prefix is counted again.

    Args:
        content: UTF-8.
        placed: its tokens.
        count: counts the tokens of a prefix.

    Raises:
        InvalidOption: ``max_tokens`` is negative.
    """
    if max_tokens < 0:
        raise InvalidOption(
            f"a text was to be cut to {max_tokens} tokens", "0 or more", "max_tokens=512"
        )
    if len(placed.ids) <= max_tokens:
        return content.decode()
    ends = placed.places[:max_tokens, 1][placed.closes[:max_tokens]]
    for end in np.unique(ends)[::-1].tolist():
        if count(content[:end]) <= max_tokens:
            return content[:end].decode()
    return ""
