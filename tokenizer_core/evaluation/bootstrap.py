"""How sure a difference is: paired bootstrap over documents. Knows no tokenizer and no text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption

CONFIDENCE = 0.95
_REPLICATES = 2000
_SEED = 20_240_229  # fixed: the same documents give the same interval
_MOST_UNITS = 2_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its percentile interval.

    Attributes:
        value: on all documents.
        low, high: ends of the interval.
        confidence: the share of replicates inside.
        documents: how many were resampled.
    """

    value: float
    low: float
    high: float
    confidence: float
    documents: int

    @property
    def excludes_zero(self) -> bool:
        """Whether a difference of zero lies outside: the sign is not a matter of chance."""
        return self.low > 0 or self.high < 0


def percentile_interval(
    value: float, draws: NDArray[np.float64], confidence: float, documents: int
) -> Interval:
    """The percentile interval (Efron 1979) of a value, of which there are draws."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high), confidence, documents)


@dataclass(frozen=True, slots=True)
class ResampledChange:
    """Σ second / Σ first − 1 of documents, and of many draws of them.

    Attributes:
        value: on all documents.
        draws: float64, sorted: the same for each replicate.
        documents: how many were resampled.
    """

    value: float
    draws: NDArray[np.float64]
    documents: int

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """See `percentile_interval`."""
        return percentile_interval(self.value, self.draws, confidence, self.documents)


def resampled_change(first: NDArray[np.int64], second: NDArray[np.int64]) -> ResampledChange:
    """Σ second / Σ first − 1, resampled by documents in pairs.

    The bootstrap (Efron 1979): documents are drawn with replacement, each with both of its values,
    because the same text is long or short for both. Above 2,000 documents, neighbours are drawn
    together in 2,000 groups.

    Args:
        first, second: int64 ``[documents]``, tokens of each document; Σ first is above 0.

    Raises:
        InvalidOption: no documents, or arrays of different lengths.
    """
    if len(first) != len(second) or not int(first.sum()):
        raise InvalidOption(
            f"{len(first)} and {len(second)} documents cannot be compared in pairs",
            "the same documents for both, with at least one token",
            "measure both on the same text",
        )
    documents = len(first)
    pairs = np.stack((first, second), axis=1).astype(np.float64)
    if documents > _MOST_UNITS:
        begins = np.linspace(0, documents, _MOST_UNITS, endpoint=False).astype(np.int64)
        pairs = np.add.reduceat(pairs, begins, axis=0)
    random = np.random.default_rng(_SEED)
    changes = np.empty(_REPLICATES)
    for replicate in range(_REPLICATES):
        drawn = pairs[random.integers(len(pairs), size=len(pairs))].sum(axis=0)
        # A replicate without a single token says nothing about a ratio.
        changes[replicate] = drawn[1] / drawn[0] - 1 if drawn[0] else 0.0
    return ResampledChange(float(second.sum() / first.sum() - 1), np.sort(changes), documents)
