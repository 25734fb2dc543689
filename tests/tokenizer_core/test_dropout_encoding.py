"""Encoding with dropout: its distribution, what it depends on, what it refuses."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest

from bpeline import train_char_bpe
from bpeline.tokenizer_core import Tokenizer, WordCounts, count_texts, train_bpe
from bpeline.tokenizer_core.derived import DropoutEncoding
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.reference import dropout_outcomes

MERGES = [(b"a", b"b"), (b"b", b"a"), (b"ab", b"a"), (b"ab", b"ab"), (b"a", b"a"), (b"aa", b"b")]
SAMPLES = 4_000


def of_merges(merges: list[tuple[bytes, bytes]], *, whole: tuple[bytes, ...] = ()) -> Tokenizer:
    made = [left + right for left, right in merges]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256 + at: token for at, token in enumerate(dict.fromkeys([*made, *whole]))}
    return Tokenizer(vocab, merges, ignore_merges=bool(whole))


@pytest.mark.parametrize("word", [b"ab", b"aaa", b"ababa", b"aabab", b"baaab"])
@pytest.mark.parametrize("dropout", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_every_outcome_is_as_frequent_as_its_probability(word: bytes, dropout: Fraction) -> None:
    tokenizer = of_merges(MERGES)
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}
    expected = dropout_outcomes(tuple(bytes([byte]) for byte in word), ranks, dropout)
    assert sum(expected.values()) == 1
    sampled = DropoutEncoding(tokenizer, float(dropout), seed=5)
    seen: dict[tuple[bytes, ...], int] = {}
    for sample in range(SAMPLES):
        outcome = tuple(tokenizer.vocab[id_] for id_ in sampled.encode(word.decode(), sample))
        seen[outcome] = seen.get(outcome, 0) + 1
    assert seen.keys() <= expected.keys()
    for outcome, probability in expected.items():
        mean = float(probability) * SAMPLES
        deviation = sqrt(mean * (1 - float(probability)))
        assert abs(seen.get(outcome, 0) - mean) <= 5 * deviation + 1, outcome


@pytest.fixture(scope="module")
def trained(english_and_code: str) -> Tokenizer:
    words = WordCounts.from_pairs([(word, 1) for word in english_and_code.split()], "gpt2")
    return train_bpe(words, 600, special_tokens=["<|endoftext|>"])


def test_the_ids_depend_on_seed_sample_and_text_alone(
    trained: Tokenizer, english_and_code: str
) -> None:
    text = english_and_code[:3_000] + "漢字 <|endoftext|>"
    first, again = DropoutEncoding(trained, 0.1, 7), DropoutEncoding(trained, 0.1, 7)
    ids = first.encode(text, sample=3)
    again.encode("something else")
    assert again.encode(text, sample=3) == ids
    assert trained.decode(ids) == text
    assert first.encode(text, sample=4) != ids
    assert DropoutEncoding(trained, 0.1, 8).encode(text, sample=3) != ids
    assert len(ids) > len(trained.encode_ordinary(text))


def test_no_dropout_encodes_as_ever_and_full_dropout_merges_nothing(
    trained: Tokenizer, english_and_code: str
) -> None:
    text = english_and_code[:3_000] + "漢字"
    assert DropoutEncoding(trained, 0).encode(text) == trained.encode_ordinary(text)
    nothing = DropoutEncoding(trained, 1).encode(text)
    assert [trained.vocab[id_] for id_ in nothing] == [bytes([b]) for b in text.encode()]
    assert DropoutEncoding(trained, 0.5).encode("") == []
    taken_whole = of_merges(MERGES, whole=(b"xyz",))
    assert len(taken_whole.encode("xyz")) == 1
    assert DropoutEncoding(taken_whole, 0).encode("xyz") == taken_whole.encode("xyz")
    assert len(DropoutEncoding(taken_whole, 0.1).encode("xyz")) == 3


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", r"\p{L}+|\s+|."])
def test_dropout_that_never_happens_encodes_as_without(pattern: str, english_and_code: str) -> None:
    text = english_and_code[:20_000] + "漢字 e\u0301 \U0001f44d"
    tokenizer = train_bpe(count_texts([text], pattern), 700)
    assert DropoutEncoding(tokenizer, 1e-15).encode(text) == tokenizer.encode_ordinary(text)


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_probabilities_and_numbers_out_of_range_are_refused(
    trained: Tokenizer, dropout: float
) -> None:
    with pytest.raises(InvalidOption, match="from 0"):
        DropoutEncoding(trained, dropout)
    with pytest.raises(InvalidOption, match="seed is -1"):
        DropoutEncoding(trained, 0.1, -1)
    with pytest.raises(InvalidOption, match="sample is"):
        DropoutEncoding(trained, 0.1).encode("a", sample=1 << 64)


def test_other_algorithms_are_refused() -> None:
    words = WordCounts.from_mapping({b"low": 5, b"lower": 2}, "whitespace")
    with pytest.raises(InvalidOption):
        DropoutEncoding(train_char_bpe(words, 3), 0.1)
