"""Weights of sources: whole numbers, rounded once, equal to the reference; temperatures."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
from bpeline.tokenizer_core.counting.source_weights import (
    LEAST_COUNT,
    TEXTS,
    WORDS_IN_TEXT,
    millionths,
    sample_texts,
    weighted,
    weights_at,
)
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption

COUNTS = st.one_of(st.integers(1, 9), st.integers(1, 2**42), st.sampled_from([2**53 + 1, 10**6]))
WORDS = st.dictionaries(st.binary(min_size=1, max_size=2), COUNTS, max_size=8)
WEIGHTS = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 1.5, 2.0, 0.000001, 0.1, 999_999.999999]),
    st.integers(0, 10**9).map(lambda millionth: millionth / 10**6),
)


def exact(weight: float) -> Fraction:
    return Fraction(round(weight * 10**6), 10**6)


@settings(deadline=None)  # the first example loads kernels
@given(st.lists(st.tuples(WORDS, WEIGHTS), min_size=1, max_size=4))
def test_the_sum_is_the_reference_s(sources: list[tuple[dict[bytes, int], float]]) -> None:
    parts = [
        WordCounts.from_mapping(words).shifted(100 * k) for k, (words, _) in enumerate(sources)
    ]
    expected = reference.mix([(words, exact(weight)) for words, weight in sources])
    if sum(expected.values()) > 2**63 - 1:
        return
    actual = combine_word_counts(parts, [weight for _, weight in sources])
    assert actual.to_mapping() == expected


def test_rounding_is_half_to_even_and_never_to_nothing() -> None:
    counts = WordCounts.from_mapping({b"1": 1, b"3": 3, b"5": 5, b"7": 7})
    assert weighted(counts, 0.5).to_mapping() == {b"1": 1, b"3": 2, b"5": 2, b"7": 4}
    assert weighted(counts, 0.000001).to_mapping() == dict.fromkeys([b"1", b"3", b"5", b"7"], 1)
    assert len(weighted(counts, 0)) == 0
    assert weighted(counts, 1) is counts


@pytest.mark.parametrize("count", [2**53 + 1, 2**62 + 3, 2**63 - 1])
def test_products_are_exact_beyond_what_doubles_hold(count: int) -> None:
    counts = WordCounts.from_mapping({b"a": count})
    assert weighted(counts, 0.5).to_mapping() == {b"a": round(Fraction(count, 2))}
    assert weighted(counts, 0.999999).to_mapping() == {b"a": round(count * exact(0.999999))}
    with pytest.raises(InvalidOption, match="64-bit"):
        weighted(counts, 1025)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 1e30, 1e-7, 1 / 3])
def test_weights_that_mean_nothing_are_refused(weight: float) -> None:
    with pytest.raises(InvalidOption, match="weight"):
        millionths(weight)


def test_there_is_one_weight_for_each_source() -> None:
    counts = WordCounts.from_mapping({b"a": 1})
    with pytest.raises(InvalidOption, match=r"\b1\b.*\b2\b"):
        combine_word_counts([counts, counts], [2.0])


def shares(sizes: list[int], weights: list[float]) -> list[float]:
    parts = [size * weight for size, weight in zip(sizes, weights, strict=True)]
    return [part / sum(parts) for part in parts]


def test_temperature_is_the_published_smoothing() -> None:
    """Multilingual BERT: with S = 0.7 English falls from 21 % as its exponent says."""
    sizes, temperature = [21_000, 70_000, 9_000], 1 / 0.7
    powers = [(size / 100_000) ** 0.7 for size in sizes]
    found = shares(sizes, weights_at(sizes, [1, 1, 1], temperature))
    assert found == pytest.approx([power / sum(powers) for power in powers], abs=1e-5)


def test_temperature_lets_no_source_count_less_than_its_weight() -> None:
    for temperature in (0.5, 2, 5, 1_000_000):
        found = weights_at([1000, 10, 300], [1, 2, 0.5], temperature)
        assert min(one / asked for one, asked in zip(found, [1, 2, 0.5], strict=True)) == 1
    assert weights_at([1000, 10], [1, 2], 1) == [1, 2]
    assert weights_at([1000, 10, 0], [1, 0, 3], 2) == [1, 0, 3]
    assert weights_at([400, 100], [1, 1], 2) == [1, 2]  # shares 4:1 become 2:1
    assert weights_at([], [], 2) == []


def test_at_endless_temperature_sources_count_alike() -> None:
    assert shares([900, 90, 10], weights_at([900, 90, 10], [1, 1, 1], 10**6)) == pytest.approx(
        [1 / 3] * 3, rel=1e-4
    )


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf")])
def test_an_impossible_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(InvalidOption, match="temperature"):
        weights_at([1, 2], [1, 1], temperature)
    with pytest.raises(InvalidOption, match="weight"):
        weights_at([10**13, 1], [1, 1], 1000)


# Samples of words


def test_few_words_are_all_taken_in_order_of_frequency_and_rare_ones_left_out() -> None:
    words = {b"secret": LEAST_COUNT - 1, b" the": 9, b" of": 20, b"\xff": 50, b" a": 9}
    assert sample_texts(WordCounts.from_mapping(words)) == [" of the a"]
    assert sample_texts(WordCounts.from_mapping({b"a": 9, b"b": 8}), " ") == ["a b"]
    assert sample_texts(WordCounts.from_mapping({b"secret": 1})) == []


def test_many_words_are_sampled_at_all_frequencies() -> None:
    words = {b" w%d" % number: 10_000 - number for number in range(9_900)}
    counts = WordCounts.from_mapping(words)
    texts = sample_texts(counts)
    assert len(texts) == TEXTS
    assert texts[0] == "".join(f" w{number}" for number in range(WORDS_IN_TEXT))
    assert texts[-1].endswith(" w9899")
    assert len(set("".join(texts).split())) == TEXTS * WORDS_IN_TEXT
    assert sample_texts(counts.take(np.arange(len(counts))[::-1])) == texts
