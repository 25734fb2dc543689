"""Kernels, automata and legal cuts against `regex`, on as many tempting texts as one likes.

A few thousand of them in every run. The tests marked `slow` take a million for each pattern;
``--texts N --seed S`` chooses how many and which (`make test-nightly`).
"""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
import regex
from tempting_texts import tempting_texts

from tokenizer_core.splitting.named_patterns import DROPPING_PATTERNS, NAMED_PATTERNS
from tokenizer_core.splitting.pretokenization import mark_kept_and_dropped
from tokenizer_core.splitting.split_patterns import SplitPattern
from tokenizer_core.text import Text

NAMES = [*NAMED_PATTERNS, *DROPPING_PATTERNS]
USERS = [
    r"\w+|[^\w\s]+|\s+",
    r"\p{Lu}?\p{Ll}+|\d{1,3}(?!\d)|.",
    r"(?:a|ab)+|\s*\n|\p{Han}+(?=。)",
    r"[\r\n]|\s?\p{L}+|\s?\p{P}+|[一-龥ࠀ-一가-퟿]+|\p{N}",
    r"\s+\Z|\S+",
    r"ab\w*",
    r"\d+$|\s",
]
HARDLY_CUT = (r"ab\w*", r"\d+$|\s")  # most of their attempts can find nothing
AT_ONCE = 20_000


def positions(bitmap: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little"))


class Joined:
    """Texts as spans of one, with the byte at which each character begins."""

    def __init__(self, texts: list[str]) -> None:
        self.characters = "".join(texts)
        raw = self.characters.encode()
        leads = (np.frombuffer(raw, np.uint8) & 0xC0) != 0x80
        self.byte_of = np.append(np.flatnonzero(leads), len(raw))
        self.edges = np.cumsum([0, *map(len, texts)])
        self.text = Text.of(raw)
        self.spans = self.byte_of[np.stack((self.edges[:-1], self.edges[1:]), axis=1)]

    def expected(self, pattern: SplitPattern) -> tuple[np.ndarray, np.ndarray]:
        """Starts of pre-tokens and of what lies between them, by `regex`."""
        starts, between = [], []
        find = regex.compile(pattern.regex).finditer
        edges = self.edges.tolist()
        for begin, end in pairwise(edges):
            last = begin
            for match in find(self.characters[begin:end]):
                first, behind = match.span()
                if first == behind:
                    continue
                if begin + first > last:
                    between.append(last)
                starts.append(begin + first)
                last = begin + behind
            if last < end:
                between.append(last)
        return self.byte_of[np.sort(starts + between)], self.byte_of[between]

    def text_at(self, byte: int) -> str:
        index = int(np.searchsorted(self.spans[:, 0], byte, "right")) - 1
        while self.spans[index, 0] == self.spans[index, 1]:
            index -= 1
        return self.characters[self.edges[index] : self.edges[index + 1]]


def assert_cut_alike(texts: list[str], pattern: SplitPattern) -> int:
    joined = Joined(texts)
    expected, between = joined.expected(pattern)
    starts, dropped = mark_kept_and_dropped(joined.text, joined.spans, pattern)
    marked = [("marked", positions(starts), expected)]
    if pattern.drops_gaps:
        marked.append(("dropped", positions(dropped), between))
    if (automaton := pattern.automaton) is not None:
        again = np.zeros(starts.size, np.uint64)
        gaps = np.zeros(starts.size, np.uint64)
        assert automaton.mark(joined.text, joined.spans, again, gaps)
        marked.append(("by the automaton", positions(again), expected))
        marked.append(("left out by the automaton", positions(gaps), between))
    for what, found, wanted in marked:
        wrong = np.setxor1d(found, wanted)
        assert not wrong.size, (pattern.name, what, joined.text_at(int(wrong[0])))
    return len(expected)


def assert_no_cut_changes_anything(texts: list[str], pattern: SplitPattern) -> int:
    """Part the texts, all at once, at legal places, and compare the pre-tokens."""
    joined = Joined(texts)
    whole, dropped = mark_kept_and_dropped(joined.text, joined.spans, pattern)
    if pattern.cut_pairs is None:
        return 0
    points = np.frombuffer(joined.characters.encode("utf-32-le"), np.uint32)
    classes = pattern.cut_pairs.class_of_point[points]
    legal = np.flatnonzero(pattern.cut_pairs.legal[classes[:-1], classes[1:]]) + 1
    inner = np.setdiff1d(joined.byte_of[legal], joined.spans.ravel())
    # Some of them alone, too: each part then ends and begins at places of other kinds.
    for chosen in (inner, inner[::2], inner[1::3]):
        edges = np.union1d(chosen, joined.spans.ravel())
        parts = np.stack((edges[:-1], edges[1:]), axis=1)
        starts, left_out = mark_kept_and_dropped(joined.text, parts, pattern)
        wrong = np.setxor1d(positions(starts), positions(whole))
        assert not wrong.size, (pattern.regex, joined.text_at(int(wrong[0])))
        assert (left_out == dropped).all()
    return len(inner)


def batches(texts: int, seed: int) -> list[list[str]]:
    source = tempting_texts(seed)
    return [list(islice(source, min(AT_ONCE, texts - at))) for at in range(0, texts, AT_ONCE)]


@pytest.mark.parametrize("name", NAMES)
def test_tempting_texts_are_cut_as_regex_cuts_them(name: str) -> None:
    texts = list(islice(tempting_texts(11), 4_000))
    assert assert_cut_alike(texts, SplitPattern.named(name)) > 10_000


@pytest.mark.parametrize("pattern", [*NAMES, *USERS])
def test_no_legal_cut_changes_a_pre_token(pattern: str) -> None:
    split_pattern = SplitPattern.parse(pattern)
    [texts] = batches(AT_ONCE, 12)
    cuts = assert_no_cut_changes_anything(texts, split_pattern)
    assert cuts > 10_000 if pattern not in HARDLY_CUT else cuts < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_million_tempting_texts_are_cut_as_regex_cuts_them(
    name: str, many_texts: tuple[int, int]
) -> None:
    number, seed = many_texts
    source = tempting_texts(seed)
    for at in range(0, number, AT_ONCE):
        texts = list(islice(source, min(AT_ONCE, number - at)))
        assert_cut_alike(texts, SplitPattern.named(name))
        assert_no_cut_changes_anything(texts, SplitPattern.named(name))
