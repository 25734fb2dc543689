"""Words of characters and their merges in plain Python: documentation and oracle.

Where a kernel and this file disagree, this file is right.

    >>> merge_characters("lowest", [("e", "s"), ("es", "t"), ("est", "</w>")], "</w>")
    ['l', 'o', 'w', 'est</w>']
    >>> words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    >>> [left + right for left, right, _ in train_characters(words, 4, "_")]
    ['es', 'est', 'est_', 'lo']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

Pair = tuple[str, str]
Words = list[tuple[list[str], int]]
Learned = list[tuple[str, str, int]]


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


def count_pairs(words: Words) -> dict[tuple[str, str], int]:
    """How often neighbours occur, in order of sight. ``aaa`` counts (a, a) twice."""
    pairs: dict[tuple[str, str], int] = {}
    for symbols, count in words:
        for pair in pairwise(symbols):
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def train_characters(
    word_counts: Mapping[str, int],
    merges: int,
    end_of_word: str,
    *,
    joined: bool = False,
    tie_break: str = "first-seen",
    min_count: int = 2,
) -> Learned:
    """(left, right, count) of each merge: the most frequent pair, of equals the first one seen, or
    the greatest pair of texts with ``greatest-bytes``."""
    words = [(symbols_of(word, end_of_word, joined), n) for word, n in word_counts.items()]
    learned: Learned = []
    while len(learned) < merges:
        pairs = count_pairs(words)
        if not pairs or max(pairs.values()) < min_count:
            break
        highest = max(pairs.values())
        tied = [pair for pair, count in pairs.items() if count == highest]
        best = max(tied) if tie_break == "greatest-bytes" else tied[0]
        learned.append((*best, highest))
        words = [(join_everywhere(symbols, best), count) for symbols, count in words]
    return learned
