"""Legal cuts: counting both sides apart gives what counting them together gives."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from tokenizer_core import reference
from tokenizer_core.cuts import Cuts
from tokenizer_core.split_patterns import SplitPattern

SPECIALS = ("<|a|>", "<|a|><|b|>", "<|b|>", "x y", "aa", "\n")


def all_cuts(cuts: Cuts, content: bytes) -> list[int]:
    """Every legal cut, found one after the other."""
    found, begin = [], 1
    end = len(content) - cuts.ahead + 1
    while (cut := cuts.first(content, begin, end)) >= 0:
        found.append(cut)
        begin = cut + 1
    return found


def words(content: str, pattern: str, specials: tuple[str, ...]) -> Counter[bytes]:
    return Counter(reference.count_words([content], pattern, specials))


@pytest.mark.parametrize("name", ["gpt2", "cl100k"])
def test_no_cut_at_a_space_changes_the_words_of_any_short_text(name: str) -> None:
    regex, cuts = SplitPattern.named(name).regex, Cuts(at_spaces=True)
    tried = 0
    for length in range(3, 6):
        for letters in itertools.product("a1' .\n\té", repeat=length):
            content = "".join(letters)
            for cut in all_cuts(cuts, content.encode()):
                halves = content.encode()[:cut].decode(), content.encode()[cut:].decode()
                assert words(content, regex, ()) == reference_sum(halves, regex, ()), content
                tried += 1
    assert tried > 1000


def reference_sum(parts: tuple[str, ...], regex: str, specials: tuple[str, ...]) -> Counter[bytes]:
    return sum((words(part, regex, specials) for part in parts), Counter())


@pytest.mark.parametrize("at_spaces", [True, False])
def test_no_cut_breaks_a_special_token_or_its_neighbours(at_spaces: bool) -> None:
    regex = SplitPattern.named("gpt2").regex
    source = random.Random(1)
    tried = 0
    for _ in range(400):
        specials = tuple(source.sample(SPECIALS, source.randint(1, 4)))
        cuts = Cuts(at_spaces=at_spaces, special_tokens=tuple(s.encode() for s in specials))
        pieces = [*SPECIALS, "<|a|", "<|", "|>", " ", "x", "y", "a", "é", "\n", "b c"]
        content = "".join(source.choices(pieces, k=12))
        for cut in all_cuts(cuts, content.encode()):
            raw = content.encode()
            halves = raw[:cut].decode(), raw[cut:].decode()
            assert words(content, regex, specials) == reference_sum(halves, regex, specials)
            tried += 1
    assert tried > 200


def test_what_may_be_cut_is_cut() -> None:
    cuts = Cuts(at_spaces=True, special_tokens=(b"<|end|>", b"to day"))
    content = b"one two  three\tx y<|end|>z \xc3\xa9 a to day now and then <|end|> ............"
    expected = [
        content.index(place)
        for place in (
            b" two",
            b" y",
            b"<|end|>z",
            b" to day",
            b"to day",
            b" now",
            b" and",
            b" then",
        )
    ]
    expected += [content.index(b" <|end|> "), content.index(b"<|end|> "), content.index(b" ....")]
    assert all_cuts(cuts, content) == sorted(expected)


def test_lines_are_cut_behind_their_line_feeds_alone() -> None:
    assert all_cuts(Cuts(at_line_feeds=True), b'{"a b": 1}\n\n{"c d": 2}\r\n') == [11, 12, 24]


def test_a_cut_is_judged_by_the_bytes_around_it_alone() -> None:
    cuts = Cuts(at_spaces=True, special_tokens=tuple(s.encode() for s in SPECIALS))
    content = "".join(random.Random(4).choices([*SPECIALS, "b c", " ", "d"], k=60)).encode()
    legal = set(all_cuts(cuts, content))
    assert legal
    for position in range(1, len(content) - cuts.ahead + 1):
        begin = max(0, position - cuts.behind)
        window = content[begin : position + cuts.ahead]
        judged = cuts.first(window, position - begin, position - begin + 1)
        assert (judged >= 0) == (position in legal)


def test_without_rules_there_is_no_cut() -> None:
    assert not Cuts().possible
    assert Cuts().first(b"a b c d", 1, 6) == -1
