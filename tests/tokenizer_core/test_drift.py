"""Drift in figures: each computed a second way, and laws that no text may break."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core import SplitPattern, Tokenizer, WordCounts, reference, train_bpe
from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation import drift
from bpeline.tokenizer_core.evaluation.drift import (
    Figure,
    OwnText,
    TextDrift,
    counts_in,
    divergence_draws,
    drift_of,
    new_frequent_words,
    sample_of,
    word_divergence,
)
from bpeline.tokenizer_core.evaluation.metric_names import BYTES_PER_TOKEN
from bpeline.tokenizer_core.evaluation.metrics import evaluate

GPT2 = SplitPattern.named("gpt2")
WORDS = st.dictionaries(
    st.binary(min_size=1, max_size=20), st.integers(1, 10**6), min_size=1, max_size=40
)


def counted(documents: list[bytes]) -> Counter[bytes]:
    """Words by `regex` alone."""
    return Counter(reference.count_words([one.decode() for one in documents], GPT2.regex))


def plain_divergence(first: dict[bytes, int], second: dict[bytes, int]) -> float:
    """Entropy of the mixture less the mean entropy: the other definition of Lin 1991."""

    def entropy(shares: list[float]) -> float:
        return -math.fsum(share * math.log2(share) for share in shares if share)

    p, q = (
        {word: count / sum(counts.values()) for word, count in counts.items()}
        for counts in (first, second)
    )
    mixed = [(p.get(word, 0.0) + q.get(word, 0.0)) / 2 for word in p | q]
    return entropy(mixed) - (entropy(list(p.values())) + entropy(list(q.values()))) / 2


@settings(deadline=None)
@given(WORDS, WORDS)
def test_the_divergence_is_that_of_the_entropies(
    first: dict[bytes, int], second: dict[bytes, int]
) -> None:
    found = word_divergence(WordCounts.from_mapping(first), WordCounts.from_mapping(second))
    assert found == pytest.approx(plain_divergence(first, second), abs=1e-9)
    assert 0 <= found <= 1


@settings(deadline=None)
@given(WORDS, WORDS, st.randoms())
def test_the_divergence_is_symmetric_and_blind_to_order_and_scale(
    first: dict[bytes, int], second: dict[bytes, int], order: random.Random
) -> None:
    one, other = WordCounts.from_mapping(first), WordCounts.from_mapping(second)
    found = word_divergence(one, other)
    assert word_divergence(other, one) == pytest.approx(found, abs=1e-12)
    assert word_divergence(one, one) == 0
    shuffled = list(second)
    order.shuffle(shuffled)
    larger = WordCounts.from_mapping({word: 3 * second[word] for word in shuffled})
    assert word_divergence(one, larger) == pytest.approx(found, abs=1e-12)


def test_texts_without_a_common_word_are_one_bit_apart() -> None:
    texts = [WordCounts.from_mapping({word: 3, word * 20: 1}) for word in (b"a", b"b")]
    assert word_divergence(*texts) == 1


@settings(deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), WORDS)
def test_the_divergence_does_not_depend_on_how_a_text_was_cut(
    parts: list[dict[bytes, int]], trained: dict[bytes, int]
) -> None:
    together: Counter[bytes] = Counter()
    for part in parts:
        together.update(part)
    rows = [WordCounts.from_mapping(part).shifted(100 * at) for at, part in enumerate(parts)]
    own = WordCounts.from_mapping(trained)
    once = word_divergence(own, WordCounts.from_mapping(together))
    assert word_divergence(own, combine_word_counts(rows)) == pytest.approx(once, abs=1e-12)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_words_are_looked_up_in_a_table(table: dict[bytes, int], words: dict[bytes, int]) -> None:
    found = counts_in(WordCounts.from_mapping(table), WordCounts.from_mapping(words))
    assert found.tolist() == [table.get(word, 0) for word in words]
    assert counts_in(WordCounts.empty(), WordCounts.from_mapping(words)).tolist() == [0] * len(
        words
    )


@settings(deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=40))
def test_a_sample_has_every_word_in_blocks(texts: list[str]) -> None:
    documents = [one.encode() for one in texts]
    sample = sample_of(documents, GPT2)
    assert sample.words.to_mapping() == counted(documents)
    assert sample.bytes == sum(map(len, documents))
    assert sample.documents == sum(map(bool, documents))
    assert sample.sums().sum() == sample.words.total
    length = max(1, round(sample.documents ** (1 / 3)))
    filled = [one for one in documents if one]
    blocks = [counted(filled[at : at + length]) for at in range(0, len(filled), length)]
    assert sample.sums().tolist() == [block.total() for block in blocks]
    spread = {word: sum(word in block for block in blocks) for word in sample.words.to_mapping()}
    assert sample.blocks_of_words.tolist() == list(spread.values())
    lengths = sample.words.lengths
    sizes = [sum(len(w) * n for w, n in block.items()) for block in blocks]
    assert sample.sums(lengths).tolist() == sizes


@pytest.fixture(scope="module")
def pieces(english_and_code: str) -> list[bytes]:
    """About 500 documents of 2 kB."""
    return [
        english_and_code[at : at + 2000].encode() for at in range(0, len(english_and_code), 2000)
    ]


@pytest.fixture(scope="module")
def parts(pieces: list[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Trained on, held out, new: shared out at random."""
    shuffled = random.Random(5).sample(pieces, len(pieces))
    return shuffled[250:], shuffled[:120], shuffled[120:250]


@pytest.fixture(scope="module")
def tokenizer(parts: tuple[list[bytes], ...]) -> Tokenizer:
    return train_bpe(WordCounts.from_mapping(counted(parts[0])), 3000)


def measured(
    tokenizer: Tokenizer, trained: list[bytes], held_out: list[bytes], new: list[bytes]
) -> TextDrift:
    own = OwnText(WordCounts.from_mapping(counted(trained)), sample_of(held_out, GPT2))
    words = WordCounts.from_mapping(counted(new))
    return drift_of(tokenizer, own, words, sum(map(len, new)), sample_of(new, GPT2))


@pytest.mark.night
def test_every_figure_is_what_its_definition_says(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    trained, held_out, new = parts
    found = measured(tokenizer, trained, held_out, new)
    training = counted(trained)
    for documents, which in ((new, "new"), (held_out, "own")):
        figures = {key: getattr(one, which) for key, one in found.figures.items()}
        words = counted(documents)
        tokens = {word: len(tokenizer.encode(word.decode())) for word in words}
        total, size = words.total(), sum(map(len, documents))
        cost = sum(tokens[word] * count for word, count in words.items())
        assert figures[BYTES_PER_TOKEN] == pytest.approx(size / cost)
        assert figures[BYTES_PER_TOKEN] == pytest.approx(
            evaluate(tokenizer, documents).bytes_per_token
        )
        assert figures[drift.TOKENS_PER_WORD] == pytest.approx(cost / total)
        for least, metric in ((2, drift.CONTINUED), (4, drift.MANY)):
            share = sum(n for word, n in words.items() if tokens[word] >= least) / total
            assert figures[metric] == pytest.approx(share)
        absent = sum(count for word, count in words.items() if word not in training)
        assert figures[drift.UNSEEN] == pytest.approx(absent / total)
    assert found.figures[drift.DIVERGENCE].new == pytest.approx(
        plain_divergence(training, counted(new))
    )
    assert (found.bytes, found.documents) == (sum(map(len, new)), len(new))
    assert (found.words, found.distinct_words) == (counted(new).total(), len(counted(new)))


@pytest.mark.night
def test_new_frequent_words_are_found_and_priced(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    trained, held_out, new = parts
    everywhere = [one + b" Quetzalcoatl" for one in new]
    one_place = [*everywhere[:-1], everywhere[-1] + b" Popocatepetl" * 50]
    found = measured(tokenizer, trained, held_out, one_place)
    first = found.new_words[0]
    tokens = len(tokenizer.encode(" Quetzalcoatl"))
    assert (first.word, first.count, first.trained) == (b" Quetzalcoatl", len(new), 0)
    assert (first.tokens, first.saved) == (tokens, len(new) * (tokens - 1))
    assert first.times == pytest.approx(len(new) / found.words * (counted(trained).total() + 1))
    assert b" Popocatepetl" not in {one.word for one in found.new_words}, "of one document"
    assert [one.saved for one in found.new_words] == sorted(
        (one.saved for one in found.new_words), reverse=True
    )
    share = sum(one.saved for one in found.new_words) / found.tokens
    assert found.figures[drift.NEW_COST].new == pytest.approx(share)
    interval = found.figures[drift.NEW_COST].interval()
    assert interval is not None
    assert interval.low < interval.value < interval.high
    # What is frequent in training is not new, however frequent it is.
    words = WordCounts.from_mapping(counted(one_place))
    table = np.full(len(words), 10**6, np.int64)
    ones = np.ones(len(words), np.int64)
    assert new_frequent_words(words, table, 10**8, ones, sample_of(one_place, GPT2)) == ()


@pytest.mark.night
def test_the_same_text_has_no_drift_and_another_language_has(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    trained, held_out, new = parts
    letters = random.Random(1)
    shuffled = [
        "".join(
            "".join(letters.sample(word, len(word))) + " " for word in one.decode().split(" ")
        ).encode()
        for one in new
    ]
    same, other = (measured(tokenizer, trained, held_out, text) for text in (new, shuffled))
    for metric in (BYTES_PER_TOKEN, drift.CONTINUED, drift.MANY, drift.EXCESS_DIVERGENCE):
        quiet, loud = (one.figures[metric].interval(0.99) for one in (same, other))
        assert quiet is not None
        assert loud is not None
        assert quiet.low <= 0 <= quiet.high
        assert loud.excludes_zero


@pytest.mark.night
def test_a_small_text_diverges_by_chance_and_the_excess_does_not(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    """The reason for parts of one size: the plain divergence grows as a text shrinks."""
    trained, held_out, new = parts
    small, whole = (measured(tokenizer, trained, held_out, part) for part in (new[:20], new))
    plain = [one.figures[drift.DIVERGENCE].new for one in (small, whole)]
    excess = [one.figures[drift.EXCESS_DIVERGENCE].new for one in (small, whole)]
    assert plain[0] > plain[1] + 0.1
    assert max(map(abs, excess)) < 0.05


def test_parts_that_are_drawn_have_one_size_and_one_baseline(
    parts: tuple[list[bytes], list[bytes], list[bytes]],
) -> None:
    trained, held_out, new = parts
    table = WordCounts.from_mapping(counted(trained))
    samples = [sample_of(held_out, GPT2), sample_of(held_out, GPT2), sample_of(new, GPT2)]
    draws = divergence_draws(table, samples, 50, 3)
    assert [len(one) for one in draws] == [50] * 3
    assert abs(draws[0].mean() - draws[1].mean()) < 3 * draws[0].std()
    assert draws[0].tolist() != draws[1].tolist(), "drawn apart"
    assert all((one > word_divergence(table, samples[0].words)).all() for one in draws[:2])


def test_what_is_not_known_is_left_out(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    new = parts[2]
    words, size = WordCounts.from_mapping(counted(new)), sum(map(len, new))
    recorded = OwnText(None, None, {BYTES_PER_TOKEN: 3.0})
    found = drift_of(tokenizer, recorded, words, size, sample_of(new, GPT2))
    assert found.figures.keys() == {
        BYTES_PER_TOKEN, drift.TOKENS_PER_WORD, drift.CONTINUED, drift.MANY
    }  # fmt: skip
    figure = found.figures[BYTES_PER_TOKEN]
    assert figure.own == 3.0
    interval = figure.interval()
    assert interval is not None
    assert interval.value == pytest.approx(figure.new - 3.0)
    assert interval.low < interval.value < interval.high
    assert found.figures[drift.CONTINUED].own is None
    assert found.new_words == ()
    few = drift_of(tokenizer, recorded, words, size, sample_of(new[:5], GPT2))
    assert few.figures[BYTES_PER_TOKEN].interval() is None, "too few documents to draw from"


def test_text_without_a_word_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(EmptyCorpus):
        drift_of(tokenizer, OwnText(None, None), WordCounts.empty(), 0, sample_of([b""], GPT2))


def test_margins_are_distances_to_a_bound() -> None:
    exact = Figure(2.8, 3.0)
    assert exact.interval() is None
    assert exact.margin(True, tolerance=0.05) == pytest.approx(2.8 - 2.85)
    assert exact.margin(True, tolerance=0.1) == pytest.approx(2.8 - 2.7)
    assert exact.margin(False, limit=2.0) == pytest.approx(-0.8)
    draws = np.linspace(2.6, 3.0, 2001)
    unsure = Figure(2.8, 3.0, 50, draws, np.full(2001, 3.0))
    # 95 % of the draws lie within 2.61 … 2.99; the better end is 2.99.
    assert unsure.margin(True, tolerance=0.05, confidence=0.95) == pytest.approx(2.99 - 2.85)
    assert unsure.margin(True, tolerance=0.0, confidence=0.8) == pytest.approx(2.96 - 3.0)
    assert unsure.margin(False, limit=2.5, confidence=0.95) == pytest.approx(2.5 - 2.61)


@pytest.mark.night
def test_none_among_n_means_up_to_three_of_n(
    tokenizer: Tokenizer, parts: tuple[list[bytes], list[bytes], list[bytes]]
) -> None:
    trained, _, new = parts
    plain = [b" the"] * 60
    found = measured(tokenizer, trained, plain, new).figures[drift.MANY]
    assert found.own == 0
    assert found.own_draws.max() == found.own_draws.min() == pytest.approx(3 / 60)
