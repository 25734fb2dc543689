"""Algorithms over characters in plain Python: documentation and oracle.

Where a kernel and this file disagree, this file is right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def count_tokens(words: Iterable[tuple[Sequence[str], int]]) -> dict[str, int]:
    """How often each token stands in words, in order of sight."""
    counts: dict[str, int] = {}
    for symbols, count in words:
        for symbol in symbols:
            counts[symbol] = counts.get(symbol, 0) + count
    return counts


def ratio(together: int, left: int, right: int, total: int) -> float:
    """In double precision, as the kernels compute it; exact to the last digit below 2⁵³."""
    return together / (float(left) * float(right))


def gain(together: int, left: int, right: int, total: int) -> float:
    """In double precision too."""
    return together * math.log(float(together) * float(total) / (float(left) * float(right)))


SCORES: dict[str, Callable[[int, int, int, int], float]] = {"ratio": ratio, "gain": gain}


def likelihood_gained(made: int, left: int, right: int, total: int, double: bool) -> float:
    """What the log-likelihood of a unigram model, estimated anew, gains by a merge.

    It is Σ n · log n − N · log N over the counts of all tokens.

    Args:
        made: occurrences that become one token. double: whether both parts are the same token.
    """

    def part(count: int) -> float:
        return float(count) * math.log(float(count)) if count > 0 else 0.0

    gained = part(made)
    gained += part(left - (2 if double else 1) * made) - part(left)
    if not double:
        gained += part(right - made) - part(right)
    return gained - (part(total - made) - part(total))


def score_of(
    name: str,
    words: Sequence[tuple[Sequence[str], int]],
    pair: tuple[str, str],
    together: int,
    counts: Mapping[str, int],
    total: int,
) -> float:
    """A pair's score by name, in words as they are segmented."""
    left, right = counts[pair[0]], counts[pair[1]]
    if name != "likelihood":
        return SCORES[name](together, left, right, total)
    double = pair[0] == pair[1]
    if double:  # those that overlap cannot both be merged
        together = sum(
            count * (len(symbols) - len(join_everywhere(symbols, pair))) for symbols, count in words
        )
    return likelihood_gained(together, left, right, total, double)


def train_wordpiece(
    word_counts: Mapping[str, int],
    merges: int,
    continuation: str,
    score: str,
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
        counts = count_tokens(words)
        total = sum(counts.values())
        pairs = {pair: n for pair, n in count_pairs(words).items() if n >= min_count}
        if not pairs:
            break
        best = max(
            pairs,
            key=lambda pair: (
                score_of(score, words, pair, pairs[pair], counts, total),
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


def compress_block(block: bytes, threshold: int) -> tuple[bytes, dict[int, bytes]]:
    """What is left of a block, and the pair that each newly used byte stands for."""
    unused = [byte for byte in range(255, -1, -1) if byte not in block]
    pairs: dict[int, bytes] = {}
    for code in unused:
        counts = Counter(pairwise(block))
        if not counts or max(counts.values()) < threshold:
            break
        most = max(counts.values())
        best = bytes(min(pair for pair, count in counts.items() if count == most))
        pairs[code] = best
        block = block.replace(best, bytes([code]))
    return block, pairs


def expand_block(block: bytes, pairs: dict[int, bytes]) -> bytes:
    """The bytes that were compressed."""
    for code, pair in reversed(pairs.items()):
        block = block.replace(bytes([code]), pair)
    return block
