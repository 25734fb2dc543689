"""What becomes of a vocab in training: tokens that nothing needs, and how well each size is used.

Everything follows from how often each merge fires on the words trained on; no word is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bpeline.tokenizer_core.evaluation.compression_curve import curve_sizes
from bpeline.tokenizer_core.evaluation.token_distribution import RARE, f95
from bpeline.tokenizer_core.evaluation.tokens_in_use import TokenUse
from bpeline.tokenizer_core.tokenizer import Tokenizer

ENOUGH = 100  # occurrences that nearly every token should have (Gowda & May 2020)


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
