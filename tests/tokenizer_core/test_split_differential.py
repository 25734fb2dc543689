"""Kernels, automata and legal cuts against `regex`, on as many tempting texts as one likes.

A few thousand of them, the same in every run, and as many others as `amounts` says, which the seed
chooses: a million for each pattern at night.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import pytest
import regex
from amounts import Amounts
from tempting_texts import tempting_texts

from bpeline.tokenizer_core.splitting.pretokenization import mark_kept_and_dropped
from bpeline.tokenizer_core.splitting.regex_spellings import DROPPING_PATTERNS, NAMED_PATTERNS
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

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
        self.points = np.frombuffer(self.characters.encode("utf-32-le"), np.uint32)
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


def assert_equal(found: np.ndarray, wanted: np.ndarray, joined: Joined, what: str) -> None:
    """Two rows of places, each in order; names the text where they begin to differ."""
    if not np.array_equal(found, wanted):
        wrong = np.setxor1d(found, wanted)
        raise AssertionError(what, joined.text_at(int(wrong[0])))


def assert_cut_alike(joined: Joined, pattern: SplitPattern) -> int:
    expected, between = joined.expected(pattern)
    starts, dropped = mark_kept_and_dropped(joined.text, joined.spans, pattern)
    marked = [("marked", starts, expected)]
    if pattern.drops_gaps:
        marked.append(("dropped", dropped, between))
    if (automaton := pattern.automaton) is not None:
        again = np.zeros(starts.size, np.uint64)
        gaps = np.zeros(starts.size, np.uint64)
        assert automaton.mark(joined.text, joined.spans, again, gaps)
        marked.append(("by the automaton", again, expected))
        marked.append(("left out by the automaton", gaps, between))
    for what, found, wanted in marked:
        assert_equal(positions(found), wanted, joined, f"{pattern.regex}: {what}")
    return len(expected)


def assert_no_cut_changes_anything(joined: Joined, pattern: SplitPattern) -> int:
    """Part the texts, all at once, at legal places, and compare the pre-tokens."""
    whole, dropped = mark_kept_and_dropped(joined.text, joined.spans, pattern)
    if pattern.cut_pairs is None:
        return 0
    classes = pattern.cut_pairs.class_of_point[joined.points]
    legal = np.flatnonzero(pattern.cut_pairs.legal[classes[:-1], classes[1:]]) + 1
    of_spans = np.zeros(joined.text.size + 1, bool)
    of_spans[joined.spans] = True
    inner = joined.byte_of[legal]
    inner = inner[~of_spans[inner]]
    # Some of them alone, too: each part then ends and begins at places of other kinds.
    for chosen in (inner, inner[::2], inner[1::3]):
        edge = of_spans.copy()
        edge[chosen] = True
        edges = np.flatnonzero(edge)
        parts = np.stack((edges[:-1], edges[1:]), axis=1)
        starts, left_out = mark_kept_and_dropped(joined.text, parts, pattern)
        if not np.array_equal(starts, whole):
            assert_equal(positions(starts), positions(whole), joined, f"{pattern.regex}: cut")
        assert np.array_equal(left_out, dropped)
    return len(inner)


def joined_texts(texts: int, seed: int) -> Iterator[Joined]:
    """So many of the tempting texts, a batch at a time."""
    source = tempting_texts(seed)
    for at in range(0, texts, AT_ONCE):
        yield Joined(list(islice(source, min(AT_ONCE, texts - at))))


@pytest.fixture(scope="module")
def some_texts() -> Joined:
    [joined] = joined_texts(AT_ONCE, 12)
    return joined


@pytest.mark.parametrize("name", NAMES)
def test_tempting_texts_are_cut_as_regex_cuts_them(name: str) -> None:
    [joined] = joined_texts(4_000, 11)
    assert assert_cut_alike(joined, SplitPattern.named(name)) > 10_000


@pytest.mark.parametrize("pattern", [*NAMES, *USERS])
def test_no_legal_cut_changes_a_pre_token(pattern: str, some_texts: Joined) -> None:
    cuts = assert_no_cut_changes_anything(some_texts, SplitPattern.parse(pattern))
    assert cuts > 10_000 if pattern not in HARDLY_CUT else cuts < 1_000


@pytest.mark.night
def test_other_tempting_texts_are_cut_as_regex_cuts_them(amounts: Amounts, seed: int) -> None:
    """All patterns take the same texts."""
    for joined in joined_texts(amounts.split_texts, seed):
        for name in NAMES:
            assert_cut_alike(joined, SplitPattern.named(name))
            assert_no_cut_changes_anything(joined, SplitPattern.named(name))
