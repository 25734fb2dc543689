"""Special tokens: which are refused, and the native search against `regex` alternation."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidSpecialToken
from bpeline.tokenizer_core.pipeline import AddedToken, AddedTokenMatcher
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import special_tokens
from bpeline.tokenizer_core.vocabulary.special_tokens import (
    SpecialTokenMatcher,
    find_special_tokens,
    validate_special_tokens,
)

END = b"<|endoftext|>"


def found(content: bytes, tokens: Sequence[bytes], begin: int = 0, end: int | None = None) -> list:
    text = Text.of(content)
    return find_special_tokens(text, begin, text.size if end is None else end, tokens).tolist()


def found_by_regex(content: bytes, tokens: Sequence[bytes]) -> list[list[int]]:
    longest_first = sorted(tokens, key=len, reverse=True)
    alternation = b"|".join(map(regex.escape, longest_first))
    return [
        [match.start(), match.end(), tokens.index(match.group())]
        for match in regex.finditer(alternation, content)
    ]


def test_usable_tokens_come_back_in_their_order() -> None:
    assert validate_special_tokens(["b", "<|a|>", "é"]) == ("b", "<|a|>", "é")
    assert validate_special_tokens([]) == ()


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        (["a", ""], "''"),
        (["a", "b", "a"], "'a'"),
        (["a\ud800"], "surrogate"),
        ("<|endoftext|>", "'<|endoftext|>'"),
        ([b"a"], "b'a'"),
    ],
)
def test_unusable_tokens_are_refused_in_three_parts(tokens: list[str], complaint: str) -> None:
    with pytest.raises(InvalidSpecialToken) as caught:
        validate_special_tokens(tokens)
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step


def test_nothing_is_found_where_nothing_is() -> None:
    assert found(b"", [END]) == []
    assert found(b"text", []) == []
    assert found(b"<|endoftext|", [END]) == []
    assert found(b"<|endoftext<|endoftext|>", [END]) == [[11, 24, 0]]


def test_the_longest_wins_at_one_place_and_the_leftmost_wins_over_the_longest() -> None:
    assert found(b"abcd", [b"ab", b"abc"]) == [[0, 3, 1]]
    assert found(b"abcd", [b"abc", b"ab"]) == [[0, 3, 0]]
    assert found(b"abcde", [b"ab", b"bcde"]) == [[0, 2, 0]]
    assert found(b"abab", [b"b", b"ab", b"ab"]) == [[0, 2, 1], [2, 4, 1]]


def test_a_token_that_overlaps_itself_is_found_again_behind_itself() -> None:
    assert found(b"<|a|><|a|>", [b"<|a|>"]) == [[0, 5, 0], [5, 10, 0]]
    assert found(b"<|a|><|a|>", [b"<|a|>", b"<|a|><|a|>"]) == [[0, 10, 1]]
    assert found(b"aaaaa", [b"aa"]) == [[0, 2, 0], [2, 4, 0]]


@pytest.mark.parametrize("tokens", [[END], [END, b"<|pad|>", b"[SEP]", "漢".encode(), b"x"]])
def test_tokens_are_found_across_block_edges(tokens: list[bytes]) -> None:
    for before in range(140):
        for token in tokens:
            content = b"<" * before + token + b"|>"
            assert found(content, tokens) == [[before, before + len(token), tokens.index(token)]]


def test_the_search_stays_within_its_range() -> None:
    content = END * 3
    assert found(content, [END], 0, 25) == [[0, 13, 0]]
    assert found(content, [END], 1, 39) == [[13, 26, 0], [26, 39, 0]]
    assert found(content, [END], 13, 26) == [[13, 26, 0]]
    assert found(content, [END], 5, 5) == []


def test_more_occurrences_than_any_buffer_are_all_found() -> None:
    content = (b"a<s>" + END) * 100_000
    occurrences = find_special_tokens(Text.of(content), 0, len(content), [END, b"<s>"])
    assert occurrences.shape == (200_000, 3)
    assert occurrences[:, 2].tolist() == [1, 0] * 100_000
    assert (occurrences[1:, 0] >= occurrences[:-1, 1]).all()


def found_by_windows(content: bytes, tokens: Sequence[bytes]) -> list[list[int]]:
    """By the search that is used where the other one compares too much."""
    matcher = SpecialTokenMatcher(tokens)
    rows = matcher._with_indexes(matcher._find_longest(Text.of(content), 0, len(content)))
    return rows.tolist()


@pytest.mark.night
def test_tempting_random_texts_agree_with_regex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special_tokens, "_WINDOW", 7)
    generator = random.Random(5)
    total = 0
    for _ in range(6000):
        letters = generator.choice([b"<|ab>", b"ab", "é漢<".encode()])
        count = generator.choice([1, 2, 3, 8])
        lengths = [generator.randint(1, 6) for _ in range(count)]
        tokens = list({bytes(generator.choices(letters, k=length)) for length in lengths})
        generator.shuffle(tokens)
        content = bytes(generator.choices(letters, k=generator.randint(0, 200)))
        expected = found_by_regex(content, tokens)
        total += len(expected)
        assert found(content, tokens) == expected, (content, tokens)
        assert found_by_windows(content, tokens) == expected, (content, tokens)
    assert total > 10_000


@pytest.mark.night
def test_many_tokens_that_begin_differently_agree_with_regex() -> None:
    generator = random.Random(6)
    letters = "abcdé漢 ".encode()
    total = 0
    for _ in range(200):
        many = generator.randint(20, 300)
        lengths = generator.choices([1, 2, 3, 4, 9], [1, 4, 20, 20, 20], k=many)
        tokens = list({bytes(generator.choices(letters, k=length)) for length in lengths})
        parts = [*tokens, *(letters[k : k + 1] for k in range(len(letters)))]
        content = b"".join(generator.choices(parts, k=generator.randint(0, 60)))
        expected = found_by_regex(content, tokens)
        total += len(expected)
        assert found(content, tokens) == expected, (content, tokens)
        assert found_by_windows(content, tokens) == expected, (content, tokens)
    assert total > 2000


SELF_OVERLAPPING = (
    [b"a" * 300],
    [b"a" * 300 + b"b"],
    [b"a", b"a" * 300 + b"b"],
    [b"b" + b"a" * 300, b"a" * 299 + b"b", b"aab"],
    [b"ab" * 200 + b"b", b"ab" * 150 + b"c", b"bb"],
)


@pytest.mark.parametrize("tokens", SELF_OVERLAPPING, ids=lambda tokens: repr(tokens)[:20])
def test_tokens_that_overlap_themselves_agree_with_regex(
    tokens: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In texts where the quick search gives up in between, at one place of many ranges."""
    monkeypatch.setattr(special_tokens, "_WINDOW", 1 << 9)
    asked: list[int] = []
    search = SpecialTokenMatcher._find_longest
    monkeypatch.setattr(
        SpecialTokenMatcher,
        "_find_longest",
        lambda self, text, begin, end: asked.append(begin) or search(self, text, begin, end),
    )
    generator = random.Random(repr(tokens))
    unit = b"ab" if b"abab" in tokens[0] else b"a"
    runs = [b"b", b"c", *(unit * number for number in (149, 150, 199, 200, 299, 300, 301, 700))]
    for _ in range(3):
        content = b" plain" * 50 + b"".join(generator.choices(runs, k=80))
        expected = found_by_regex(content, tokens)
        assert found(content, tokens) == expected
        edges = sorted(generator.choices(range(len(content)), k=4))
        spans = np.array([*pairwise([0, *edges, len(content)])], np.int64)
        rows, counts = SpecialTokenMatcher(tokens).find_in_spans(Text.of(content), spans)
        each = [
            [[row[0] + begin, row[1] + begin, row[2]] for row in inside]
            for begin, end in spans.tolist()
            for inside in [found_by_regex(content[begin:end], tokens)]
        ]
        assert rows.tolist() == [row for one in each for row in one]
        assert counts.tolist() == [len(one) for one in each]
    assert asked, "else the quick search is compared with itself"
    assert min(asked) > 0


def test_tokens_of_thousands_of_equal_letters_are_sought_in_linear_time() -> None:
    long = b"a" * 4096
    for tokens, content, number in (
        ([long + b"b"], b"a" * 10_000_000, 0),
        ([long], (long[:-1] + b" ") * 2_500, 0),
        ([b"a", long + b"b"], b"a" * 3_000_000, 3_000_000),
        ([long, long + b"b"], b"a" * 10_000_000, 10_000_000 // 4096),
    ):
        text = Text.of(content)
        began = time.process_time()
        assert len(find_special_tokens(text, 0, text.size, tokens)) == number
        added = [AddedToken(300 + id_, one.decode()) for id_, one in enumerate(tokens)]
        matcher = AddedTokenMatcher(added, tokens)
        assert matcher.may_be_in(content)
        spans, _ = matcher.cut(text, np.array([[0, text.size]], np.int64), np.array([-1]))
        assert len(spans) == number + 1
        assert time.process_time() - began < 20  # quadratic takes minutes


@pytest.mark.parametrize("many", [3, 200])
def test_ranges_are_searched_one_by_one(many: int) -> None:
    """As `find` searches each, however many are found before the memory for them is full."""
    generator = random.Random(many)
    tokens = list({bytes(generator.choices(b"abcdefghijklmnop", k=3)) for _ in range(many)})
    content = b"".join(generator.choices([*tokens, b"a", b"op"], k=1500))
    text = Text.of(content)
    matcher = SpecialTokenMatcher(tokens)
    edges = sorted(generator.choices(range(len(content)), k=80))
    spans = np.array([*pairwise([0, 0, *edges, len(content)]), (5, 99)], np.int64)
    rows, counts = matcher.find_in_spans(text, spans)
    each = [matcher.find(text, *span).tolist() for span in spans.tolist()]
    assert counts.tolist() == [len(one) for one in each]
    assert rows.tolist() == [row for one in each for row in one]
    assert len(rows) > 64  # what fits at first
    rows, counts = matcher.find_in_spans(text, spans[:0])
    assert (rows.shape, counts.shape) == ((0, 3), (0,))


@settings(deadline=None)  # the first example may compile
@given(
    st.text(alphabet="<|ab>é", max_size=150),
    st.lists(st.text(alphabet="<|ab>é", min_size=1, max_size=5), max_size=5, unique=True),
)
def test_hyp_cutting_at_the_occurrences_is_the_reference(text: str, tokens: list[str]) -> None:
    content = text.encode()
    pieces, position = [], 0
    for begin, end, index in found(content, [token.encode() for token in tokens]):
        assert content[begin:end] == tokens[index].encode()
        pieces += [content[position:begin], content[begin:end]]
        position = end
    pieces.append(content[position:])
    cut = [piece.decode() for piece in pieces if piece]
    assert cut == reference.cut_at_special_tokens(text, tokens)
