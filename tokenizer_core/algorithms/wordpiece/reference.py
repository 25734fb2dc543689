"""How WordPiece is learned and encodes one word, in plain Python: documentation and oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from bpeline.tokenizer_core.reference_characters import count_pairs, join_everywhere


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
