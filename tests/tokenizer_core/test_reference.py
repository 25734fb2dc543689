"""The oracle itself, against values published elsewhere and against independent definitions."""

from __future__ import annotations

import doctest
from collections import Counter

import pytest

from bpeline.tokenizer_core import reference

# The worked example of Sennrich et al. (2016) with `_` as the end-of-word symbol.
TOY = {b"low_": 5, b"lower_": 2, b"newest_": 6, b"widest_": 3}
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def test_its_documented_example_holds() -> None:
    assert doctest.testmod(reference).failed == 0


def test_first_seen_learns_the_published_merges() -> None:
    learned = reference.train(TOY, 10, tie_break="first-seen")
    assert [b" ".join(pair).decode() for pair in learned] == [
        "e s", "es t", "est _", "l o", "lo w", "n e", "ne w", "new est_", "low _", "w i",
    ]  # fmt: skip


def test_the_tie_breaks_really_differ_on_a_tie() -> None:
    first = {rule: reference.train(TOY, 1, tie_break=rule)[0] for rule in (
        "smallest-ids", "greatest-bytes", "first-seen")}  # fmt: skip
    # (e,s), (s,t) and (t,_) all occur nine times
    assert first["first-seen"] == (b"e", b"s")
    assert first["greatest-bytes"] == (b"t", b"_")
    assert first["smallest-ids"] == (b"e", b"s")


def test_an_unknown_tie_break_is_refused() -> None:
    with pytest.raises(ValueError, match="random"):
        reference.train(TOY, 1, tie_break="random")


def test_overlapping_pairs_count_twice_and_merge_once() -> None:
    a = (b"a",) * 3
    assert reference.count_pairs({a: 5}) == {(b"a", b"a"): 10}
    assert reference.merge_pair(a, (b"a", b"a")) == (b"aa", b"a")
    xyxy = (b"x", b"y", b"x", b"y")
    assert reference.count_pairs({reference.merge_pair(xyxy, (b"x", b"y")): 1}) == {
        (b"xy", b"xy"): 1
    }


def test_merges_apply_by_rank_and_not_by_length() -> None:
    ranks = {(b"b", b"c"): 0, (b"a", b"b"): 1}
    assert reference.merge_word(b"abcde", ranks) == (b"a", b"bc", b"d", b"e")


def test_special_tokens_are_cut_longest_first_and_never_counted() -> None:
    specials = ["<|a|>", "<|a|><|b|>"]
    assert reference.cut_at_special_tokens("x<|a|><|b|>y<|a|>", specials) == [
        "x", "<|a|><|b|>", "y", "<|a|>",
    ]  # fmt: skip
    assert reference.count_words(["hi<|a|>hi"], GPT2, specials) == {b"hi": 2}


def test_splitting_loses_no_text() -> None:
    text = "Don't stop,  we'll\n\n go-on 42 <|x|> "
    assert "".join(reference.split(text, GPT2)) == text
    assert "".join(reference.split(text, r"\w+")) == text
    assert Counter(reference.split("a b", r"\w+")) == Counter(["a", " ", "b"])
