"""How merges over characters are learned, in plain Python: documentation and oracle.

>>> words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
>>> [left + right for left, right, _ in train_characters(words, 4, "_")]
['es', 'est', 'est_', 'lo']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

from bpeline.tokenizer_core.reference_algorithms import join_everywhere, symbols_of

Words = list[tuple[list[str], int]]
Learned = list[tuple[str, str, int]]


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


def ratio(together: int, left: int, right: int, total: int) -> float:
    """In double precision, as the kernels compute it; exact to the last digit below 2⁵³."""
    return together / (float(left) * float(right))


def gain(together: int, left: int, right: int, total: int) -> float:
    """In double precision too."""
    return together * math.log(float(together) * float(total) / (float(left) * float(right)))


def train_wordpiece(
    word_counts: Mapping[str, int],
    merges: int,
    continuation: str,
    score: Callable[[int, int, int, int], float],
    min_count: int = 2,
) -> list[str]:
    """The tokens learned: the pair of the greatest score, then count, then of the rarest parts
    (the smallest product of their counts), then of the smallest ids.

    Characters are numbered by code point, those that begin words first; merges follow.
    """
    words = [
        ([word[0], *(continuation + c for c in word[1:])], n) for word, n in word_counts.items()
    ]
    base = {symbol for symbols, _ in words for symbol in symbols}
    length = len(continuation)
    inner = sorted(symbol for symbol in base if len(symbol) > length)
    ids = [*sorted(symbol for symbol in base if len(symbol) == 1), *inner]
    learned: list[str] = []
    while len(learned) < merges:
        counts: dict[str, int] = {}
        for symbols, count in words:
            for symbol in symbols:
                counts[symbol] = counts.get(symbol, 0) + count
        total = sum(counts.values())
        pairs = {pair: n for pair, n in count_pairs(words).items() if n >= min_count}
        if not pairs:
            break
        best = max(
            pairs,
            key=lambda pair: (
                score(pairs[pair], counts[pair[0]], counts[pair[1]], total),
                pairs[pair],
                -float(counts[pair[0]]) * float(counts[pair[1]]),
                -ids.index(pair[0]),
                -ids.index(pair[1]),
            ),
        )
        learned.append(best[0] + best[1][length:])
        ids.append(learned[-1])
        words = [(_join(symbols, best, learned[-1]), count) for symbols, count in words]
    return learned


def _join(symbols: list[str], pair: tuple[str, str], made: str) -> list[str]:
    joined = join_everywhere(symbols, pair)
    return [made if symbol == pair[0] + pair[1] else symbol for symbol in joined]
