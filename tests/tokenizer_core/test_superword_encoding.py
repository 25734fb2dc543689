"""Superwords are encoded by way of words: the cuts of the regex, and the ids of plain merging."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from tempting_texts import tempting_texts

from bpeline.tokenizer_core import Tokenizer, count_texts, reference, train_bpe
from bpeline.tokenizer_core.encoding import BytePairEncoder, SuperwordEncoder
from bpeline.tokenizer_core.splitting import SUPERWORDS, SplitPattern
from bpeline.tokenizer_core.splitting.pretokenization import Splitter
from bpeline.tokenizer_core.splitting.regex_processes import mark_by_regex
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.training.extension import superword_lines, train_superbpe

PIECES = [
    *("a", " ", "  ", "   ", "\n", "\r\n", "1", "22", "٣", "Ⅷ", "/", "//", "!", "?", "…", "“", "”"),
    *("🙂", "\u0301", "\u3000", "\t", "é", "漢", " the", "!!", "\x00", "\x1c", "\x85", "#", "/\n/"),
    *("x" * 50, " " * 60, "!" * 63, "1" * 61),
]
Merges = list[tuple[int, int]]  # merge k makes token 256 + k


def spans_of(content: bytes, random: Random) -> NDArray[np.int64]:
    """All of a text, or parts of it, between characters; the first part may be left out."""
    places = [random.randint(0, len(content)) for _ in range(random.choice([0, 0, 3]))]
    between = [at for at in places if at == len(content) or content[at] & 0xC0 != 0x80]
    edges = sorted({0, len(content), *between})
    spans = np.array([edges[:-1], edges[1:]], np.int64).T
    return np.ascontiguousarray(spans[random.choice([0, 0, 1]) if len(spans) > 1 else 0 :])


def check_cuts(content: bytes, spans: NDArray[np.int64], by_regex: bool) -> None:
    pattern, text = SplitPattern(SUPERWORDS), Text.of(content)
    found = Splitter(pattern).mark(text, spans)[0]
    expected = np.zeros_like(found)
    automaton = pattern.automaton
    assert automaton is not None
    assert automaton.mark(text, spans, expected, np.zeros(0, np.uint64))
    assert found.tolist() == expected.tolist(), (content, spans.tolist())
    if by_regex:
        expected[:] = 0
        mark_by_regex(text, spans, SUPERWORDS, expected)
        assert found.tolist() == expected.tolist(), (content, spans.tolist())


def test_the_kernel_cuts_as_the_automaton_and_the_regex(seed: int) -> None:
    random = Random(seed)
    assert SplitPattern(SUPERWORDS).compiled_by == "kernel"
    for case in range(3000):
        weights = [random.random() ** 3 for _ in PIECES]
        content = "".join(random.choices(PIECES, weights, k=random.randint(1, 60))).encode()
        check_cuts(content, spans_of(content, random), by_regex=case % 100 == 0)
    for text in islice(tempting_texts(seed), 300):
        check_cuts(text.encode(), np.array([[0, len(text.encode())]]), by_regex=True)


def random_merges(random: Random, words: int, superwords: int) -> Merges:
    """Merges that each make another token; the first ones join no letter and a space behind it."""
    tokens = [bytes([byte]) for byte in range(256)]
    known, merges = set(tokens), Merges()
    letters = [tokens.index(letter) for letter in (b"a", b"b", b" ", b"\n", b"\xc3", b"\xa9")]
    while len(merges) < words + superwords:
        choice = [*letters, *range(256, len(tokens))]
        left, right = random.choice(choice), random.choice(choice)
        token = tokens[left] + tokens[right]
        crosses = any(letter + b" " in token for letter in (b"a", b"b"))
        if token in known or len(token) > 40 or (crosses and len(merges) < words):
            continue
        known.add(token)
        tokens.append(token)
        merges.append((left, right))
    return merges


def encoder_of(merges: Merges) -> SuperwordEncoder:
    left, right = np.ascontiguousarray(np.array(merges, np.int64).reshape(-1, 2).T)
    results = np.arange(256, 256 + len(merges))
    return SuperwordEncoder(np.arange(256), left, right, results, SplitPattern(r"[^\n]*\n"))


def merged(word: bytes, merges: Merges) -> list[int]:
    ranks: dict[tuple[bytes, bytes], int] = {}
    tokens = [bytes([byte]) for byte in range(256)]
    for rank, (left, right) in enumerate(merges):
        ranks[tokens[left], tokens[right]] = rank
        tokens.append(tokens[left] + tokens[right])
    ids = {token: id_ for id_, token in enumerate(tokens)}
    return [ids[token] for token in reference.merge_word(word, ranks)]


def encoded(encoder: BytePairEncoder, words: Sequence[bytes]) -> list[list[int]]:
    ids, ends = encoder.encode_words(words)
    return [part.tolist() for part in np.split(ids, ends[:-1])]


@pytest.mark.parametrize("case", range(60))
def test_ids_are_those_of_the_reference(case: int, seed: int) -> None:
    random = Random(seed + case)
    merges = random_merges(random, random.randint(4, 30), random.choice([0, 1, 3, 12]))
    encoder = encoder_of(merges)
    pieces = ["a", "b", " ", "\n", "é", " a", "ab", " ba", "c"]
    words = [
        "".join(random.choices(pieces, k=random.randint(1, size))).encode()
        for size in (3, 10, 30, 200)
        for _ in range(5)
    ]
    assert encoded(encoder, words) == [merged(word, merges) for word in words]
    assert encoder._layers is not None or not encoder.merges_once


def test_a_run_of_many_tokens() -> None:
    """`a b a b …` is one run: each of its tokens may be joined with the next."""
    merges = [(ord(" "), ord("b")), (ord(" "), ord("a")), (257, 256), (ord("a"), 256), (258, 258)]
    encoder = encoder_of(merges)
    assert encoder._layers is not None
    assert len(encoder._layers.words.merge_ids[0]) == 2
    for pairs in (1, 32, 33, 500):
        for word in (b"a b" * pairs, b" a b" * pairs, b"c a b" * 3 + b" a b" * pairs + b" a"):
            assert encoded(encoder, [word]) == [merged(word, merges)]
    many = [b" a b" * size for size in (3, 100, 2000, 40, 9000)]  # it asks for room, and again
    assert encoded(encoder, many) == [merged(word, merges) for word in many]


@pytest.fixture(scope="module")
def superwords(english_and_code: str) -> Tokenizer:
    texts = english_and_code.split("\n\n")
    base = train_bpe(count_texts(texts, "gpt2"), 1500)
    lines = count_texts(texts, superword_lines())
    return train_superbpe(base, lines, 2000, transition_size=1200)


def test_real_text(superwords: Tokenizer, english_and_code: str) -> None:
    encoder = superwords.encoder
    assert isinstance(encoder, SuperwordEncoder)
    assert encoder._layers is not None
    content = english_and_code.encode()
    text, span = Text.of(content), np.array([[0, len(content)]], np.int64)
    nothing = np.full(1, -1, np.int64)
    ids, ends = encoder.encode(text, span, nothing)
    marks = Splitter(superwords.pattern).mark(text, span)[0]
    expected, _ = BytePairEncoder.encode_marked(encoder, text, marks, span, nothing)
    assert ids.tolist() == expected.tolist()
    assert ends.tolist() == [len(ids)]
    assert any(b" " in superwords.vocab[id_].strip(b" ") for id_ in set(ids.tolist()))


def test_spans_and_what_stands_behind_them(superwords: Tokenizer, seed: int) -> None:
    random = Random(seed)
    encoder = superwords.encoder
    assert isinstance(encoder, SuperwordEncoder)
    for _ in range(50):
        content = " ".join(random.choices(["of the", "if not", "é", "in a", "12", "self."], k=30))
        text, size = Text.of(content.encode()), len(content.encode())
        spans = spans_of(content.encode(), random)
        behind = np.array([random.choice([-1, 7]) for _ in spans], np.int64)
        ids, ends = encoder.encode(text, spans, behind)
        marks = Splitter(superwords.pattern).mark(text, spans)[0]
        plain = BytePairEncoder.encode_marked(encoder, text, marks, spans, behind)
        assert (ids.tolist(), ends.tolist()) == (plain[0].tolist(), plain[1].tolist()), size


def test_words_that_are_taken_whole_are_not_cut() -> None:
    merges = [(ord(" "), ord("b")), (ord("a"), 256)]
    encoder = encoder_of(merges)
    assert encoded(encoder, [b"a ba b"]) == [[257, 257]]
    encoder.add_whole_words({b"a ba b": 300})
    assert encoded(encoder, [b"a ba b", b"a b"]) == [[300], [257]]


def test_merges_without_layers_are_merged_at_once() -> None:
    """Tokens across a space come first: there are no words to begin with."""
    merges = [(ord("a"), ord(" ")), *((ord("c"), byte) for byte in range(100, 120))]
    encoder = encoder_of(merges)
    assert encoder._layers is None
    assert encoded(encoder, [b"a a cdce"]) == [merged(b"a a cdce", merges)]
