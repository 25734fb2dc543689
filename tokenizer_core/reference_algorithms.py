"""How each algorithm over characters encodes one word, in plain Python: documentation and oracle.

Where a kernel and this file disagree, this file is right. Tokens are strings here, and what has no
token stays as it is: ids and unknown tokens come afterwards.

    >>> merge_characters("lowest", [("e", "s"), ("es", "t"), ("est", "</w>")], "</w>")
    ['l', 'o', 'w', 'est</w>']
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

Pair = tuple[str, str]


def symbols_of(word: str, end_of_word: str, joined: bool = False) -> list[str]:
    """A word's characters, the end marked by a symbol of its own or on the last character."""
    if joined:
        return [*word[:-1], word[-1] + end_of_word]
    return [*word, end_of_word]


def merge_characters(
    word: str, merges: Sequence[Pair], end_of_word: str, joined: bool = False
) -> list[str]:
    """Character BPE: the pair of lowest rank is joined at all its places, from left to right."""
    ranks: dict[Pair, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault(pair, rank)
    symbols = symbols_of(word, end_of_word, joined)
    while True:
        present = [pair for pair in pairwise(symbols) if pair in ranks]
        if not present:
            return symbols
        best = min(present, key=ranks.__getitem__)
        symbols = join_everywhere(symbols, best)


def join_everywhere(symbols: Sequence[str], pair: Pair) -> list[str]:
    """``symbols`` with every occurrence of ``pair`` joined, from left to right."""
    joined: list[str] = []
    position = 0
    while position < len(symbols):
        if tuple(symbols[position : position + 2]) == pair:
            joined.append(pair[0] + pair[1])
            position += 2
        else:
            joined.append(symbols[position])
            position += 1
    return joined


def merge_by_frequency(word: str, frequencies: Mapping[str, int], end_of_word: str) -> list[str]:
    """Frequency BPE: join the leftmost neighbours whose joined text is the most frequent one."""
    symbols = symbols_of(word, end_of_word)
    while True:
        found = [frequencies.get(left + right, 0) for left, right in pairwise(symbols)]
        if not any(found):
            return symbols
        place = found.index(max(found))
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


def longest_from_the_left(
    word: str, vocab: Collection[str], continuation: str, max_characters: int
) -> list[str] | None:
    """WordPiece: the longest token at each place; None where one lacks or the word is too long."""
    if len(word) > max_characters:
        return None
    pieces = []
    begin = 0
    while begin < len(word):
        mark = continuation if begin else ""
        ends = range(len(word), begin, -1)
        end = next((end for end in ends if mark + word[begin:end] in vocab), None)
        if end is None:
            return None
        pieces.append(mark + word[begin:end])
        begin = end
    return pieces


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
