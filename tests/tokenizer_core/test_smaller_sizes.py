"""Smaller sizes served from one tokenizer: what training with them would have made."""

from __future__ import annotations

import pytest

from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import of_size
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

SPECIALS = ["<|end|>", "<|pad|>"]
WORDS = WordCounts.from_mapping({
    f" {first}{second}{third}".encode(): 2 + (7 * first_at + second_at) % 11
    for first_at, first in enumerate(["low", "new", "wid", "é"])
    for second_at, second in enumerate(["er", "est", ""])
    for third in ["", "s", "ing", "中"]
})  # fmt: skip
TEXT = " lowest newer wides 中 <|end|> éest unseen"


def trained(size: int, special_ids: str = "first") -> Tokenizer:
    return train_bpe(WORDS, size, special_tokens=SPECIALS, special_ids=special_ids)  # type: ignore[arg-type]


def test_a_smaller_size_is_what_training_it_makes() -> None:
    largest = trained(400)
    for size in (258, 259, 270, largest.vocab_size - 1, largest.vocab_size):
        smaller = of_size(largest, size)
        assert smaller.digest == trained(size).digest
        assert sorted(smaller.vocab) == list(range(size))
        assert smaller.encode(TEXT) == trained(size).encode(TEXT)


def test_special_tokens_that_come_last_keep_their_ids() -> None:
    largest = trained(280, "last")
    smaller = of_size(largest, 270)
    assert smaller.vocab_size == 270
    assert smaller.special_tokens == largest.special_tokens == {"<|end|>": 278, "<|pad|>": 279}
    assert sorted(smaller.vocab) == [*range(268), 278, 279]
    assert largest.decode(smaller.encode(TEXT)) == TEXT
    allowed = smaller.encode(TEXT, allowed_special="all")
    assert 278 in allowed
    assert largest.decode(allowed) == TEXT


def test_tokens_that_no_merge_makes_are_kept() -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256: b"ab", 257: b"abc", 258: b"whole", 259: b"abcd"}
    merges = [(b"a", b"b"), (b"ab", b"c"), (b"abc", b"d")]
    smaller = of_size(Tokenizer(vocab, merges, ignore_merges=True), 258)
    assert smaller.encode("whole") == [258]
    assert smaller.encode("abcd") == [256, ord("c"), ord("d")]


def test_character_bpe_is_served_in_smaller_sizes_too() -> None:
    counts = WordCounts.from_mapping({b"lower": 5, b"lowest": 3, b"newest": 4}, "whitespace")
    for joined in (False, True):
        largest = train_char_bpe(counts, 8, joined=joined)
        fewer = of_size(largest, largest.vocab_size - 3)
        assert fewer.merges == largest.merges[:5]
        trained_so = train_char_bpe(counts, 5, joined=joined)
        text = "lower newest west"
        assert [fewer.vocab[id_] for id_ in fewer.encode(text)] == [
            trained_so.vocab[id_] for id_ in trained_so.encode(text)
        ]
        assert largest.decode(fewer.encode("lower newest")) == "lower newest"


@pytest.mark.parametrize("size", [0, 257, 10_000])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(InvalidOption, match=f"{size:,}") as caught:
        of_size(trained(300), size)
    assert "258" in caught.value.accepted


def test_algorithms_without_an_order_are_refused() -> None:
    vocab = {0: b"[UNK]", 1: b"a", 2: b"##a"}
    with pytest.raises(InvalidOption, match="wordpiece"):
        of_size(Tokenizer(vocab, [], ["[UNK]"], algorithm=WordPiece()), 2)
