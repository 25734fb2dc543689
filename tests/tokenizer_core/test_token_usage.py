"""How tokens are used, against words encoded one by one and merges undone by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metrics import knee
from bpeline.tokenizer_core.evaluation.tokens_in_use import token_usage, token_use

SPECIALS = ["<|end|>", "<|pad|>"]


@pytest.fixture(scope="module")
def tokenizer(words: WordCounts) -> Tokenizer:
    return train_bpe(words, 1500, special_tokens=SPECIALS)


def shortened(tokenizer: Tokenizer, merges: int) -> Tokenizer:
    vocab = {id_: token for id_, token in tokenizer.vocab.items() if id_ < 258 + merges}
    return Tokenizer(vocab, tokenizer.merges[:merges], SPECIALS)


def counted(tokenizer: Tokenizer, words: WordCounts) -> Counter[int]:
    counts: Counter[int] = Counter()
    for word, count in words.items():
        for id_ in tokenizer.encode(word.decode()):
            counts[id_] += count
    return counts


def test_tokens_that_nothing_needs_are_counted(tokenizer: Tokenizer, words: WordCounts) -> None:
    found = token_usage(tokenizer, token_use(tokenizer, words))
    counts = counted(tokenizer, words)
    ordinary = set(tokenizer.vocab) - set(tokenizer.special_tokens.values())
    assert found.dead == len(ordinary - counts.keys()) > 0
    assert found.rare == sum(counts[id_] < 100 for id_ in counts) > 0
    assert found.junk == len(token_use(tokenizer, words).junk) > 0


def test_the_count_of_most_tokens_is_given_at_every_size(
    tokenizer: Tokenizer, words: WordCounts
) -> None:
    found = token_usage(tokenizer, token_use(tokenizer, words))
    assert [size for size, _ in found.f95_by_size] == [512, 1024, 1500]
    for size, count in found.f95_by_size:
        counts = counted(shortened(tokenizer, size - 258), words)
        everything = sorted((counts[id_] for id_ in range(size)), reverse=True)
        assert count == everything[int(np.ceil(0.95 * size)) - 1]
    assert found.largest_well_used in {None, 512, 1024, 1500}


def test_other_algorithms_are_refused() -> None:
    from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe

    words = WordCounts.from_mapping({b"low": 2}, "whitespace")
    other = train_char_bpe(words, 1)
    with pytest.raises(InvalidOption):
        token_usage(other, token_use(other, words))


def test_the_knee_is_the_point_highest_above_the_chord() -> None:
    # Over log₂ of the size: a straight line with one bend at 2048.
    bent = [(512, 1.0), (1024, 2.0), (2048, 3.0), (4096, 3.25), (8192, 3.5)]
    assert knee(bent) == 2048
    assert knee(bent[:3]) is None
    assert knee([(512 << i, float(i)) for i in range(6)]) is None
    assert knee([(512 << i, -float(i)) for i in range(6)]) is None
