"""Legal cuts: counting both sides apart gives what counting them together gives."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import regex

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.splitting.cuts import Cuts, SpacesFirst
from bpeline.tokenizer_core.splitting.split_automaton import cut_pairs
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

SPECIALS = ("<|a|>", "<|a|><|b|>", "<|b|>", "x y", "aa", "\n")


def all_cuts(cuts: Cuts, content: bytes) -> list[int]:
    """Every legal cut, found one after the other."""
    found, begin = [], 1
    end = len(content) - cuts.ahead + 1
    while (cut := cuts.first(content, begin, end)) >= 0:
        assert cut >= begin
        found.append(cut)
        begin = cut + 1
    return found


GPT2 = SplitPattern.named("gpt2").cut_pairs


def words(content: str, pattern: str, specials: tuple[str, ...]) -> Counter[bytes]:
    return Counter(reference.count_words([content], pattern, specials))


@pytest.mark.parametrize(
    ("pattern", "alphabet"),
    [
        *((name, "a1' .\n\té") for name in ("gpt2", "cl100k", "llama3", "qwen2")),
        *((name, "aA漢'/ \n\u0301") for name in ("o200k", "tekken", "qwen3.5", "deepseek-v3")),
        *((name, "a_! \n漢") for name in ("whitespace", "wordpunct")),
        (r"a+$|\s|ab|[\n!]+", "ab!\n "),
        (r"\s+(?!\S)|\w+|.", "a! \n"),
    ],
)
def test_no_cut_between_two_characters_changes_any_short_text(pattern: str, alphabet: str) -> None:
    split_pattern = SplitPattern.parse(pattern)
    cuts = Cuts(pairs=split_pattern.cut_pairs)
    tried = 0
    for length in range(2, 5):
        for letters in itertools.product(alphabet, repeat=length):
            content = "".join(letters)
            raw = (content + "    ").encode()  # so that every position can be judged
            whole = reference.split(content, split_pattern.regex)
            for cut in all_cuts(cuts, raw):
                if cut >= len(raw) - 4:
                    continue
                halves = raw[:cut].decode(), raw[cut:-4].decode()
                both = [
                    word for half in halves for word in reference.split(half, split_pattern.regex)
                ]
                assert both == whole, (content, cut)
                tried += 1
    assert tried > 300


@pytest.mark.night
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "deepseek-v3"])
def test_spaces_come_first_and_the_pattern_says_where_there_are_none(name: str) -> None:
    pattern = SplitPattern.named(name)
    cuts = Cuts(pairs=SpacesFirst(pattern, far=0))
    tried = 0
    for letters in itertools.product("a1 .\u3000漢", repeat=5):
        content = "".join(letters)
        raw = (content + "    ").encode()
        whole = reference.split(content, pattern.regex)
        for cut in all_cuts(cuts, raw):
            if cut < len(raw) - 4:
                halves = raw[:cut].decode(), raw[cut:-4].decode()
                both = [word for half in halves for word in reference.split(half, pattern.regex)]
                assert both == whole, (content, cut)
                tried += 1
    assert tried > 3000
    assert cuts.first("a漢, here".encode() + bytes(4), 1, 9) == len("a漢,".encode())
    assert cuts.first("漢。".encode() + bytes(4), 1, 6) == len("漢".encode())


def test_no_automaton_is_made_for_the_few_bytes_before_a_special_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pattern = SplitPattern.named("gpt2")
    cuts = Cuts(pairs=SpacesFirst(pattern), special_tokens=(b"<s>",))
    content = b"word,<s>and many more words " * 200
    monkeypatch.setattr(SplitPattern, "cut_pairs", property(lambda _: pytest.fail("was made")))
    assert cuts.first(content, 2, 5_000) == content.index(b"<s>")
    assert cuts.first(content, 6, 5_000) == content.index(b" many")


def reference_sum(parts: tuple[str, ...], regex: str, specials: tuple[str, ...]) -> Counter[bytes]:
    return sum((words(part, regex, specials) for part in parts), Counter())


@pytest.mark.night
@pytest.mark.parametrize("between", [True, False])
def test_no_cut_breaks_a_special_token_or_its_neighbours(between: bool) -> None:
    regex = SplitPattern.named("gpt2").regex
    source = random.Random(1)
    tried = 0
    for _ in range(400):
        specials = tuple(source.sample(SPECIALS, source.randint(1, 4)))
        cuts = Cuts(
            pairs=GPT2 if between else None, special_tokens=tuple(s.encode() for s in specials)
        )
        pieces = [*SPECIALS, "<|a|", "<|", "|>", " ", "x", "y", "a", "é", "\n", "b c"]
        content = "".join(source.choices(pieces, k=12))
        for cut in all_cuts(cuts, content.encode()):
            raw = content.encode()
            halves = raw[:cut].decode(), raw[cut:].decode()
            assert words(content, regex, specials) == reference_sum(halves, regex, specials)
            tried += 1
    assert tried > 200


def test_what_may_be_cut_is_cut() -> None:
    cuts = Cuts(pairs=GPT2, special_tokens=(b"<|end|>", b"to day"))
    parts = ["one", " two", "  ", "<|end|>", "2", " é", ",", " it", "'s", " 他们", "，", "12", " "]
    parts += ["to day", " and then"]
    assert regex.findall(SplitPattern.named("gpt2").regex, "".join(parts[4:12])) == parts[4:12]
    content = "".join(parts).encode()
    expected = list(itertools.accumulate(len(part.encode()) for part in parts))[:-1]
    assert all_cuts(cuts, content) == expected


@pytest.mark.parametrize("token", [b"it ", b"it,", b",it", b"it it"])
def test_no_cut_lies_within_a_special_token(token: bytes) -> None:
    content = b"and " + token + b"and so on and on"
    begin = content.index(token)
    within = set(range(begin + 1, begin + len(token)))
    assert within & set(all_cuts(Cuts(pairs=GPT2), content)), "text alone may be cut there"
    assert not within & set(all_cuts(Cuts(pairs=GPT2, special_tokens=(token,)), content))


def test_cuts_come_often_in_every_script() -> None:
    texts = [
        "he said, and",
        "他们赋有理性和良心，并应以",
        "すべて、うまれ",
        "सभी मनुष्यों",
        "자유로우며 그",
    ]
    for name in ("gpt2", "cl100k", "o200k", "deepseek-v3"):
        for text in texts:
            raw = text.encode() + bytes(4)
            assert all_cuts(Cuts(pairs=SplitPattern.named(name).cut_pairs), raw), (name, text)


@pytest.mark.parametrize(
    ("pattern", "before", "behind", "legal"),
    [
        ("gpt2", "a", " ", True),
        ("gpt2", "a", ",", True),
        ("gpt2", "\n", "a", False),  # white space gives its last character away
        ("gpt2", "'", "s", False),
        ("gpt2", "漢", "。", True),
        ("cl100k", "\n", "a", True),
        ("cl100k", ",", "\n", False),  # line feeds belong to what is before them
        ("cl100k", "。", "漢", False),  # a single mark of punctuation joins letters
        ("o200k", "a", "'", False),
        ("o200k", "a", "A", True),
        ("o200k", "\n", "/", False),
        ("qwen2", "1", "1", True),
        ("cl100k", "1", "1", False),
        ("whitespace", " ", "a", True),
        ("whitespace", " ", " ", False),
        (r"\S+\s", "a", "b", False),
        (r"a$|\s+|b", "\n", "b", False),  # the end of a text is elsewhere than its line feed
    ],
)
def test_which_characters_may_be_parted(
    pattern: str, before: str, behind: str, legal: bool
) -> None:
    pairs = SplitPattern.parse(pattern).cut_pairs
    raw = (before + behind).encode()
    found = pairs.first(raw, 1, len(raw)) if pairs is not None else -1
    assert found == (len(before.encode()) if legal else -1)


def test_nothing_is_known_of_what_has_no_automaton() -> None:
    assert cut_pairs(r"(?<=ab)c") is None
    assert cut_pairs(r"a\b") is None


def test_a_cut_is_between_two_whole_characters_whatever_the_bytes() -> None:
    source = random.Random(6)
    pieces = ["a", " ", ",", "é", "漢", "。", "𝒜", "\U0010ffff", "\ufffd"]
    broken = [b"\xc3", b"\xe6\xbc", b"\xf0\x9d\x92", b"\x80", b"\xed\xa0\x80", b"\xe0\x80\x80",
              b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xff", b"\xf0\x80\x80\x80"]  # fmt: skip
    cuts, tried = Cuts(pairs=GPT2), 0
    assert GPT2 is not None
    for _ in range(4000):
        raw = b"".join(source.choice([*(p.encode() for p in pieces), *broken]) for _ in range(8))
        whole = raw.decode(errors="replace")
        for cut in all_cuts(cuts, raw):
            assert raw[:cut].decode(errors="replace") + raw[cut:].decode(errors="replace") == whole
            before, behind = (
                raw[:cut].decode(errors="replace")[-1],
                raw[cut:].decode(errors="replace")[0],
            )
            classes = GPT2.class_of_point[[ord(before), ord(behind)]]
            assert GPT2.legal[classes[0], classes[1]]
            tried += 1
    assert tried > 2000


def test_lines_are_cut_behind_their_line_feeds_alone() -> None:
    assert all_cuts(Cuts(behind_each=b"\n"), b'{"a b": 1}\n\n{"c d": 2}\r\n') == [11, 12, 24]


def test_a_cut_is_judged_by_the_bytes_around_it_alone() -> None:
    cuts = Cuts(pairs=GPT2, special_tokens=tuple(s.encode() for s in SPECIALS))
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


def test_many_special_tokens_are_found_where_a_few_are() -> None:
    chance = random.Random(1)
    tokens = tuple(f"<{one}>".encode() for one in ("a", "aa", "b>", *range(17), "[x"))
    content = b"".join(chance.choice([*tokens, b"some text", b"<", b">"]) for _ in range(400))
    several = [Cuts(special_tokens=tokens[begin : begin + 5]) for begin in range(0, len(tokens), 5)]
    ahead = Cuts(special_tokens=tokens).ahead
    for begin in range(0, len(content) - 60, 7):
        end = min(begin + 40, len(content) - ahead)
        first = [one._first_special(content, begin, end) for one in several]
        expected = min([at for at in first if at >= 0], default=-1)
        assert Cuts(special_tokens=tokens)._first_special(content, begin, end) == expected
