"""How often tokens come about and are left in counted words, and what that says of the vocab."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.evaluation.compression_curve import curve_sizes
from bpeline.tokenizer_core.evaluation.made_tokens import MadeTokens
from bpeline.tokenizer_core.evaluation.token_distribution import RARE, f95
from bpeline.tokenizer_core.tokenizer import Tokenizer

JUNK_SHARE = 0.9  # Chizhov et al. 2024 ("BPE Gets Picky") try thresholds from 0.6 to 0.9
ENOUGH = 100  # occurrences that nearly every token should have (Gowda & May 2020)
_WORDS_AT_A_TIME = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class TokenUse:
    """Counts for every id of a vocab; ``made`` and ``left`` are int64 ``[largest id + 1]``.

    Attributes:
        made: how often the token came about while the words were merged: for a byte its
            occurrences, for a merge how often it fired (for most pairs their count when they were
            merged in training; of ``aaa`` only one pair can fire).
        left: how often it is among the ids of the words in the end.
        absorbed: float64, by id: the largest share of a token's occurrences at that time that one
            merge takes in (intersection over self, Chizhov et al. 2024); 0 where none does, and
            for single bytes, which no vocab can do without.
        gains: by rank, how often each merge fired: the tokens it saves. Empty where nothing merges.
        bytes: Σ count · length of the words.
    """

    made: NDArray[np.int64]
    left: NDArray[np.int64]
    absorbed: NDArray[np.float64]
    gains: NDArray[np.int64]
    bytes: int

    @property
    def junk(self) -> NDArray[np.int64]:
        """Ids of tokens that are mostly a step on the way to one longer token."""
        return np.flatnonzero(self.absorbed >= JUNK_SHARE).astype(np.int64)


def token_use(
    tokenizer: Tokenizer, words: WordCounts, tokens: MadeTokens | None = None
) -> TokenUse:
    """Count the tokens of words; special tokens are never among them.

    For byte-level BPE one pass over the words gives all three; where words are taken whole and for
    other algorithms nothing merges on the way, so ``made`` equals ``left``.

    Args:
        words: cut by the tokenizer's pattern.
        tokens: of these words, where they have been encoded before: they are not again, unless
            their tokens can be made in several ways.
    """
    size = tokenizer.spec.largest_id + 1
    if not tokenizer.merges_words or tokenizer.byte_pairs.has_whole_words:
        left = (tokens or MadeTokens.of(tokenizer, words)).totals(words.counts)
        return TokenUse(left, left, np.zeros(size), np.zeros(0, np.int64), words.total_bytes)
    first, second, results = tokenizer.merge_ids
    if tokens is not None and tokens.tree.is_exact:
        left = tokens.totals(words.counts)
        made = left.copy()
        tokens.tree.pass_down(made, np.add)
        gains = made[results]
    else:
        gains = tokenizer.merge_gains(words)
        made = np.zeros(size, np.int64)
        made[tokenizer.byte_pairs.byte_ids] = byte_counts(words)
        np.add.at(made, results, gains)
        left = made.copy()
        np.subtract.at(left, first, gains)
        np.subtract.at(left, second, gains)
    absorbed = _absorbed(made, first, second, gains)
    absorbed[tokenizer.byte_pairs.byte_ids] = 0
    return TokenUse(made, left, absorbed, gains, words.total_bytes)


def _absorbed(
    made: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    gains: NDArray[np.int64],
) -> NDArray[np.float64]:
    """float64, by id: how much of a token the greediest merge takes of what is left of it then."""
    parts, taken = np.concatenate([first, second]), np.concatenate([gains, gains])
    ranks = np.tile(np.arange(len(gains)), 2)
    order = np.lexsort((ranks, parts))
    parts, taken = parts[order], taken[order]
    before = np.cumsum(taken) - taken  # by this and all smaller ids
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    of_this = before - np.repeat(before[begins], np.diff(begins, append=len(parts)))
    there = made[parts] - of_this
    twice = np.zeros(len(parts), np.bool_)  # the right half of a pair of equals
    twice[1:] = (parts[1:] == parts[:-1]) & (ranks[order][1:] == ranks[order][:-1])
    absorbed = np.zeros(len(made))
    np.maximum.at(absorbed, parts, np.where(twice, 0.0, taken / np.maximum(there, 1)))
    return absorbed


def byte_counts(words: WordCounts) -> NDArray[np.int64]:
    """int64 ``[256]``: how often each byte occurs in counted words."""
    sums = np.zeros(256, np.int64)
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        some = words.between(begin, begin + _WORDS_AT_A_TIME)
        np.add.at(sums, some.word_bytes, np.repeat(some.counts, some.lengths))
    return sums


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """How the words that were counted use a vocab of byte-level BPE.

    Attributes:
        dead: ordinary tokens that do not occur.
        rare: those that occur, but below `RARE` times.
        junk: tokens that are mostly a step to one longer token, see `TokenUse.junk`.
        f95_by_size: (vocab size, the count that at least 95 % of that vocab reach).
    """

    dead: int
    rare: int
    junk: int
    f95_by_size: tuple[tuple[int, int], ...]

    @property
    def largest_well_used(self) -> int | None:
        """The largest of these sizes where 95 % of the vocab occur `ENOUGH` times; None for none.

        The rule of Gowda & May 2020, on the words trained on.
        """
        sizes = [size for size, count in self.f95_by_size if count >= ENOUGH]
        return max(sizes, default=None)


def token_usage(tokenizer: Tokenizer, use: TokenUse) -> TokenUsage:
    """How a vocab, and its smaller sizes, are used by counted words.

    Args:
        tokenizer: of byte-level BPE without ``ignore_merges``.
        use: of its tokens in these words, best those it was trained on.

    Raises:
        InvalidOption: a tokenizer of another algorithm.
    """
    left, right, results = tokenizer.byte_pairs.merge_ids
    ordinary = np.concatenate((tokenizer.byte_pairs.byte_ids, results))
    final = use.left[ordinary]
    before = len(tokenizer.byte_pairs.byte_ids) + len(tokenizer.special_tokens)
    f95_by_size = []
    for size in curve_sizes(tokenizer):
        merged = max(size - before, 0)
        counts = use.made.copy()
        counts[results[merged:]] = 0
        np.subtract.at(counts, left[:merged], use.gains[:merged])
        np.subtract.at(counts, right[:merged], use.gains[:merged])
        f95_by_size.append((size, f95(np.sort(counts[counts > 0])[::-1], size)))
    return TokenUsage(
        dead=int((final == 0).sum()),
        rare=int(((final > 0) & (final < RARE)).sum()),
        junk=len(use.junk),
        f95_by_size=tuple(f95_by_size),
    )
