"""Merges in the order in which they fired, against the encoder and the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}


def test_the_order_of_merges_is_told() -> None:
    merges = [(b"a", b"b"), (b"c", b"ab"), (b"ab", b"ab")]
    vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(merges)}
    (word, space) = Tokenizer(vocab, merges).explain("cababab ")
    fired = [(merge.rank, merge.left, merge.right, merge.begin) for merge in word.merges]
    ab = (0, b"a", b"b")
    assert fired == [(*ab, 1), (*ab, 3), (*ab, 5), (1, b"c", b"ab", 0), (2, b"ab", b"ab", 3)]
    assert word.tokens == (b"cab", b"abab")
    assert word.ids == (257, 258)
    assert (space.word, space.begin, space.merges) == (b" ", 7, ())


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
def test_explained_ids_are_those_of_encode(
    trained: Callable[..., Tokenizer], pattern: str, fuzz_texts: list[str]
) -> None:
    tokenizer = trained(pattern)
    ranks = {merge: rank for rank, merge in enumerate(tokenizer.merges)}
    for text in fuzz_texts[:2_000]:
        told = tokenizer.explain(text)
        assert [id_ for word in told for id_ in word.ids] == tokenizer.encode(text)
        assert b"".join(word.word for word in told) == text.encode()
        for word in told:
            symbols = list(reference.merge_word(word.word, ranks))
            assert list(word.tokens) == symbols, f"REPRO: {word.word!r}"
            assert len(word.merges) == len(word.word) - len(symbols)
            assert text.encode()[word.begin :].startswith(word.word)


@pytest.mark.night
def test_a_long_word_is_explained_in_good_time(trained: Callable[..., Tokenizer]) -> None:
    (word,) = trained("gpt2").explain("the" * 20_000)
    assert len(word.merges) + len(word.ids) == 60_000
