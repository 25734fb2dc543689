"""The longest prefix that fits, against trying every prefix."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tempting_texts import tempting_texts

from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.splitting.regex_spellings import NAMED_PATTERNS
from bpeline.tokenizer_core.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}


def longest_by_trying(tokenizer: Tokenizer, text: str, limit: int, allowed: str) -> str:
    return next(
        text[:end]
        for end in range(len(text), -1, -1)
        if len(tokenizer.encode(text[:end], allowed)) <= limit
    )


@pytest.mark.parametrize("allowed", ["none", "all"])
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\p{L}+|[^\p{L}]{1,3}"])
def test_the_prefix_is_the_longest_that_fits(
    trained: Callable[..., Tokenizer], pattern: str, allowed: str, fuzz_texts: list[str]
) -> None:
    tokenizer = trained(pattern)
    random_ = random.Random(9)
    for i in range(0, 1_200, 3):
        text = " ".join(fuzz_texts[i : i + 3])
        limit = random_.randint(0, 40)
        expected = longest_by_trying(tokenizer, text, limit, allowed)
        truncated = tokenizer.truncate(text, limit, allowed)
        assert truncated == expected, f"REPRO: {text!r} {limit}"


@pytest.mark.night
@pytest.mark.parametrize("name", NAMED_PATTERNS)
def test_tempting_texts_are_cut_to_the_longest_prefix_that_fits(
    trained: Callable[..., Tokenizer], name: str
) -> None:
    tokenizer = trained(name)
    random_ = random.Random(3)
    texts = tempting_texts(5)
    for _ in range(60):
        text = "".join(next(texts) for _ in range(2)) + random_.choice(["", "<|a|>", "a<|a|>。b"])
        limit = random_.randint(1, 30)
        for allowed in ("none", "all"):
            expected = longest_by_trying(tokenizer, text, limit, allowed)
            assert tokenizer.truncate(text, limit, allowed) == expected, f"REPRO: {text!r} {limit}"


def test_a_special_token_with_places_to_cut_inside_is_kept_whole() -> None:
    specials = {"stop, here now": 256}
    tokenizer = Tokenizer(BYTES | {256: b"stop, here now"}, [], specials)
    for text in ("stop, here now", "ab stop, here now and"):
        for limit in range(8):
            expected = longest_by_trying(tokenizer, text, limit, "all")
            assert tokenizer.truncate(text, limit, "all") == expected


def test_a_longer_prefix_of_fewer_tokens_is_found() -> None:
    tokenizer = Tokenizer(BYTES | {256: b"lo", 257: b"hel", 258: b"hello", 259: b"he"},
                          [(b"l", b"o"), (b"h", b"e"), (b"he", b"l"), (b"hel", b"lo")])  # fmt: skip
    assert len(tokenizer.encode("hell")) == 2
    assert tokenizer.truncate("hello", 1) == "hello"
    assert tokenizer.truncate("hellox hello", 1) == "hello"
    assert tokenizer.truncate("x hello", 2) == "x "


def test_no_character_is_split() -> None:
    tokenizer = Tokenizer(BYTES, [])
    assert [tokenizer.truncate("é👍", n) for n in range(8)] == ["", "", *["é"] * 4, *["é👍"] * 2]


@pytest.mark.parametrize("unit", ["a", "中", " ", "ab", "é中a"])
def test_long_stretches_without_a_cut_are_cut_to_what_fits(
    trained: Callable[..., Tokenizer], unit: str
) -> None:
    tokenizer = trained("gpt2")
    text = "some words " + unit * 200_000
    for limit in (1, 7, 1_000):
        prefix = tokenizer.truncate(text, limit)
        assert text.startswith(prefix)
        assert limit * 0.9 - 2 <= len(tokenizer.encode(prefix)) <= limit


def test_only_what_may_fit_is_encoded(trained: Callable[..., Tokenizer]) -> None:
    tokenizer = trained("gpt2")
    text = "a word or two " * 1_000_000
    assert tokenizer.truncate(text, 3) == longest_by_trying(tokenizer, text[:40], 3, "none")


def test_what_makes_no_sense_is_refused(trained: Callable[..., Tokenizer]) -> None:
    tokenizer = trained("gpt2")
    with pytest.raises(InvalidOption, match="-1"):
        tokenizer.truncate("a", -1)
    with pytest.raises(InvalidSpecialToken):
        tokenizer.truncate("a<|a|>", 1, on_special="error")
    with pytest.raises(TypeError):
        tokenizer.truncate(b"a", 1)  # type: ignore[arg-type]
    assert tokenizer.truncate("", 0) == ""
