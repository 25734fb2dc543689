"""Figures of a distribution against their formulas in plain Python, and at their extremes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from bpeline.tokenizer_core.evaluation.drift import divergence
from bpeline.tokenizer_core.evaluation.metrics import (
    TokenDistribution,
    token_distribution,
)
from bpeline.tokenizer_core.evaluation.suite import parity


def of(counts: list[int], vocab_size: int | None = None) -> TokenDistribution:
    return token_distribution(np.array(counts, np.int64), vocab_size or len(counts))


@pytest.mark.parametrize("seed", range(20))
def test_figures_follow_their_formulas(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randrange(2, 400)
    counts = [int(chance.paretovariate(0.8)) if chance.random() < 0.8 else 0 for _ in range(size)]
    counts[0] = counts[0] or 1
    found = of(counts)
    total = sum(counts)
    shares = sorted((count / total for count in counts if count), reverse=True)
    used = len(shares)
    entropy = -sum(share * math.log2(share) for share in shares)
    renyi = math.log2(sum(share**2.5 for share in shares)) / (1 - 2.5)
    assert (found.distinct_tokens, found.unused_tokens) == (used, size - used)
    assert found.rare_tokens == sum(0 < count < 100 for count in counts)
    assert found.type_token_ratio == used / total
    assert found.shannon_entropy == pytest.approx(entropy)
    assert found.shannon_efficiency == pytest.approx(entropy / math.log2(size))
    assert found.renyi_efficiency == pytest.approx(renyi / math.log2(size))
    imbalance = sum(abs(count / total - 1 / size) for count in counts) / 2
    assert found.imbalance == pytest.approx(imbalance)
    ranks = sum(rank * share for rank, share in enumerate(shares, 1))
    assert found.average_rank == pytest.approx(ranks)
    middle = sum(shares[int(0.03 * used) : int(0.83 * used)])
    assert found.percentile_frequency == pytest.approx(middle)
    reached = [least for least in {*counts} if sum(c >= least for c in counts) >= 0.95 * size]
    assert found.f95 == max(reached)


def test_an_even_distribution_is_efficient_and_balanced() -> None:
    found = of([7] * 64)
    assert found.shannon_efficiency == pytest.approx(1)
    assert found.renyi_efficiency == pytest.approx(1)
    assert found.imbalance == pytest.approx(0)
    assert (found.f95, found.unused_tokens) == (7, 0)


def test_one_token_alone_says_nothing() -> None:
    found = of([0, 9, 0, 0])
    assert (found.shannon_entropy, found.renyi_efficiency_observed) == (0, 0)
    assert found.imbalance == pytest.approx(0.75)
    assert found.average_rank == 1
    assert found.f95 == 0


def test_ids_with_gaps_count_the_vocab_not_the_array() -> None:
    assert of([5, 0, 0, 0, 0, 3], vocab_size=2).unused_tokens == 0


def test_large_counts_stay_exact_enough() -> None:
    found = of([2**53, 2**53, 1])
    assert found.shannon_entropy == pytest.approx(1)


def test_parity_follows_its_formula() -> None:
    costs = {"en": 0.2, "de": 0.25, "th": 0.6, "zh": 0.4}
    values = list(costs.values())
    mean = sum(values) / 4
    gini = sum(abs(a - b) for a in values for b in values) / (2 * 16 * mean)
    found = parity(costs)
    assert found.gini == pytest.approx(gini)
    assert found.max_over_min == pytest.approx(3)
    assert (found.dearest, found.cheapest) == ("th", "en")
    assert parity({"en": 0.3}).gini == 0


def test_divergence_of_tokens_follows_its_formula() -> None:
    first, second = np.array([4, 0, 4, 0]), np.array([2, 2, 0, 0])
    p, q = first / 8, second / 4
    m = (p + q) / 2
    expected = sum(
        0.5 * share * math.log2(share / middle)
        for shares in (p, q)
        for share, middle in zip(shares, m, strict=True)
        if share
    )
    assert divergence(first, first.sum(), second) == pytest.approx(expected)
    assert divergence(first, first.sum(), first * 3) == 0
    assert divergence(first, first.sum(), np.array([0, 5, 0, 5])) == 1
