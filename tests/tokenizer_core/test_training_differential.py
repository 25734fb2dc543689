"""Training against `reference.py` and against itself, on as many tempting corpora as one likes.

`amounts` says how many, the seed which. Letters are two or three, counts are equal or stand at the
limits of number types: most disagreements live in ties.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from amounts import Amounts, numbers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.merging import merge_engine
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, SymbolWords, byte_words
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS, byte_order

Words = dict[bytes, int]
Merges = list[tuple[bytes, bytes]]

ALPHABETS = (b"ab", b"ab", b"abc", b"a", b" a!", b"\x00\x01", b"\xff\x00a", b"~\xa1", b"012789")
LARGE = (2**31 - 1, 2**31, 2**31 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**55)
THROUGH_ALL_BYTES = 4  # every so many corpora; the others spare the table of 256 x 256 pairs
MOST_MERGES = 40


@dataclass(frozen=True, slots=True)
class Corpus:
    """Words, what training is told of them, and the number that makes them again."""

    number: int
    words: Words
    tie_break: str
    merges: int
    min_count: int
    max_token_bytes: int | None

    @classmethod
    def of(cls, number: int) -> Corpus:
        source = random.Random(number)
        alphabet = source.choice(ALPHABETS)
        counts = source.choice(((1,), (1, 2), (1, 2, 3), (2, 4, 6), range(1, 50), LARGE))
        words: Words = {}
        for _ in range(source.randrange(1, 8)):
            piece = bytes(source.choices(alphabet, k=source.randrange(1, 5)))
            tail = bytes(source.choices(alphabet, k=source.randrange(3)))
            words[piece * source.randrange(1, 5) + tail] = source.choice(counts)
        return cls(
            number,
            words,
            source.choice(TIE_BREAKS),
            source.randrange(1, MOST_MERGES),
            source.choice((1, 1, 2, 2, 3, 5)),
            source.choice((None, None, None, 1, 2, 3, 4, 6)),
        )

    def engine(self, words: Words | None = None, times: int = 1) -> MergeEngine:
        """An engine over these or other words, every count (and the least) times a number."""
        counts = {word: count * times for word, count in (words or self.words).items()}
        return MergeEngine(
            self.symbols(counts),
            tie_break=self.tie_break,
            min_count=self.min_count * times,
            max_length=self.max_token_bytes,
        )

    def symbols(self, words: Words) -> SymbolWords:
        """Words over the 256 bytes as training has them, or over the letters they use."""
        counts = WordCounts.from_mapping(words)
        if self.number % THROUGH_ALL_BYTES == 0:
            return byte_words(counts, self.tie_break)
        used = set(b"".join(words))
        letters = [byte for byte in byte_order(self.tie_break) if byte in used]
        values = np.zeros(256, np.int32)
        values[letters] = np.arange(len(letters))
        return SymbolWords(
            values[counts.word_bytes],
            counts.offsets,
            counts.counts,
            counts.first_positions,
            np.arange(len(letters), dtype=np.int32),
            tuple(bytes([letter]) for letter in letters),
        )

    def learned(self, words: Words | None = None, times: int = 1) -> Merges:
        engine = self.engine(words, times)
        engine.learn(self.merges)
        return merges_of(engine)

    def expected(self) -> Merges:
        return reference.train(
            self.words,
            self.merges,
            tie_break=self.tie_break,
            min_count=self.min_count,
            max_token_bytes=self.max_token_bytes,
        )

    def __str__(self) -> str:
        return (
            f"REPRO: --point {self.number}: {self.words}, {self.tie_break}, "
            f"{self.merges} merges of {self.min_count} or more, {self.max_token_bytes} bytes"
        )


def merges_of(engine: MergeEngine) -> Merges:
    return [(engine.token(left), engine.token(right)) for left, right, _ in engine.learned.tolist()]


@pytest.fixture(scope="module")
def corpora(amounts: Amounts, seed: int, point: int) -> range:
    """Their numbers."""
    return numbers(seed, amounts.corpora, point)


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables grow by doubling: begun small, they cost little to make and grow in every corpus;
    and rare pairs are looked for late."""
    monkeypatch.setattr(merge_engine, "_FEW_OCCURRENCES", 4)
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 32)
    monkeypatch.setattr(merge_engine, "_FIRST_TOKENS", 32)


@pytest.mark.night
def test_tempting_corpora_give_the_merges_of_the_reference(corpora: range) -> None:
    for number in corpora:
        corpus = Corpus.of(number)
        assert corpus.learned() == corpus.expected(), corpus


def fewer_merges(corpus: Corpus, learned: Merges) -> None:
    """The merges of a smaller vocabulary are the first ones of a larger."""
    engine = corpus.engine()
    for goal in range(1, len(learned) + 1):
        engine.learn(goal)
        assert merges_of(engine) == learned[:goal], corpus


def multiplied(corpus: Corpus, learned: Merges) -> None:
    """All counts times a number, and the least count too: nothing changes."""
    assert corpus.learned(times=3) == learned, corpus


def shuffled(corpus: Corpus, learned: Merges) -> None:
    """The order of words decides nothing, except among equals by the order of sight."""
    if corpus.tie_break != "first-seen":
        items = list(corpus.words.items())
        random.Random(corpus.number).shuffle(items)
        assert corpus.learned(dict(items)) == learned, corpus


def unique_and_stable(corpus: Corpus, learned: Merges) -> None:
    """Learned tokens differ, and each is encoded as itself; replay and encoding by rank agree."""
    tokens = [left + right for left, right in learned]
    ranks = {pair: rank for rank, pair in enumerate(learned)}
    assert len(set(tokens)) == len(tokens), corpus
    for token in tokens:
        assert reference.merge_word(token, ranks) == (token,), corpus
    for word in corpus.words:
        symbols = tuple(bytes([byte]) for byte in word)
        for pair in learned:
            symbols = reference.merge_pair(symbols, pair)
        assert symbols == reference.merge_word(word, ranks), corpus
        assert all(pair not in ranks for pair in pairwise(symbols)), corpus


def gains_add_up(corpus: Corpus, learned: Merges) -> None:
    """Each merge takes as many tokens off the corpus as its recorded gain says."""
    del learned
    engine = corpus.engine()
    engine.learn(corpus.merges)
    words = {tuple(bytes([b]) for b in word): count for word, count in corpus.words.items()}
    for left, right, count in engine.learned.tolist():
        pair = engine.token(left), engine.token(right)
        assert reference.count_pairs(words)[pair] == count, corpus
        words = {reference.merge_pair(word, pair): n for word, n in words.items()}


def foreign_words(corpus: Corpus, learned: Merges) -> None:
    """A rare word over letters of its own leaves the merges before it as they were."""
    if corpus.min_count > 1 or not learned:
        return
    if corpus.tie_break == "first-seen":
        return
    fresh = next(b for b in range(0x80, 0x100) if not any(b in word for word in corpus.words))
    rare = {**{word: count * 100 for word, count in corpus.words.items()}, bytes([fresh] * 3): 1}
    assert corpus.learned(rare)[: len(learned)] == learned, corpus


LAWS: tuple[Callable[[Corpus, Merges], None], ...] = (
    fewer_merges, multiplied, shuffled, unique_and_stable, gains_add_up, foreign_words,
)  # fmt: skip


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws_hold_on_tempting_corpora(
    law: Callable[[Corpus, Merges], None], amounts: Amounts, seed: int, point: int
) -> None:
    for number in numbers(seed, amounts.laws, point):
        corpus = Corpus.of(number)
        if max(corpus.words.values()) < 2**40:  # leaves room for sums of multiples
            law(corpus, corpus.learned())
