"""The words that make a token, against the explanation of each word."""

from __future__ import annotations

from collections import Counter

import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.tokens_in_use import (
    MakingWord,
    making_words,
    rows_holding,
    token_use,
)


@pytest.fixture(scope="module")
def tokenizer(words: WordCounts) -> Tokenizer:
    return train_bpe(words, 600, special_tokens=["<|end|>"])


def test_every_token_s_words_are_those_whose_merges_make_it(
    tokenizer: Tokenizer, words: WordCounts
) -> None:
    expected: dict[bytes, dict[bytes, MakingWord]] = {}
    for word, count in words.items():
        made = Counter(m.left + m.right for m in tokenizer.explainer.token(word).merges)
        for token, times in made.items():
            expected.setdefault(token, {})[word] = MakingWord(word, count, times)
    use = token_use(tokenizer, words)
    for rank, (left, right) in enumerate(tokenizer.merges):
        id_ = tokenizer.token_to_id(left + right)
        found = making_words(tokenizer, id_, words)
        assert {one.word: one for one in found} == expected[left + right], rank
        assert [one.made for one in found] == sorted((one.made for one in found), reverse=True)
        assert sum(one.made for one in found) == use.made[id_]


def test_bytes_and_special_tokens(tokenizer: Tokenizer, words: WordCounts) -> None:
    id_ = tokenizer.token_to_id(b"e")
    assert sum(one.made for one in making_words(tokenizer, id_, words)) == sum(
        word.count(b"e") * count for word, count in words.items()
    )
    assert making_words(tokenizer, tokenizer.special_tokens["<|end|>"], words) == []


def test_a_token_across_two_words_is_in_neither() -> None:
    words = WordCounts.from_mapping({b"xab": 1, b"cab": 2, b"ca": 3, b"b": 4, b"abab": 5})
    assert rows_holding(b"ab", words).tolist() == [0, 1, 4]
    assert rows_holding(b"bc", words).tolist() == []
    assert rows_holding(b"b", words).tolist() == [0, 1, 3, 4]
    assert rows_holding(b"abababababababababab", words).tolist() == []
    assert rows_holding(b"a", WordCounts.empty()).tolist() == []


def test_other_algorithms_are_refused(words: WordCounts) -> None:
    with pytest.raises(InvalidOption, match="wordpiece"):
        making_words(train_wordpiece(words, 400), 3, words)
