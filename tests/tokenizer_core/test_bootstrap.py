"""Intervals of paired differences: exact on two documents, near theory on many."""

from __future__ import annotations

import numpy as np
import pytest

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.measuring import resampled_change


def test_two_documents_give_the_interval_of_their_four_draws() -> None:
    first, second = np.array([10, 30]), np.array([11, 27])
    found = resampled_change(first, second).interval()
    assert found.value == pytest.approx(38 / 40 - 1)
    # Drawn with replacement: twice the one, twice the other, or both.
    assert (found.low, found.high) == pytest.approx((27 / 30 - 1, 11 / 10 - 1))
    assert not found.excludes_zero
    assert (found.documents, found.confidence) == (2, 0.95)


def test_documents_are_resampled_in_pairs() -> None:
    """Lengths vary wildly, their ratio does not: the interval must not see the lengths."""
    first = np.array([1, 10, 100, 1000, 10_000] * 20) * 10
    found = resampled_change(first, first * 9 // 10).interval()
    assert found.low == pytest.approx(found.high) == pytest.approx(-0.1)
    assert found.excludes_zero


@pytest.mark.parametrize("documents", [2_000, 25_000])
def test_the_interval_is_that_of_the_normal_theory(documents: int) -> None:
    random = np.random.default_rng(7)
    first = np.full(documents, 1000)
    second = first + random.normal(5, 100, documents).astype(np.int64)
    found = resampled_change(first, second).interval()
    half = 1.96 * second.std() / 1000 / np.sqrt(documents)
    assert found.low == pytest.approx(found.value - half, abs=half / 5)
    assert found.high == pytest.approx(found.value + half, abs=half / 5)


def test_the_same_documents_give_the_same_interval() -> None:
    random = np.random.default_rng(1)
    first, second = random.integers(1, 500, (2, 300))
    again = resampled_change(first, second)
    assert np.array_equal(resampled_change(first, second).draws, again.draws)
    narrow, wide = (resampled_change(first, second).interval(c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_unpaired_and_empty_documents_are_refused() -> None:
    with pytest.raises(InvalidOption, match="documents"):
        resampled_change(np.array([1, 2]), np.array([1]))
    with pytest.raises(InvalidOption, match="documents"):
        resampled_change(np.array([0]), np.array([0]))
