"""How evenly a vocab is used: figures of the distribution of token counts. Knows no text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RENYI_ORDER = 2.5
RARE = 100  # occurrences; tokens met less often are learned badly (Gowda & May 2020)
_COMMON_SHARE = 0.95
_MIDDLE = 0.03, 0.83  # of the observed tokens by rank


@dataclass(frozen=True, slots=True)
class TokenDistribution:
    """Figures of counts c_v over a vocab V: T = Σ c_v, p_v = c_v / T, V⁺ = {v: c_v > 0}.

    Attributes:
        distinct_tokens: |V⁺|.
        unused_tokens: |V| − |V⁺|.
        rare_tokens: tokens with 0 < c_v < `RARE`.
        f95: the greatest count that at least 95 % of V reach (Gowda & May 2020).
        type_token_ratio: |V⁺| / T.
        shannon_entropy: H = −Σ p_v log₂ p_v, in bits.
        shannon_efficiency: H / log₂|V|.
        renyi_efficiency: H₂.₅ / log₂|V|, H_α = log₂(Σ p_v^α) / (1 − α) (Zouhar et al. 2023).
        renyi_efficiency_observed: H₂.₅ / log₂|V⁺|; 0 when only one token occurs.
        imbalance: D = ½ Σ_v |p_v − 1/|V|| over V (Gowda & May 2020); 0 is even.
        percentile_frequency: Σ p_v over the ranks of V⁺ from 3 % to 83 %, most frequent first.
        average_rank: Σ p_v · rank(v), the most frequent token having rank 1 (Limisiewicz 2023).
    """

    distinct_tokens: int
    unused_tokens: int
    rare_tokens: int
    f95: int
    type_token_ratio: float
    shannon_entropy: float
    shannon_efficiency: float
    renyi_efficiency: float
    renyi_efficiency_observed: float
    imbalance: float
    percentile_frequency: float
    average_rank: float


def f95(counts: NDArray[np.int64], vocab_size: int) -> int:
    """The greatest count that at least 95 % of a vocab reach, of counts in descending order."""
    common = math.ceil(_COMMON_SHARE * vocab_size)
    return int(counts[common - 1]) if common <= len(counts) else 0


def token_distribution(occurrences: NDArray[np.int64], vocab_size: int) -> TokenDistribution:
    """The figures of a count for each token.

    Args:
        occurrences: int64, by id; entries that are no id are 0. At least one is not.
        vocab_size: |V|, at least 2.
    """
    counts = np.sort(occurrences[occurrences > 0])[::-1]
    tokens, distinct = int(counts.sum()), len(counts)
    shares = counts / tokens
    shannon = max(0.0, float(-(shares * np.log2(shares)).sum()))
    renyi = float(np.log2((shares**RENYI_ORDER).sum()) / (1 - RENYI_ORDER))
    first, last = (int(distinct * share) for share in _MIDDLE)
    return TokenDistribution(
        distinct_tokens=distinct,
        unused_tokens=vocab_size - distinct,
        rare_tokens=int((counts < RARE).sum()),
        f95=f95(counts, vocab_size),
        type_token_ratio=distinct / tokens,
        shannon_entropy=shannon,
        shannon_efficiency=shannon / math.log2(vocab_size),
        renyi_efficiency=renyi / math.log2(vocab_size),
        renyi_efficiency_observed=renyi / math.log2(distinct) if distinct > 1 else 0.0,
        imbalance=float(
            (np.abs(shares - 1 / vocab_size).sum() + (vocab_size - distinct) / vocab_size) / 2
        ),
        percentile_frequency=float(shares[first:last].sum()),
        average_rank=float((shares * np.arange(1, distinct + 1)).sum()),
    )
