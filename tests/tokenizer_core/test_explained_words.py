"""Words explained step by step: what is left in the end is what the encoder gives."""

from __future__ import annotations

from random import Random

import pytest

from bpeline.tokenizer_core import (
    Tokenizer,
    WordCounts,
    train_bpe,
    train_char_bpe,
    train_frequency_bpe,
    train_wordpiece,
)
from bpeline.tokenizer_core.algorithms import greedy_longest
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.word_encoding import explain_words

WORDS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, "мама".encode(): 4}
COUNTS = WordCounts.from_mapping(WORDS, "whitespace")
MADE: dict[str, Tokenizer] = {
    "char-bpe": train_char_bpe(COUNTS, 9),
    "joined": train_char_bpe(COUNTS, 9, joined=True),
    "frequency-bpe": train_frequency_bpe(COUNTS, 9),
    "wordpiece": train_wordpiece(COUNTS, 40),
    "greedy": greedy_longest(train_char_bpe(COUNTS, 9), COUNTS, "</u>"),
}


@pytest.mark.parametrize("name", MADE)
def test_the_last_step_is_what_the_encoder_gives(name: str, seed: int) -> None:
    tokenizer, random = MADE[name], Random(seed)
    words = ["".join(random.choices("lowernstdiма", k=random.randint(1, 9))) for _ in range(900)]
    explained = explain_words(tokenizer, " ".join(words))
    assert [one.word for one in explained] == words
    known = {token.decode() for token in tokenizer.vocab.values()}
    compared = 0
    for one in explained:
        (ids,) = [tokenizer.encoder.encode_words([one.word.encode()])[0].tolist()]
        assert list(one.ids) == ids
        if one.steps and known.issuperset(one.steps[-1].symbols):
            assert one.steps[-1].symbols == one.tokens
            compared += 1
    assert compared >= 3


def test_each_decision_says_why() -> None:
    (word,) = explain_words(MADE["char-bpe"], "lowest")
    assert [step.takes for step in word.steps[:2]] == [("e", "s"), ("es", "t")]
    assert word.steps[0].why == "rank 0"
    assert word.steps[0].symbols == ("l", "o", "w", "es", "t", "</w>")
    (piece,) = explain_words(MADE["wordpiece"], "lowest")
    assert piece.steps[0].why == "the longest at character 0"
    assert "frequency" in explain_words(MADE["frequency-bpe"], "lowest")[0].steps[0].why
    (unknown,) = explain_words(MADE["wordpiece"], "lowx")
    assert "unknown" in unknown.steps[-1].why
    assert explain_words(MADE["char-bpe"], "x")[0].steps == ()


def test_bytes_are_explained_elsewhere() -> None:
    with pytest.raises(InvalidOption, match="byte-bpe"):
        explain_words(train_bpe(WordCounts.from_mapping(WORDS, "gpt2"), 260), "low")
