"""Texts made of a corpus's words: the same for the same counts, and none that is rare."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.counting.source_weights import (
    LEAST_COUNT,
    TEXTS,
    WORDS_IN_TEXT,
    sample_texts,
)
from bpeline.tokenizer_core.counting.word_counts import WordCounts


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
