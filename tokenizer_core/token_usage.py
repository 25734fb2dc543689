"""What becomes of tokens when merges are learned: how many stay, which were steps only.

Everything follows from how often each merge fires on the words trained on; no word is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.compression_curve import curve_sizes
from tokenizer_core.token_distribution import RARE
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.word_counts import WordCounts

JUNK = 0.9  # share of a token's occurrences that one merge takes (Chizhov et al. 2024, Picky BPE)
ENOUGH = 100  # occurrences that nearly every token should have (Gowda & May 2020)
COMMON_SHARE = 0.95  # of the vocab
_ROWS = 1 << 20  # words at a time


@dataclass(frozen=True, slots=True, eq=False)
class TokenUsage:
    """How the words that were counted use a vocab of byte-level BPE.

    Attributes:
        counts: int64, by id: occurrences in these words, special tokens 0.
        swallowed: float64, by id: the greatest share of a token's occurrences, at that time, that
            one merge took: IoS of Picky BPE, max over u of f(v merged with u) / f(v).
        dead: ordinary tokens that do not occur.
        rare: those that occur, but below `RARE` times.
        junk: tokens of two bytes or more with IoS ≥ `JUNK`.
        f95_by_size: (vocab size, the count that at least 95 % of that vocab reach).
    """

    counts: NDArray[np.int64]
    swallowed: NDArray[np.float64]
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


def token_usage(tokenizer: Tokenizer, words: WordCounts) -> TokenUsage:
    """Replay the merges over counted words.

    Args:
        tokenizer: of byte-level BPE without ``ignore_merges``.
        words: best those it was trained on.

    Raises:
        InvalidOption: a tokenizer of another algorithm.
    """
    gains = tokenizer.merge_gains(words)
    left, right, results = tokenizer.byte_pairs.merge_ids
    counts = np.zeros(max(tokenizer.vocab) + 1, np.int64)
    counts[tokenizer.byte_pairs.byte_ids] = byte_counts(words)
    counts_now, swallowed = counts.tolist(), [0.0] * len(counts)
    specials = len(tokenizer.special_tokens)
    stops = {size - 256 - specials: size for size in curve_sizes(tokenizer)}
    f95 = []
    fired = zip(left.tolist(), right.tolist(), results.tolist(), gains.tolist(), strict=True)
    for rank, (first, second, made, gain) in enumerate(fired):
        if rank in stops:
            f95.append((stops[rank], _f95(counts_now, stops[rank])))
        if gain:
            for part in {first, second}:
                swallowed[part] = max(swallowed[part], gain / counts_now[part])
        counts_now[first] -= gain
        counts_now[second] -= gain
        counts_now[made] += gain
    f95.append((tokenizer.vocab_size, _f95(counts_now, tokenizer.vocab_size)))
    ordinary = np.concatenate((tokenizer.byte_pairs.byte_ids, results))
    final = np.array(counts_now, np.int64)
    shares = np.array(swallowed)
    return TokenUsage(
        counts=final,
        swallowed=shares,
        dead=int((final[ordinary] == 0).sum()),
        rare=int(((final[ordinary] > 0) & (final[ordinary] < RARE)).sum()),
        junk=int((shares[results] >= JUNK).sum()),
        f95_by_size=tuple(f95),
    )


def byte_counts(words: WordCounts) -> NDArray[np.int64]:
    """int64 ``[256]``: how often each byte occurs in counted words."""
    sums = np.zeros(256, np.int64)
    for begin in range(0, len(words), _ROWS):
        offsets = words.offsets[begin : begin + _ROWS + 1]
        content = words.word_bytes[offsets[0] : offsets[-1]]
        weights = np.repeat(words.counts[begin : begin + _ROWS], np.diff(offsets))
        order = np.argsort(content, kind="stable")  # 2⁵³ is too little for sums of floats
        starts = np.searchsorted(content[order], np.arange(257))
        totals = np.concatenate((np.zeros(1, np.int64), np.cumsum(weights[order])))
        sums += np.diff(totals[starts])
    return sums


def _f95(counts: Sequence[int], vocab_size: int) -> int:
    """The greatest count that at least 95 % of a vocab reach."""
    used = np.array(counts, np.int64)
    used = np.sort(used[used > 0])[::-1]
    common = math.ceil(COMMON_SHARE * vocab_size)
    return int(used[common - 1]) if common <= len(used) else 0
