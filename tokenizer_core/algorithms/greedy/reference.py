"""How greedy encoding cuts one word, in plain Python: documentation and oracle."""

from __future__ import annotations

from collections.abc import Sequence


def longest_anywhere(word: str, tokens: Sequence[str], end_of_word: str, unknown: str) -> list[str]:
    """Greedy: the first of ``tokens`` in the word at all its places, then what is between them.

    Args:
        tokens: longest first, the mark of the end of a word being one character.
    """
    return _longest_in([*word, end_of_word], tokens, end_of_word, unknown)


def _longest_in(
    symbols: list[str], tokens: Sequence[str], end_of_word: str, unknown: str
) -> list[str]:
    if not symbols:
        return []
    for index, token in enumerate(tokens):
        sought = [*token.removesuffix(end_of_word), end_of_word]
        sought = sought if token.endswith(end_of_word) else list(token)
        for place in range(len(symbols) - len(sought) + 1):
            if symbols[place : place + len(sought)] == sought:
                left, right = symbols[:place], symbols[place + len(sought) :]
                return [
                    *_longest_in(left, tokens[index + 1 :], end_of_word, unknown),
                    token,
                    *_longest_in(right, tokens[index:], end_of_word, unknown),
                ]
    return [unknown]
