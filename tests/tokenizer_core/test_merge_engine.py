"""The merge engine learns what the reference learns, tie by tie."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import CorpusError
from bpeline.tokenizer_core.kernels.merging import merge_state
from bpeline.tokenizer_core.merging import merge_engine
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, SymbolWords, byte_words
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS, byte_order

ALPHABETS = (b"ab", b"abc", b"xy", b"a", b" a!", b"\x00\x01", b"\xff\x00a", b"~\xa1")


def engine_over(
    words: Mapping[bytes, int] | WordCounts,
    tie_break: str,
    min_count: int = 2,
    max_token_bytes: int | None = None,
    free_application: bool = False,
) -> MergeEngine:
    counts = words if isinstance(words, WordCounts) else WordCounts.from_mapping(words)
    return MergeEngine(
        byte_words(counts, tie_break),
        tie_break=tie_break,
        min_count=min_count,
        max_length=max_token_bytes,
        free_application=free_application,
    )


def learned_pairs(engine: MergeEngine) -> list[tuple[bytes, bytes]]:
    return [(engine.token(left), engine.token(right)) for left, right, _ in engine.learned.tolist()]


def tempting_words(source: random.Random) -> dict[bytes, int]:
    """A few short words over two or three letters: runs, overlaps and equal counts abound."""
    alphabet = source.choice(ALPHABETS)
    words: dict[bytes, int] = {}
    for _ in range(source.randrange(1, 8)):
        piece = bytes(source.choice(alphabet) for _ in range(source.randrange(1, 5)))
        word = piece * source.randrange(1, 5) + bytes(
            source.choice(alphabet) for _ in range(source.randrange(3))
        )
        words[word] = source.randrange(1, 4)
    return words


def see_few_pairs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair is in sight that occurs half as often as the most frequent one, unless ties do."""
    monkeypatch.setattr(merge_engine, "_FEW_OCCURRENCES", 0)
    monkeypatch.setattr(merge_engine, "_BYTES_PER_SYMBOL", 0)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_growing_one_step_at_a_time_changes_nothing(
    tie_break: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_engine, "_FIRST_TOKENS", 256)
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 1)
    see_few_pairs_at_a_time(monkeypatch)
    source = random.Random(3)
    words = {
        bytes(source.choice(b"abcde ") for _ in range(source.randrange(2, 12))): source.randrange(9)
        + 1
        for _ in range(150)
    }
    engine = engine_over(words, tie_break, min_count=2)
    for goal in range(1, 400):
        if not engine.learn(goal):
            break
    assert engine.merges_done > 256
    assert learned_pairs(engine) == reference.train(words, 400, tie_break=tie_break)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_tokens_that_share_long_beginnings_are_told_apart(tie_break: str) -> None:
    stem = b"0123456789abcdef"
    words = {
        b" ".join([stem + b"a", stem + b"b"]): 2,
        stem + b"aa" + stem: 2,
        stem + stem: 3,
        stem + b"\x00": 2,
        stem[:9]: 2,
    }
    engine = engine_over(words, tie_break, min_count=1)
    engine.learn(200)
    assert learned_pairs(engine) == reference.train(words, 200, tie_break=tie_break, min_count=1)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize("word", [b"a" * 10_000, b"ab" * 5_000, b"aab" * 3_000, b"xyxyy" * 1_000])
def test_runs_merge_as_the_reference_merges_them(tie_break: str, word: bytes) -> None:
    engine = engine_over({word: 1}, tie_break, min_count=2)
    engine.learn(25)
    assert learned_pairs(engine) == reference.train({word: 1}, 25, tie_break=tie_break)


def test_a_run_counts_every_overlapping_pair() -> None:
    engine = engine_over({b"aaaa": 5}, "first-seen", min_count=1)
    engine.learn(2)
    assert engine.learned[:, 2].tolist() == [15, 5]


def test_a_word_of_a_million_bytes_is_merged_to_its_end() -> None:
    word = b"ab" * 500_000
    engine = engine_over({word: 1}, "smallest-ids", min_count=2)
    engine.learn(10_000)
    assert engine.merges_done == 19  # ab, abab, … until a pair occurs once


SUMS = [2**31 - 1, 2**31, 2**32 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**60, 2**61]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize("count", SUMS)
def test_counts_are_exact_where_narrower_numbers_are_not(tie_break: str, count: int) -> None:
    words = {b"ab": count, b"cd": count + 1, b"ef": count - 1, b"gh": 3, b"ghi": 1}
    engine = engine_over(words, tie_break, min_count=2)
    engine.learn(9)
    assert learned_pairs(engine) == reference.train(words, 9, tie_break=tie_break)
    assert engine.learned[:3, 2].tolist() == [count + 1, count, count - 1]


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ({b"ab": 2**63 - 1}, True),
        ({b"a": 2**63 - 1, b"ab": 2**63 - 1}, True),  # a single byte holds no pair
        ({b"abc": 2**62 - 1, b"ab": 1}, True),  # 2^63 - 1 pairs in all
        ({b"abc": 2**62 - 1, b"ab": 2}, False),  # 2^63
        ({b"ab": 2**62, b"cd": 2**62}, False),
        ({b"aaaaa": 2**61}, False),
        ({b"a" * 100: 2**62, b"b" * 100: 2**62}, False),
    ],
)
def test_sums_beyond_64_bits_are_refused_before_training(
    words: Mapping[bytes, int], fits: bool
) -> None:
    counts = WordCounts.from_mapping(words)
    if fits:
        engine = engine_over(counts, "smallest-ids", min_count=1)
        engine.learn(3)
        assert learned_pairs(engine) == reference.train(words, 3, min_count=1)
        return
    with pytest.raises(CorpusError, match="64-bit"):
        engine_over(counts, "smallest-ids", min_count=1)


def test_words_that_do_not_occur_and_single_bytes_leave_no_trace() -> None:
    counts = WordCounts(
        np.frombuffer(bytearray(b"xyaabq"), np.uint8),
        np.array([0, 2, 3, 5, 6], np.int64),
        np.array([0, 9, 2, 9], np.int64),
        np.arange(4, dtype=np.int64),
    )
    for tie_break in TIE_BREAKS:
        engine = engine_over(counts, tie_break, min_count=1)
        assert not engine.learn(5)
        assert learned_pairs(engine) == [(b"a", b"b")]


def test_nothing_to_merge_is_no_error() -> None:
    engine = engine_over({}, "first-seen", min_count=1)
    assert not engine.learn(1)
    assert engine.learn(0)
    assert engine.merges_done == 0


def test_read_only_word_counts_are_accepted() -> None:
    counts = WordCounts.from_mapping({b"abab": 2})
    frozen = counts.word_bytes.copy()
    frozen.flags.writeable = False
    engine = engine_over(
        WordCounts(frozen, counts.offsets, counts.counts, counts.first_positions), "smallest-ids"
    )
    engine.learn(1)
    assert learned_pairs(engine) == [(b"a", b"b")]


def merged_then_learned(
    words: Mapping[bytes, int], given: list[tuple[int, int]], goal: int, min_count: int
) -> list[tuple[int, int, int]]:
    """The plainest extension: apply the given merges, then learn on, smallest ids first.

    Works on ids: given merges may make one spelling in two ways, which bytes cannot tell.
    """
    ids = {byte: index for index, byte in enumerate(byte_order("smallest-ids"))}
    segments = [([ids[byte] for byte in word], count) for word, count in words.items()]
    made: list[tuple[int, int, int]] = []
    while len(made) < goal:
        pairs: dict[tuple[int, int], int] = {}
        for symbols, count in segments:
            for index in range(len(symbols) - 1):
                pair = symbols[index], symbols[index + 1]
                pairs[pair] = pairs.get(pair, 0) + count
        if len(made) < len(given):
            best = given[len(made)]
        else:
            left = {pair for pair, count in pairs.items() if count >= min_count}
            if not left:
                break
            best = min(left, key=lambda pair: (-pairs[pair], pair))
        for symbols, _ in segments:
            index = 0
            while index < len(symbols) - 1:
                if (symbols[index], symbols[index + 1]) == best:
                    symbols[index : index + 2] = [256 + len(made)]
                index += 1
        made.append((*best, pairs.get(best, 0)))
    return made


def test_foreign_merges_are_applied_whether_or_not_they_occur() -> None:
    for seed in range(400):
        source = random.Random(seed)
        words = tempting_words(source)
        bytes_used = [*sorted({byte for word in words for byte in word}), ord("q")]
        order = byte_order("smallest-ids")
        tokens = [order.index(byte) for byte in bytes_used]
        given: list[tuple[int, int]] = []
        for _ in range(source.randrange(6)):
            pair = source.choice(tokens), source.choice(tokens)
            if pair not in given:
                tokens.append(256 + len(given))
                given.append(pair)
        engine = engine_over(words, "smallest-ids", free_application=True)
        engine.apply(np.array(given, np.int64).reshape(-1, 2), len(given))
        engine.learn(30)
        assert [tuple(row) for row in engine.learned.tolist()] == merged_then_learned(
            words, given, 30, 2
        ), (seed, words, given)


def words_of_characters(words: Mapping[str, int], shift: int) -> SymbolWords:
    """Each character is the base token of its code point less ``shift``."""
    content = "".join(words)
    ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
    base = max(map(ord, content)) - shift + 1
    return SymbolWords(
        np.array([ord(character) - shift for character in content], np.int32),
        ends,
        np.array(list(words.values()), np.int64),
        np.arange(len(words), dtype=np.int64),
        np.arange(base, dtype=np.int32),
        tuple(chr(shift + number).encode() for number in range(base)),
    )


def merged_symbols(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    at = 0
    while at < len(symbols):
        width = 2 if tuple(symbols[at : at + 2]) == pair else 1
        merged.append("".join(symbols[at : at + width]))
        at += width
    return merged


def plainest(words: Mapping[str, int], goal: int, tie_break: str) -> list[tuple[str, str]]:
    """Pairs of strings merged as `reference.train` merges pairs of bytes."""
    segments = [(list(word), count) for word, count in words.items()]
    base = max(max(map(ord, word)) for word in words) + 1
    ids = {chr(number): number for number in range(base)}
    made: list[tuple[str, str]] = []
    while len(made) < goal:
        pairs: dict[tuple[str, str], int] = {}
        for symbols, count in segments:
            for pair in pairwise(symbols):
                pairs[pair] = pairs.get(pair, 0) + count
        tied = [pair for pair, count in pairs.items() if count == max(pairs.values())]
        if not tied or max(pairs.values()) < 2:
            break
        best = {
            "smallest-ids": min(tied, key=lambda pair: (ids[pair[0]], ids[pair[1]])),
            "greatest-bytes": max(tied, key=lambda pair: (pair[0].encode(), pair[1].encode())),
            "first-seen": tied[0],
        }[tie_break]
        ids["".join(best)] = base + len(made)
        made.append(best)
        segments = [(merged_symbols(symbols, best), count) for symbols, count in segments]
    return made


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@pytest.mark.parametrize("dense", [False, True])
def test_an_alphabet_of_characters_is_merged_as_one_of_bytes(
    tie_break: str, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dense:
        monkeypatch.setattr(merge_engine, "_DENSE", 0)
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 4)
    see_few_pairs_at_a_time(monkeypatch)
    for seed in range(60):
        source = random.Random(seed)
        shift = source.choice([0x4E00 - 600, 0])
        alphabet = [chr(shift + 600 + number) for number in (0, 1, 2, 255, 256, 300)]
        words = {
            "".join(source.choices(alphabet, k=source.randrange(1, 9))): source.randrange(1, 4)
            for _ in range(12)
        }
        engine = MergeEngine(words_of_characters(words, shift), tie_break=tie_break, min_count=2)
        engine.learn(40)
        expected = plainest(words, 40, tie_break)
        assert learned_pairs(engine) == [(a.encode(), b.encode()) for a, b in expected], seed


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_bytes_give_the_same_merges_as_a_large_alphabet(
    tie_break: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_engine, "_DENSE", 255)
    see_few_pairs_at_a_time(monkeypatch)
    for seed in range(200):
        words = tempting_words(random.Random(seed))
        engine = engine_over(words, tie_break)
        engine.learn(40)
        assert learned_pairs(engine) == reference.train(words, 40, tie_break=tie_break)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_cells_grow_wider_while_merging(tie_break: str, monkeypatch: pytest.MonkeyPatch) -> None:
    see_few_pairs_at_a_time(monkeypatch)
    base = merge_state.NARROW - 20
    for seed in range(3):
        source = np.random.default_rng(seed)
        content = source.zipf(1.3, 4_000).astype(np.int32) % 40
        offsets = np.arange(0, 4_001, 8, dtype=np.int64)
        counts = source.integers(1, 4, 500)
        tokens = tuple(number.to_bytes(4, "big") for number in range(base))
        learned = []
        for first, number in ((0, 40), (base - 40, base)):
            words = SymbolWords(
                content + np.int32(first),
                offsets,
                counts,
                np.arange(500, dtype=np.int64),
                np.arange(number, dtype=np.int32),
                tokens[:number],
            )
            engine = MergeEngine(words, tie_break=tie_break, min_count=2)
            engine.learn(150)
            rows = engine.learned.copy()
            rows[:, :2] -= first
            learned.append(rows.tolist())
        assert len(learned[0]) == 150
        assert learned[0] == learned[1]


def test_a_hundred_thousand_base_tokens_are_not_too_many() -> None:
    base, shift = 100_000, 0x20
    source = np.random.default_rng(1)
    content = source.integers(0, base, 40_000).astype(np.int32)
    content[::2] = content[0]
    words = SymbolWords(
        content,
        np.arange(0, 40_001, 10, dtype=np.int64),
        np.full(4_000, 3, np.int64),
        np.arange(4_000, dtype=np.int64),
        np.arange(base, dtype=np.int32),
        tuple(str(shift + number).encode() for number in range(base)),
    )
    for tie_break in TIE_BREAKS:
        engine = MergeEngine(words, tie_break=tie_break, min_count=2)
        assert engine.learn(5_000)
        assert engine.learned[0, 2] >= engine.learned[-1, 2] >= 2


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_counts_of_every_size_are_queued_in_order(tie_break: str) -> None:
    """Counts around the edges of the queue's classes, and many within one."""
    for seed in range(40):
        source = random.Random(seed)
        around = source.choice([4, 1020, 1024, 2040, 2**20, 2**31, 2**53, 2**57])
        letters = [bytes([letter]) for letter in b"abcdef"]
        words = {
            b"".join(source.choices(letters, k=source.randrange(2, 7))): max(
                1, around + source.randrange(-3, 4)
            )
            for _ in range(14)
        }
        engine = engine_over(words, tie_break)
        engine.learn(60)
        assert learned_pairs(engine) == reference.train(words, 60, tie_break=tie_break), words
        counts = engine.learned[:, 2].tolist()
        assert counts == sorted(counts, reverse=True)
