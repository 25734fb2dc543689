"""The value: order never matters to the digest, sums are exact, weights round once."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

import numpy as np
import pytest

from bpeline.tokenizer_core.counting import word_counts
from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

TEMPTING_WORDS = [
    b"a",
    b"a\0",
    b"a\0\0\0\0\0\0",
    b"a\0\0\0\0\0\0\0",
    b"\0",
    b"\xff" * 7,
    b"\xff" * 8,
    b"prefix-",
    b"prefix-7",
    b"prefix-75",
    b"the same sixteen bytes and more: one",
    b"the same sixteen bytes and more: two",
    b"x" * 14,
    b"x" * 15,
    b"x" * 16,
    b"x" * 17,
    b"y" * 100 + b"1",
    b"y" * 100 + b"2",
    b"y" * 100,
]


def random_words(seed: int, number: int) -> dict[bytes, int]:
    source = random.Random(seed)
    words = {
        bytes(source.choice(b"\0ab\xff") for _ in range(source.choice([1, 6, 7, 8, 9, 15, 16, 70])))
        for _ in range(number)
    }
    return {word: source.randint(1, 99) for word in sorted(words, key=hash)}


def test_a_mapping_comes_back_as_it_was_given() -> None:
    words = {word: place + 1 for place, word in enumerate(TEMPTING_WORDS)}
    counts = WordCounts.from_mapping(words)
    assert list(counts.items()) == list(words.items())
    assert counts.total == sum(words.values())
    assert counts.total_bytes == sum(len(word) * count for word, count in words.items())
    assert counts.first_positions.tolist() == list(range(len(words)))
    assert counts.pattern == SplitPattern.named("gpt2")


@pytest.mark.parametrize(
    "words", [{b"": 1}, {"text": 1}, {b"a": 0}, {b"a": -1}, {b"a": 2**63}], ids=repr
)
def test_what_is_not_a_count_is_refused(words: dict[bytes, int]) -> None:
    with pytest.raises(InvalidOption) as refusal:
        WordCounts.from_mapping(words)
    assert refusal.value.accepted
    assert refusal.value.next_step


@pytest.mark.parametrize("seed", range(20))
def test_words_sort_as_python_sorts_bytes(seed: int) -> None:
    words = random_words(seed, 60) | dict.fromkeys(TEMPTING_WORDS, 1)
    counts = WordCounts.from_mapping(words).sorted()
    assert counts.words() == sorted(words)
    assert counts.to_mapping() == words


def test_positions_that_repeat_have_one_digest_whatever_sorted_them() -> None:
    counts = WordCounts.from_mapping({bytes([letter]): 1 for letter in range(97, 123)})
    same = dataclasses.replace(counts, first_positions=np.zeros(26, np.int64))
    order = np.random.default_rng(0).permutation(26)
    # ties stand in the order of the words
    assert same.digest == same.take(order).digest == counts.digest


def test_words_longer_than_a_block_of_the_gather_are_moved_whole() -> None:
    words = {b"b" * (1 << 23): 1, b"a": 2, b"a" * (1 << 22): 3}
    assert WordCounts.from_mapping(words).sorted().words() == sorted(words)


def test_the_digest_does_not_see_the_order_of_rows_nor_the_scale_of_positions() -> None:
    counts = WordCounts.from_mapping(random_words(1, 200))
    order = np.random.default_rng(0).permutation(len(counts))
    shuffled = counts.take(order)
    assert shuffled.words() != counts.words()
    assert shuffled.digest == counts.digest
    assert shuffled.shifted(10**9).digest == counts.digest
    assert shuffled.in_order_of_sight().words() == counts.words()


def test_the_digest_sees_words_counts_order_of_sight_and_pattern() -> None:
    words = {b"ab": 2, b"c": 2}
    variants = [
        WordCounts.from_mapping(words),
        WordCounts.from_mapping({b"a": 2, b"bc": 2}),
        WordCounts.from_mapping({b"ab": 2, b"c": 3}),
        WordCounts.from_mapping({b"c": 2, b"ab": 2}),
        WordCounts.from_mapping(words, "cl100k"),
        WordCounts.from_mapping({}),
    ]
    assert len({counts.digest for counts in variants}) == len(variants)


@pytest.mark.parametrize("number", [1, 3, 500, 3000])
def test_combining_adds_counts_and_keeps_the_smallest_position(number: int) -> None:
    parts, expected, first = [], Counter[bytes](), dict[bytes, int]()
    for seed in range(5):
        words = random_words(seed, number) | {TEMPTING_WORDS[seed]: 7, TEMPTING_WORDS[-seed]: 1}
        parts.append(WordCounts.from_mapping(words).shifted(1000 * (5 - seed)))
        expected.update(words)
        for position, word in enumerate(words):
            first[word] = 1000 * (5 - seed) + position  # later parts stand earlier
    combined = combine_word_counts(parts)
    assert combined.to_mapping() == expected
    positions = dict(zip(combined.words(), combined.first_positions.tolist(), strict=True))
    assert positions == first
    assert combine_word_counts(parts[::-1]).digest == combined.digest


def test_combining_nothing_gives_nothing() -> None:
    assert len(combine_word_counts([])) == 0
    assert combine_word_counts([WordCounts.empty()]).total == 0


def test_read_only_counts_can_be_combined() -> None:
    counts = WordCounts.from_mapping({b"a": 1, b"b" * 20: 2})
    for array in (counts.word_bytes, counts.offsets, counts.counts, counts.first_positions):
        array.flags.writeable = False
    assert combine_word_counts([counts, counts]).to_mapping() == {b"a": 2, b"b" * 20: 4}


def test_counts_beyond_32_and_53_bits_are_exact() -> None:
    huge = 2**61 + 1
    counts = WordCounts.from_mapping({b"a": huge, b"bb": 2**53 + 1})
    assert counts.total == huge + 2**53 + 1
    assert counts.total_bytes == huge + 2 * (2**53 + 1)
    assert combine_word_counts([counts, counts]).to_mapping()[b"a"] == 2 * huge
    wide = WordCounts.from_mapping({b"a": 2**63 - 1, b"b" * 9: 2**63 - 1})
    assert wide.total == 2 * (2**63 - 1)
    assert wide.total_bytes == 10 * (2**63 - 1)
    with pytest.raises(InvalidOption, match="64-bit"):
        combine_word_counts([wide])


def test_rows_between_two_places_are_those_of_the_whole() -> None:
    counts = WordCounts.from_mapping({b"%d" % k: k + 1 for k in range(100)})
    items = list(counts.items())
    for begin, end in ((0, 0), (0, 7), (7, 50), (90, 100), (90, 1000), (100, 200)):
        some = counts.between(begin, end)
        assert list(some.items()) == items[begin:end]
        assert some.first_positions.tolist() == counts.first_positions[begin:end].tolist()


def test_one_huge_count_among_many_rows_leaves_their_bytes_exact() -> None:
    words = {b"%d" % k: 1 for k in range(200_000)} | {b"often": 2**62, b"long" * 100: 2**40}
    counts = WordCounts.from_mapping(words)
    assert counts.total_bytes == sum(len(word) * count for word, count in words.items())


def test_counts_of_different_patterns_are_not_added() -> None:
    one, other = WordCounts.from_mapping({b"a": 1}), WordCounts.from_mapping({b"a": 1}, "cl100k")
    with pytest.raises(InvalidOption, match="pattern"):
        combine_word_counts([one, other])


@pytest.mark.parametrize("searched", [1, 2, 7, 1 << 17])
def test_texts_are_found_in_words_and_never_across_two(
    monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    monkeypatch.setattr(word_counts, "_SEARCHED", searched)
    words = [b"<|e", b"nd|>", b"a<|end|", b"x", b"<|end|>y", b"<|end|><|end|>", b"aab", b"ab"]
    counts = WordCounts.from_mapping(dict.fromkeys(words, 1))
    texts = ["<|end|>", "|end", "xx", "aab", "ab", "nd|>a", "y<"]
    expected = [next((word for word in words if text.encode() in word), None) for text in texts]
    assert counts.words_with(texts) == expected
    assert counts.words_with([]) == []
    assert WordCounts.empty().words_with(["a"]) == [None]
