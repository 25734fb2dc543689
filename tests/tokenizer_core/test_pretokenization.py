"""Every way of finding pre-tokens against the plain reference, on text made to be cut wrongly.

The oracle runs the patterns as tiktoken publishes them, not the spelling of this project.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.pretokenization import (
    mark_kept_and_dropped,
    mark_pre_tokens,
    pre_tokens,
)
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PUBLISHED: dict[str, tuple[str, ...]] = {  # several: each cuts the pieces of the one before
    "gpt2": (r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
        r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "o200k": (
        "|".join(
            [
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                + _ENGLISH
                + "?",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
                + _ENGLISH
                + "?",
                r"\p{N}{1,3}",
                r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                r"\s*[\r\n]+",
                r"\s+(?!\S)",
                r"\s+",
            ]
        ),
    ),
    "tekken": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "llama3": (
        _ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "qwen2": (
        _ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "qwen3.5": (
        _ENGLISH + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "starcoder": (
        r"\p{N}",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    "kimi": (
        r"(?V1)[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "deepseek-v3": (
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
NAMES = sorted(PUBLISHED)
DROPPING = {"whitespace": r"\S+", "wordpunct": r"\w+|[^\w\s]+"}

WHITE = [*map(chr, (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B),
                    0x2028, 0x2029, 0x202F, 0x205F, 0x3000))]  # fmt: skip
NOT_WHITE = list("\x1c\x1d\x1e\x1f\u180e\u200b\u2060\ufeff\x00\x7f")
LETTERS = [
    *"aZsdmtlvreSDMTLVREſKéßǅªʰяєҁع一倀漢龦鿿ꀀ꿿가뀀한켰퀀あ",
    "𝒜",
    "𐐷",
    "\U00020000",
    "\ud7ff",
]
NUMBERS = [*"0179٣३²½Ⅷ①〇", "𝟘", "𐒠"]
OTHERS = [
    *"䷀҂'''!?_-…—。「’",
    "\u0301",
    "\u200d",
    *"👩👍🏽\u0483",
    "\ue000",
    "\u0378",
    "\U0010ffff",
]
ALL = [*WHITE, *NOT_WHITE, *LETTERS, *NUMBERS, *OTHERS]
CONTRACTIONS = ["'s", "'S", "'ſ", "'ll", "'LL", "'lL", "'ve", "'Re", "'m", "'D", "'š", "'l", "'v"]
MOODS = [
    ALL,
    [*ALL, *CONTRACTIONS],
    [*CONTRACTIONS, "'", " ", "a", "\n", "漢"],
    list("   \n\n\r\r\t!a1"),
    [*" \n\t!", "\u3000", "\u2003", "漢", "a", "\u0301"],
    list("0123456789٣३ "),
    list("aaaaaa      '.,1"),
    [*"aaAAbBéÉǅʰ漢'\u0301!", "'s", "'LL", " "],
    [*"漢丁か・゛゜゠ー\u3040\u3097\u3098\u3099a1! \n", "\u0301", "\x00"],
    list("//!! \n\ra\u0301"),
    list("_-@/aA1 \x00\u200d\n"),
]
FILLERS = ["a", " ", "\n", "!", "7", "漢", "\u3000", "'", "٣", "\t"]


def starts_of(marked: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(marked.view(np.uint8), bitorder="little")).tolist()


def cut_as_published(text: str, name: str) -> list[str]:
    pieces = [text]
    for pattern in PUBLISHED[name]:
        pieces = [piece for whole in pieces for piece in reference.split(whole, pattern)]
    return pieces


def expected_starts(text: str, name: str, begin: int = 0) -> list[int]:
    starts = []
    for piece in cut_as_published(text, name):
        starts.append(begin)
        begin += len(piece.encode())
    return starts


def assert_marked_as_published(texts: list[str], name: str) -> int:
    """Mark all texts as spans of one, compare, and return the number of pre-tokens."""
    sizes = [len(text.encode()) for text in texts]
    ends = np.cumsum(sizes)
    spans = np.stack([ends - sizes, ends], axis=1).astype(np.int64)
    whole = Text.of("".join(texts).encode())
    marked = starts_of(mark_pre_tokens(whole, spans, SplitPattern.named(name)))
    expected: list[int] = []
    for text, begin in zip(texts, spans[:, 0].tolist(), strict=True):
        expected += expected_starts(text, name, begin)
    if marked != expected:
        wrong = min(set(marked) ^ set(expected))
        index = int(np.searchsorted(ends, wrong, side="right"))
        text, begin = texts[index], int(spans[index, 0])
        cut = [start - begin for start in marked if begin <= start < ends[index]]
        assert cut == expected_starts(text, name), (name, begin % 64, text)
    return len(expected)


def tempting_texts(seed: int, count: int) -> Iterator[str]:
    generator = random.Random(seed)
    for _ in range(count):
        mood = generator.choice(MOODS)
        if generator.random() < 0.5:
            mood = generator.sample(mood, min(len(mood), generator.randint(2, 6)))
        filler = ""
        if generator.random() < 0.3:
            filler = generator.choice(FILLERS) * generator.randint(0, 130)
        yield filler + "".join(generator.choices(mood, k=generator.randint(0, 24)))


@pytest.fixture(scope="module")
def many_texts() -> list[str]:
    return list(tempting_texts(1, 30_000))


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_tempting_texts_are_cut_as_published(name: str, many_texts: list[str]) -> None:
    assert assert_marked_as_published(many_texts, name) > 150_000


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_every_short_text_of_tempting_characters_is_cut_as_published(name: str) -> None:
    letters = ["a", "s", "'", " ", "\n", "1", "!", "\u3000", "\t"]
    texts = [""]
    for _ in range(4):
        texts += [text + letter for text in texts if len(text) == len(texts[-1])
                  for letter in letters]  # fmt: skip
    assert len(texts) == 1 + 9 + 9**2 + 9**3 + 9**4
    assert_marked_as_published(texts, name)


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_every_situation_is_cut_as_published_at_every_place_in_a_block(name: str) -> None:
    situations = [
        "a's b", "a'll", "a'LLx", "'ſx", "a 's", "'", "'s", "!'s", "''s", "'s's", "x'v", "'re're",
        "a  b", "a   ", " \n b", "\n\n  b", "\n  \n  b", "!\n\n \n b", "!\r\n\r\n\t\tx", "\n   ",
        "a\u3000b", "a \u3000b", "a\u3000 b", "a\u3000\u3000!", "\n\u3000\u3000b", "\n\u3000\n",
        "12345678", " 1", "٣٣٣٣a", "1३²Ⅷ5", "𝟘𝟘𝟘𝟘",
        "aB", "aBc", "ABc", "AB漢", "漢AB", "漢ABc'S", "AB's", "!/\r\n//", "!!\u0301a", "é\u0301B",
        "漢・か", "・\n", " ・", "1漢2", "\u3097\u3098か", "\u3097\u3098", "\x00\u3097",
        "@Ab@漢", "漢  か",
        "!a", " !a", "\t!a", "\u0301a", " \u0301a", "…a", "👩a", "!!a", "👩\u200d👩a", "é\u0301é",
    ]  # fmt: skip
    texts = []
    for situation in situations:
        for filler in ("x", " ", "\n", "!", "1", "漢", "\n "):
            texts += [filler * count + situation + "z" for count in (*range(6), *range(20, 67))]
    assert_marked_as_published(texts, name)


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_runs_longer_than_several_blocks_are_cut_as_published(name: str) -> None:
    texts = []
    for count in (*range(60, 70), *range(120, 135), 191, 192, 193, 300, 1000):
        for run in (" ", "\t", "\u3000", "\n", "7", "٣", "a", "漢", "!", "\u0301", "'", " \n"):
            for before in ("", "a", "\n", "!", "!\n", " \n", "'"):
                texts += [before + run * count + after for after in ("", "a", "\n", "!", "1", "'s")]
    assert_marked_as_published(texts, name)


@pytest.mark.parametrize("name", NAMES)
def test_long_texts_of_ascii_with_little_else_are_cut_as_published(name: str) -> None:
    # Blocks of ASCII are cut by a loop of their own, which begins and ends anywhere.
    random_ = random.Random(name)
    pieces = [
        "a",
        "the",
        " ",
        " ",
        "  ",
        "\n",
        "\t\t",
        "7",
        "42",
        "!",
        "'",
        "'s",
        "'ll",
        "'l",
        "x'",
    ]
    pieces += ["'ve", "\r\n", "\x00", "\x1c", "\x7f", " 's", "'S", "/"]
    beyond = ["\u3000", "漢", "é", "🙂", "\u0301", "\xa0", "\u2003 "]
    texts = []
    # Every way to leave such blocks and to come back, at each place in a block.
    for before in range(64):
        for end, following in (
            ("a  ", "é b"),
            ("a'", "lé"),
            ("a\u3000", "  b"),
            ("é ", "b"),
            ("!", "é"),
            ("!\n", " " + "\u3000" * 22 + "\n é"),
        ):
            text = "x" * (128 + before) + " y" + end + following + " it's 1 b" * 20
            texts.append(text + "x" * (-len(text.encode()) % 64))  # the next begins a block
    for turn in range(200):
        others = beyond if turn % 4 else []
        weights = [10] * len(pieces) + [turn % 4] * len(others)
        size = random_.randrange(100, 700)
        texts.append("".join(random_.choices([*pieces, *others], weights, k=size)))
    assert_marked_as_published(texts, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_span_ends_like_a_text_whatever_follows(name: str) -> None:
    # Each span is followed by what would change its last pre-token, were it not for its end.
    tempting = [("a ", " b"), ("a'", "s"), ("'l", "l"), ("\n  ", "\n"), ("\n  ", "x"),
                ("!", "\n"), ("!", "a"), ("12", "34"), ("a\u3000", "\u3000b"), (" ", "a"),
                ("", "a")]  # fmt: skip
    pattern = SplitPattern.named(name)
    for before in range(130):
        for last, following in tempting:
            text = "x" * before + last
            size = len(text.encode())
            whole = Text.of((text + following).encode())
            spans = np.array([[0, size]], np.int64)
            marked = starts_of(mark_pre_tokens(whole, spans, pattern))
            assert marked == expected_starts(text, name), (before, last, following)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_marked_outside_of_the_spans(name: str) -> None:
    text = Text.of(b"one two  three's\n\n four " * 40)
    spans = np.array([[3, 3], [70, 200], [500, 501], [501, 640]], np.int64)
    marked = starts_of(mark_pre_tokens(text, spans, SplitPattern.named(name)))
    expected = []
    for begin, end in spans.tolist():
        expected += expected_starts(text.bytes(begin, end).decode(), name, begin)
    assert marked == expected
    assert {70, 500, 501} <= set(marked)


@pytest.mark.parametrize("pattern", [*NAMES, r"\S+", r"(?<=a)b"])
@pytest.mark.parametrize("span", [(-1, 2), (0, 6), (3, 2), (7, 8)])
def test_a_span_outside_of_the_text_is_refused(pattern: str, span: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="5 bytes"):
        mark_pre_tokens(Text.of(b"abc d"), np.array([span]), SplitPattern.parse(pattern))


@pytest.mark.parametrize("pattern", [*NAMES, r"\S+", r"(?<!a)a+"])
def test_the_bitmap_has_its_size_even_for_no_text(pattern: str) -> None:
    for size in (0, 1, 63, 64, 65):
        text = Text.of(b"a" * size)
        whole = np.array([[0, size]], np.int64)
        marked = mark_pre_tokens(text, whole, SplitPattern.parse(pattern))
        assert marked.dtype == np.uint64
        assert marked.shape == (size // 64 + 2,)
        assert starts_of(marked) == ([0] if size else [])
        none = mark_pre_tokens(text, np.empty((0, 2), np.int64), SplitPattern.parse(pattern))
        assert starts_of(none) == []


@pytest.mark.parametrize(
    "pattern",
    [r"\w+", r"a|aa", r"x*", r"(?<=a)b", r"[^\s]+$", r"\p{Han}", "é", r"^\w+", r"\b", r"(x)\1"],
)
def test_a_users_regex_cuts_and_keeps_what_it_does_not_match(pattern: str) -> None:
    split_pattern = SplitPattern(regex=pattern)
    for text in ("", "aab xx\u3000漢字é!", "xxx", "ab" * 50 + "é漢" * 30, *tempting_texts(2, 100)):
        pieces = pre_tokens(text, split_pattern)
        assert "".join(pieces) == text
        assert pieces == reference.split(text, pattern)


def test_a_users_regex_treats_spans_apart() -> None:
    text = Text.of("ab漢ab".encode())
    spans = np.array([[0, 2], [2, 5], [5, 7]], np.int64)
    marked = mark_pre_tokens(text, spans, SplitPattern(regex=r"^[ab]|$"))
    assert starts_of(marked) == [0, 1, 2, 5, 6]


@pytest.mark.parametrize("pattern", ["é", r"(?<!é)é"])
def test_more_matches_than_one_batch_are_all_marked(pattern: str) -> None:
    text = "é " * 100_000
    assert pre_tokens(text, SplitPattern(regex=pattern)) == ["é", " "] * 100_000


@pytest.mark.parametrize("name", sorted(DROPPING))
def test_white_space_between_pre_tokens_is_dropped(name: str) -> None:
    assert pre_tokens(" it's  12\u3000漢字!? \n", name) == regex.findall(
        DROPPING[name], " it's  12\u3000漢字!? \n"
    )
    assert pre_tokens("", name) == pre_tokens(" \n\t", name) == []
    for text in tempting_texts(3, 3000):
        assert pre_tokens(text, name) == regex.findall(DROPPING[name], text)


@pytest.mark.parametrize("name", sorted(DROPPING))
def test_what_is_dropped_is_marked_as_such_in_every_span(name: str) -> None:
    texts = list(tempting_texts(4, 5000))
    ends = np.cumsum([len(text.encode()) for text in texts])
    spans = np.stack([np.concatenate(([0], ends[:-1])), ends], axis=1)
    starts, dropped = mark_kept_and_dropped(
        Text.of("".join(texts).encode()), spans, SplitPattern.named(name)
    )
    expected_all, expected_dropped = [], []
    for text, begin in zip(texts, spans[:, 0].tolist(), strict=True):
        kept = {match.start() for match in regex.finditer(DROPPING[name], text)}
        characters = byte = 0
        for piece in reference.split(text, DROPPING[name]):
            expected_all.append(begin + byte)
            if characters not in kept:
                expected_dropped.append(begin + byte)
            characters += len(piece)
            byte += len(piece.encode())
    assert starts_of(starts) == expected_all
    assert starts_of(dropped) == expected_dropped
    assert len(expected_dropped) > 1000


def test_who_cannot_drop_text_is_not_given_it_as_pre_tokens() -> None:
    text = Text.of(b"a b")
    with pytest.raises(InvalidPattern, match="'whitespace'"):
        mark_pre_tokens(text, np.array([[0, 3]]), SplitPattern.named("whitespace"))
    starts, dropped = mark_kept_and_dropped(text, np.array([[0, 3]]), SplitPattern(r"\S+"))
    assert starts_of(starts) == [0, 1, 2]
    assert dropped.size == 0


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
def test_real_text_is_cut_as_published(name: str, english_and_code: str) -> None:
    assert pre_tokens(english_and_code, name) == cut_as_published(english_and_code, name)


@pytest.mark.night
@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)  # the first example may compile
@given(st.lists(st.text(st.one_of(st.sampled_from(ALL), st.characters(exclude_categories=["Cs"])),
                        max_size=80), max_size=4))  # fmt: skip
def test_hyp_any_text_is_cut_as_published(name: str, texts: list[str]) -> None:
    assert_marked_as_published(texts, name)
    for text in texts:
        assert "".join(pre_tokens(text, name)) == text


@pytest.mark.parametrize("name", [*NAMES, *sorted(DROPPING)])
@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["it", "'s", "IT", " ", "  ", "\n", "!", "12345", "漢", "\u3000", "\x00"])
    )
)
def test_hyp_a_legal_cut_changes_nothing(name: str, parts: list[str]) -> None:
    text = "".join(parts)
    pairs = SplitPattern.named(name).cut_pairs
    assert pairs is not None
    content = text.encode()
    for cut in range(1, len(text)):
        at = len(text[:cut].encode())
        alone = text[cut] == " " != text[cut - 1] and not text[cut - 1].isspace()
        legal = pairs.first(content, at, at + 1) == at
        assert legal or not alone
        if legal:
            halves = pre_tokens(text[:cut], name) + pre_tokens(text[cut:], name)
            assert halves == pre_tokens(text, name)
