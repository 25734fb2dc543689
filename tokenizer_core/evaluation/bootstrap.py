"""How sure a difference is: paired bootstrap over documents. Knows no tokenizer and no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metric_names import CONFIDENCE

_REPLICATES = 2000
_SEED = 20_240_229  # fixed: the same documents give the same interval
_MOST_UNITS = 2_000
_AT_A_TIME = 200  # replicates; divides their number


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
    """Σ second / Σ first − 1, see `resampled_changes`."""
    return resampled_changes(first, [second])[0]


def resampled_changes(
    first: NDArray[np.int64], others: Sequence[NDArray[np.int64]]
) -> list[ResampledChange]:
    """Σ other / Σ first − 1 of each of the others, resampled by documents in pairs.

    The bootstrap (Efron 1979): documents are drawn with replacement, each with all of its values,
    because the same text is long or short for all. Above 2,000 documents, neighbours are drawn
    together in 2,000 groups. The draws are made once: many others take little longer than one.

    Args:
        first: int64 ``[documents]``, tokens of each document; their sum is above 0.
        others: likewise, of the same documents.

    Raises:
        InvalidOption: no documents, or arrays of different lengths.
    """
    for other in others:
        if len(first) != len(other) or not int(first.sum()):
            raise InvalidOption(
                f"{len(first)} and {len(other)} documents cannot be compared in pairs",
                "the same documents for both, with at least one token",
                "measure both on the same text",
            )
    if not others:
        return []
    sums = resampled_sums(np.stack((first, *others), axis=1))
    before, total = sums[:, 0], first.sum()
    # A replicate without a single token says nothing about a ratio.
    changes = (
        np.divide(after, before, out=np.ones(len(sums)), where=before > 0) - 1
        for after in sums[:, 1:].T
    )
    return [
        ResampledChange(float(other.sum() / total - 1), np.sort(change), len(first))
        for other, change in zip(others, changes, strict=True)
    ]


def resampled_sums(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over documents, drawn again and again, each with all of its values.

    Args:
        values: int64 ``[documents, values]``; at least one document, and none has so many that a
            sum of them is above 2⁵³.

    Returns:
        float64 ``[replicates, values]``: exact; the same draws for every call with so many
        documents.
    """
    documents = len(values)
    units = values.astype(np.float64)
    if documents > _MOST_UNITS:
        begins = np.linspace(0, documents, _MOST_UNITS, endpoint=False).astype(np.int64)
        units = np.add.reduceat(units, begins, axis=0)
    random = np.random.default_rng(_SEED)
    sums = np.empty((_REPLICATES, units.shape[1]))
    cells = _AT_A_TIME * len(units)
    rows = np.arange(0, cells, len(units))[:, np.newaxis]  # a replicate in each
    for begin in range(0, _REPLICATES, _AT_A_TIME):
        drawn = random.integers(len(units), size=(_AT_A_TIME, len(units)))
        often = np.bincount((rows + drawn).ravel(), minlength=cells).reshape(drawn.shape)
        # Products of matrices add in any order: of whole numbers below 2⁵³ that is the same sum.
        sums[begin : begin + _AT_A_TIME] = often.astype(np.float64) @ units
    return sums
