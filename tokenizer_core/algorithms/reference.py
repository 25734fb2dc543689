"""Plain-Python algorithms over characters: documentation and test oracle.

Kernels must agree with this module.
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
    """Split a word into characters and a symbol for its end, unless it is joined."""
    if joined:
        return [*word[:-1], word[-1] + end_of_word]
    return [*word, end_of_word]


def merge_characters(
    word: str, merges: Sequence[Pair], end_of_word: str, joined: bool = False
) -> list[str]:
    """Apply character BPE: join the pair of lowest rank everywhere, left to right."""
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
    """Join every occurrence of ``pair``, from left to right."""
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
    """Count adjacent pairs, in order of first occurrence; ``aaa`` counts (a, a) twice."""
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
    """Learn merges as (left, right, count), the most frequent pair first.

    Ties go to the pair seen first; with ``greatest-bytes`` to the greatest pair of texts.
    """
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
    """Encode a word greedily: the longest token anywhere, then both sides of it.

    ``tokens`` must be sorted longest first; the end-of-word mark counts as one character.
    """
    return _longest_in([*word, end_of_word], tokens, end_of_word, unknown)


def _longest_in(
    symbols: list[str], tokens: Sequence[str], end_of_word: str, unknown: str
) -> list[str]:
    if not symbols:
        return []
    for index, token in enumerate(tokens):
        characters = [*token.removesuffix(end_of_word), end_of_word]
        characters = characters if token.endswith(end_of_word) else list(token)
        for place in range(len(symbols) - len(characters) + 1):
            if symbols[place : place + len(characters)] == characters:
                left, right = symbols[:place], symbols[place + len(characters) :]
                return [
                    *_longest_in(left, tokens[index + 1 :], end_of_word, unknown),
                    token,
                    *_longest_in(right, tokens[index:], end_of_word, unknown),
                ]
    return [unknown]


def count_tokens(words: Iterable[tuple[Sequence[str], int]]) -> dict[str, int]:
    """Count tokens in words, in order of first occurrence."""
    counts: dict[str, int] = {}
    for symbols, count in words:
        for symbol in symbols:
            counts[symbol] = counts.get(symbol, 0) + count
    return counts


def ratio(together: int, left: int, right: int, total: int) -> float:
    """n_ab / (n_a · n_b) in double precision, as in the kernels; exact below 2⁵³."""
    return together / (float(left) * float(right))


def gain(together: int, left: int, right: int, total: int) -> float:
    """n_ab · log(n_ab · N / (n_a · n_b)), in double precision."""
    return together * math.log(float(together) * float(total) / (float(left) * float(right)))


SCORES: dict[str, Callable[[int, int, int, int], float]] = {"ratio": ratio, "gain": gain}


def likelihood_gained(made: int, left: int, right: int, total: int, double: bool) -> float:
    """Gain of a merge in the log-likelihood Σ n · log n − N · log N.

    ``made`` occurrences become one token; ``double``: both parts are the same token.
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
    """Score a pair by the named score, in words as currently segmented."""
    left, right = counts[pair[0]], counts[pair[1]]
    if name != "likelihood":
        return SCORES[name](together, left, right, total)
    double = pair[0] == pair[1]
    if double:  # overlapping occurrences cannot both be merged
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
    """Learn tokens by merging the pair with the best score.

    Ties go to the higher count, then to the smallest product of the parts' counts, then to the
    smallest ids. Ids: word-initial characters by code point, continuations, then merges.
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
    """Compress a block; return the rest and the pair that each new byte stands for."""
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
    """Expand what `compress_block` compressed."""
    for code, pair in reversed(pairs.items()):
        block = block.replace(bytes([code]), pair)
    return block
