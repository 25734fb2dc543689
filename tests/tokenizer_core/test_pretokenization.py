"""The scanning kernels against the plain reference, on text made to be cut wrongly.

The oracle runs the patterns as tiktoken publishes them, not the spelling of this project.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_core import reference
from tokenizer_core.pretokenization import mark_pre_tokens, pre_tokens
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.text import Text

PUBLISHED = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
    r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
}
NAMES = sorted(PUBLISHED)

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
]
FILLERS = ["a", " ", "\n", "!", "7", "漢", "\u3000", "'", "٣", "\t"]


def starts_of(marked: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(marked.view(np.uint8), bitorder="little")).tolist()


def expected_starts(text: str, name: str, begin: int = 0) -> list[int]:
    starts = []
    for piece in reference.split(text, PUBLISHED[name]):
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


@pytest.mark.parametrize("name", NAMES)
def test_tempting_texts_are_cut_as_published(name: str) -> None:
    assert assert_marked_as_published(list(tempting_texts(1, 40_000)), name) > 200_000


@pytest.mark.parametrize("name", NAMES)
def test_every_short_text_of_tempting_characters_is_cut_as_published(name: str) -> None:
    letters = ["a", "s", "'", " ", "\n", "1", "!", "\u3000", "\t"]
    texts = [""]
    for _ in range(4):
        texts += [text + letter for text in texts if len(text) == len(texts[-1])
                  for letter in letters]  # fmt: skip
    assert len(texts) == 1 + 9 + 9**2 + 9**3 + 9**4
    assert_marked_as_published(texts, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_situation_is_cut_as_published_at_every_place_in_a_block(name: str) -> None:
    situations = [
        "a's b", "a'll", "a'LLx", "'ſx", "a 's", "'", "'s", "!'s", "''s", "'s's", "x'v", "'re're",
        "a  b", "a   ", " \n b", "\n\n  b", "\n  \n  b", "!\n\n \n b", "!\r\n\r\n\t\tx", "\n   ",
        "a\u3000b", "a \u3000b", "a\u3000 b", "a\u3000\u3000!", "\n\u3000\u3000b", "\n\u3000\n",
        "12345678", " 1", "٣٣٣٣a", "1३²Ⅷ5", "𝟘𝟘𝟘𝟘",
        "!a", " !a", "\t!a", "\u0301a", " \u0301a", "…a", "👩a", "!!a", "👩\u200d👩a", "é\u0301é",
    ]  # fmt: skip
    texts = []
    for situation in situations:
        for filler in ("x", " ", "\n", "!", "1", "漢", "\n "):
            texts += [filler * count + situation + "z" for count in (*range(8), *range(15, 68))]
    assert_marked_as_published(texts, name)


@pytest.mark.parametrize("name", NAMES)
def test_runs_longer_than_several_blocks_are_cut_as_published(name: str) -> None:
    texts = []
    for count in (*range(60, 70), *range(120, 135), 191, 192, 193, 300, 1000):
        for run in (" ", "\t", "\u3000", "\n", "7", "٣", "a", "漢", "!", "\u0301", "'", " \n"):
            for before in ("", "a", "\n", "!", "!\n", " \n", "'"):
                texts += [before + run * count + after for after in ("", "a", "\n", "!", "1", "'s")]
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


@pytest.mark.parametrize("pattern", [*NAMES, r"\S+"])
@pytest.mark.parametrize("span", [(-1, 2), (0, 6), (3, 2), (7, 8)])
def test_a_span_outside_of_the_text_is_refused(pattern: str, span: tuple[int, int]) -> None:
    with pytest.raises(IndexError, match="5 bytes"):
        mark_pre_tokens(Text.of(b"abc d"), np.array([span]), SplitPattern.parse(pattern))


@pytest.mark.parametrize("pattern", [*NAMES, r"\S+"])
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
    "pattern", [r"\w+", r"a|aa", r"x*", r"(?<=a)b", r"[^\s]+$", r"\p{Han}", "é"]
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


def test_more_matches_than_one_batch_are_all_marked() -> None:
    text = "é " * 100_000
    assert pre_tokens(text, SplitPattern(regex="é")) == ["é", " "] * 100_000


@pytest.mark.parametrize("name", NAMES)
def test_real_text_is_cut_as_published(name: str, english_and_code: str) -> None:
    assert pre_tokens(english_and_code, name) == reference.split(english_and_code, PUBLISHED[name])


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)  # the first example may compile
@given(st.lists(st.text(st.one_of(st.sampled_from(ALL), st.characters(exclude_categories=["Cs"])),
                        max_size=80), max_size=4))  # fmt: skip
def test_hyp_any_text_is_cut_as_published(name: str, texts: list[str]) -> None:
    assert_marked_as_published(texts, name)
    for text in texts:
        assert "".join(pre_tokens(text, name)) == text


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(st.lists(st.sampled_from(["it", "'s", " ", "  ", "\n", "!", "12345", "漢", "\u3000"])))
def test_hyp_a_legal_cut_changes_nothing(name: str, parts: list[str]) -> None:
    text = "".join(parts)
    assert SplitPattern.named(name).cuts_at_spaces
    for cut in range(1, len(text) - 1):
        if text[cut] == " " and not text[cut - 1].isspace() and not text[cut + 1].isspace():
            halves = pre_tokens(text[:cut], name) + pre_tokens(text[cut:], name)
            assert halves == pre_tokens(text, name)
