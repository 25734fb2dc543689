"""Counting one text: equal to a plain Counter, word by word, position by position."""

from __future__ import annotations

import random
import string
import time
from collections import Counter

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.corpus.chunking import Chunk
from bpeline.tokenizer_core.corpus.documents import ChunkText, documents_between
from bpeline.tokenizer_core.corpus.reading import SECTION_BYTES, ReadOptions, hold_out, sections_of
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.counting import chunk_counts
from bpeline.tokenizer_core.counting.chunk_counts import (
    combine_word_counts,
    count_chunk,
    count_spans,
)
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s
from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
from bpeline.tokenizer_core.kernels.tables.word_keys import find_entry, table_shift
from bpeline.tokenizer_core.splitting.cuts import Cuts
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

GPT2 = SplitPattern.named("gpt2")
LETTERS = SplitPattern(regex=r"[a-z]+|[^a-z]")
SPECIALS = ("<|end|>", "<|end|><|of|>", "<|of|>", "a b", "\n\n")
CHUNK = Chunk(SourceFile("/corpus.txt", "corpus", "text", None, 0, 0, 0, 0), 0, 0, 0, "0" * 64)
TEMPTING = [
    "",
    " ",
    "a",
    "\n",
    "don't we'll  they've\t\tI'd 's'",
    "x" * 14 + " " + "x" * 15 + " " + "x" * 16 + " " + "x" * 17,
    "the-same-sixteen-bytes-then-A the-same-sixteen-bytes-then-B the-same-sixteen-bytes-then-A",
    "zero\0inside \0 \0\0 zero\0inside zero",
    "日本語 テキスト é e\u0301 \u00a0\u2028 \ufeff x\U0001f600y",
    "12345 6 78 a1b2",
    "one<|end|>two<|end|><|of|>three<|end|<|of|>",
    "<|end|><|end|>",
    " lead" * 40 + "  trail  ",
]


def words_of(counts: WordCounts) -> dict[bytes, int]:
    return counts.to_mapping()


def count(content: str | bytes, pattern: SplitPattern = GPT2) -> WordCounts:
    raw = content.encode() if isinstance(content, str) else content
    return count_spans(Text.of(raw), np.array([[0, len(raw)]], np.int64), pattern)


def random_text(source: random.Random, pieces: int) -> str:
    alphabet = [*"ab AB1 \n\t'", " ", "  ", "é", "日本", "\0", *SPECIALS, "word ", "<|en", "'ll"]
    return "".join(source.choices(alphabet, k=pieces))


def positions_of(counts: WordCounts) -> dict[bytes, int]:
    return dict(zip(counts.words(), counts.first_positions.tolist(), strict=True))


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"[a-z]+|[^a-z]"])
def test_counts_equal_a_counter_over_the_pre_tokens(pattern: str) -> None:
    split = SplitPattern.parse(pattern)
    source = random.Random(pattern)
    for content in [*TEMPTING, *(random_text(source, 200) for _ in range(40))]:
        expected = Counter(word.encode() for word in reference.split(content, split.regex))
        assert words_of(count(content, split)) == expected


def test_rows_stand_in_order_of_sight_with_their_first_positions() -> None:
    content = random_text(random.Random(3), 20_000)
    positions, place = dict[bytes, int](), 0
    for word in reference.split(content, GPT2.regex):
        positions.setdefault(word.encode(), place)
        place += len(word.encode())
    assert list(positions_of(count(content)).items()) == list(positions.items())


@pytest.mark.parametrize("length", range(1, 40))
def test_words_that_differ_in_their_last_or_first_byte_are_two(length: int) -> None:
    base = b"m" * length
    words = {base, b"a" + base[1:], base[:-1] + b"z", base + b"m"}
    counts = words_of(count(b"|".join(sorted(words) * 3), LETTERS))
    assert {word: counts[word] for word in words} == dict.fromkeys(words, 3)


@entry_kernel
def _find_entry(table: U64s, entry: I64, low: U64, high: U64, text: I64, address: I64) -> I64:
    return find_entry(entry, table_shift(table), low, high, np.uint64(0), text, address)


def test_long_words_with_equal_keys_are_told_apart_by_their_text() -> None:
    one, other = b"q" * 40 + b"1", b"q" * 40 + b"2"
    text = Text.of(one + other + one)
    base, table = text.data.ctypes.data, np.zeros(4 * 16, np.uint64)
    low = np.uint64(7)
    high = np.uint64(0xFF << 56 | len(one))  # as if both words had this key
    entry = table.ctypes.data
    table[:4] = low, high, 1, 0  # the first word, at byte 0 of the text

    def found(place: int) -> int:
        return int(_find_entry(table, entry, low, high, base, base + place))

    assert found(0) == entry
    assert found(2 * len(one)) == entry
    assert found(len(one)) == entry + 32  # the next, empty entry


def test_the_table_grows_and_loses_nothing() -> None:
    source = random.Random(5)
    words = [source.randbytes(source.randint(1, 20)).hex().encode() for _ in range(30_000)]
    pattern = SplitPattern(regex=r"\w+|\W")
    raw = b" ".join(words * 2)
    assert words_of(count(raw, pattern)) == Counter(words * 2) | Counter({b" ": 2 * len(words) - 1})


def test_hot_words_survive_being_pushed_out_of_the_front_table() -> None:
    rare = [f"w{number}" for number in range(20_000)]
    content = " ".join(f"hot {word} hot" for word in rare)
    expected = Counter(word.encode() for word in reference.split(content, GPT2.regex))
    assert words_of(count(content)) == expected


@pytest.mark.parametrize("pattern", [GPT2, LETTERS])
def test_a_full_table_makes_several_parts_whose_sum_is_exact(pattern: SplitPattern) -> None:
    source = random.Random(9)
    pieces = ["hot", " ", "x" * 30]
    letters = string.ascii_lowercase
    known = [" q" + "".join(source.choices(letters, k=5)) for _ in range(40_000)]
    words = [source.choice(pieces) + source.choice(known) for _ in range(90_000)]
    raw = " ".join(words).encode()
    spans = np.array([[0, 1000], [1000, 1000], [1024, len(raw)]], np.int64)
    text = Text.of(raw)
    parts = count_spans(text, spans, pattern, table_bytes=0)
    whole = count_spans(text, spans, pattern)
    rows = parts.words()
    assert len(rows) > 1.1 * len(set(rows))  # words came back after the table was emptied
    assert len(set(whole.words())) == len(whole)
    added = combine_word_counts([parts])
    assert added.to_mapping() == whole.to_mapping()
    assert added.digest == whole.digest
    assert count_spans(text, spans, pattern, table_bytes=1 << 40).digest == whole.digest


def test_what_a_pattern_drops_is_not_counted() -> None:
    pattern = SplitPattern.named("whitespace")
    content = "  low lower\t\nlow \u3000 日本 low" + " word" * 100
    for begin in (0, 1, 2, 5):
        raw = content.encode()
        counts = count_spans(Text.of(raw), np.array([[begin, len(raw)]], np.int64), pattern)
        kept = Counter(word.encode() for word in content[begin:].split())
        assert counts.to_mapping() == kept


def test_spans_are_counted_apart_and_what_lies_between_is_not() -> None:
    content = b"low lower" * 50
    spans = [(0, 0), (0, 3), (3, 3), (5, 64), (64, 65), (65, 128), (200, 450)]
    expected = Counter[bytes]()
    for begin, end in spans:
        expected.update(
            word.encode() for word in reference.split(content[begin:end].decode(), GPT2.regex)
        )
    counts = count_spans(Text.of(content), np.array(spans, np.int64), GPT2)
    assert words_of(counts) == expected


def test_words_of_many_megabytes_take_linear_time() -> None:
    def seconds(size: int) -> float:
        content = b"a" * size + b" " + b"a" * size + b" b" + b"a" * size
        began = time.process_time()
        counts = words_of(count(content))
        taken = time.process_time() - began
        assert counts == {b"a" * size: 1, b" " + b"a" * size: 1, b" b" + b"a" * size: 1}
        return taken

    seconds(1000)  # compile
    assert seconds(4_000_000) < 5  # quadratic would take hours


# ---- documents, special tokens --------------------------------------------------------------


def test_special_tokens_are_never_counted_and_never_joined_over() -> None:
    source = random.Random(11)
    for content in [*TEMPTING, *(random_text(source, 120) for _ in range(60))]:
        reading = ReadOptions(GPT2, SPECIALS)
        result = count_chunk(CHUNK, ChunkText.of(Text.of(content.encode())), reading)
        assert words_of(result.counts) == reference.count_words([content], GPT2.regex, SPECIALS)
        pieces = reference.cut_at_special_tokens(content, SPECIALS)
        assert result.documents == len([piece for piece in pieces if piece not in SPECIALS])
        assert result.special_tokens_seen == len([p for p in pieces if p in SPECIALS])
        special_bytes = sum(len(piece.encode()) for piece in pieces if piece in SPECIALS)
        assert result.bytes_counted + special_bytes == len(content.encode())
        assert result.counts.total_bytes == result.bytes_counted


def test_a_special_token_with_a_line_feed_is_not_found_between_two_records() -> None:
    text = ChunkText(
        Text.of(b"a\nb\nc\n\nd"),
        np.array([[0, 1], [2, 3], [4, 8]], np.int64),
        np.zeros((1, 2), int),
    )
    spans, seen = documents_between(text, (b"\nb", b"\n\n"))
    assert (spans.tolist(), seen) == ([[0, 1], [2, 3], [4, 5], [7, 8]], 1)


# ---- held-out sections ----------------------------------------------------------------------


def prose(seed: int, words: int) -> str:
    source = random.Random(seed)
    return " ".join(
        "".join(source.choices("abcdefgh", k=source.randint(1, 9))) for _ in range(words)
    )


def twin_fingerprint(content: bytes) -> int:
    """The fingerprint in plain Python: SplitMix64's finalizer over words of eight bytes."""
    mask, golden = 2**64 - 1, 0x9E3779B97F4A7C15

    def scramble(value: int) -> int:
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
        return value ^ (value >> 31)

    state = len(content) * golden & mask
    for place in range(0, len(content), 8):
        state = scramble(state ^ int.from_bytes(content[place : place + 8], "little")) + golden
        state &= mask
    return scramble(state)


def test_the_fingerprint_equals_its_twin() -> None:
    content = random.Random(2).randbytes(300) + bytes(40)
    spans = [(begin, begin + length) for begin in (0, 3, 290) for length in range(40)]
    fingerprints = np.empty(len(spans), np.uint64)
    fingerprint_spans(Text.of(content).data, np.array(spans, np.int64), fingerprints)
    assert fingerprints.tolist() == [twin_fingerprint(content[a:b]) for a, b in spans]
    for number in (1, 2, 4, 5):  # they are taken three at a time
        few = fingerprints[:number].copy()
        fingerprint_spans(Text.of(content).data, np.array(spans[:number], np.int64), few)
        assert few.tolist() == fingerprints[:number].tolist()
    assert len(set(fingerprints[-40:].tolist())) == 40  # zeros of different lengths differ


def test_sections_cover_a_document_and_end_at_legal_cuts() -> None:
    raw = prose(1, 60_000).encode()
    text = Text.of(raw)
    document = np.array([[5, len(raw)]], np.int64)
    legal = set(np.cumsum([len(word.encode()) for word in pre_tokens(raw.decode(), GPT2)]).tolist())
    sections = sections_of(text, document, GPT2.cut_pairs).tolist()
    assert len(sections) == -(-(len(raw) - 5) // (SECTION_BYTES + 8))
    assert [begin for begin, _ in sections[1:]] == [end for _, end in sections[:-1]]
    assert (sections[0][0], sections[-1][1]) == (5, len(raw))
    assert all(begin in legal for begin, _ in sections[1:])
    assert sections_of(text, document, None).tolist() == [[5, len(raw)]]


def test_sections_end_where_the_rules_of_cuts_allow_it() -> None:
    source = random.Random(31)
    pieces = [
        b"word",
        b" ",
        b"  ",
        b"\n ",
        b"\xc3\xa9",
        b" \xc3\xa9",
        b"\t",
        b"x y ",
        b"\0 ",
        b"\x7f",
    ]
    raw = b"".join(source.choices(pieces, [9, 1, 2, 2, 2, 2, 1, 1, 1, 1], k=40_000))
    edges = sorted(source.sample(range(len(raw)), 11))
    documents = np.array(edges[:-1] + edges[1:], np.int64).reshape(2, 10).T
    cuts, expected = Cuts(pairs=GPT2.cut_pairs), list[list[int]]()
    for begin, end in documents.tolist():
        while end - begin > SECTION_BYTES:
            known = begin + SECTION_BYTES - cuts.behind
            cut = cuts.first(raw[known:end], cuts.behind, end - known - cuts.ahead + 1)
            if cut < 0:
                break
            expected.append([begin, known + cut])
            begin = known + cut
        expected.append([begin, end])
    assert sections_of(Text.of(raw), documents, GPT2.cut_pairs).tolist() == expected
    assert len(expected) > 20


def test_chinese_text_has_sections_too() -> None:
    raw = "他们赋有理性和良心，并应以兄弟关系的精神相对待。".encode() * 1_000
    sections = sections_of(Text.of(raw), np.array([[0, len(raw)]], np.int64), GPT2.cut_pairs)
    sizes = np.diff(sections, axis=1).ravel()[:-1]
    assert SECTION_BYTES <= sizes.min() <= sizes.max() < SECTION_BYTES + 100


def test_text_without_any_cut_is_one_section() -> None:
    raw = b"\xe6\x97\xa5" * 50_000
    sections = sections_of(Text.of(raw), np.array([[0, len(raw)]], np.int64), GPT2.cut_pairs)
    assert sections.tolist() == [[0, len(raw)]]


@pytest.mark.night
def test_training_and_held_out_words_together_are_all_words() -> None:
    content = "<|end|>".join(prose(seed, 20_000) for seed in range(12))
    text = ChunkText.of(Text.of(content.encode()))
    result = count_chunk(CHUNK, text, ReadOptions(GPT2, ("<|end|>",), held_out=0.4))
    everything = count_chunk(CHUNK, text, ReadOptions(GPT2, ("<|end|>",)))
    assert not everything.held_out
    together = Counter(words_of(result.counts))
    for section in result.held_out:
        together.update(words_of(count(section)))
    assert together == words_of(everything.counts)
    share = sum(map(len, result.held_out)) / everything.bytes_counted
    assert 0.1 < share < 0.7
    assert result.bytes_counted + sum(map(len, result.held_out)) == everything.bytes_counted


@pytest.mark.parametrize("held_out", [0, 0.2])
@pytest.mark.parametrize("table_bytes", [0, 256 << 20])
@pytest.mark.parametrize("regex", ["", r"[a-z]+|[^a-z]", r"(\w)\1+|\w+?|\W"])
def test_how_far_counting_is_is_told_and_changes_nothing(
    held_out: float, table_bytes: int, regex: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_counts, "_STRIDE", 20_000)
    monkeypatch.setattr(chunk_counts, "_SLOW_STRIDE", 20_000)
    content = "<|end|>".join([prose(1, 30_000), *TEMPTING, prose(2, 3_000)])
    text = ChunkText.of(Text.of(content.encode()))
    pattern = SplitPattern(regex=regex) if regex else GPT2
    reading = ReadOptions(pattern, ("<|end|>",), held_out=held_out)
    told: list[int] = []
    result = count_chunk(CHUNK, text, reading, table_bytes, None, b"", told.append)
    silent = count_chunk(CHUNK, text, reading, table_bytes)
    assert (
        combine_word_counts([result.counts]).digest == combine_word_counts([silent.counts]).digest
    )
    assert result.held_out == silent.held_out
    assert result.bytes_counted == silent.bytes_counted
    if pattern.cut_pairs is not None:
        assert len(told) > 3
        assert max(told) < 20_000 + 2 * SECTION_BYTES
    assert sum(told) <= result.bytes_counted


def test_equal_documents_are_never_on_both_sides() -> None:
    documents = [prose(number % 50, 30) for number in range(200)]
    raw = "\n".join(documents).encode()
    edges = np.flatnonzero(np.frombuffer(raw + b"\n", np.uint8) == 10)
    begins = np.concatenate(([0], edges[:-1] + 1))
    spans = np.stack((begins, edges), axis=1).astype(np.int64)
    training, held_out = hold_out(Text.of(raw), spans, 2**63, GPT2.cut_pairs)
    left = {raw[begin:end] for begin, end in training.tolist()}
    right = {raw[begin:end] for begin, end in held_out.tolist()}
    assert left
    assert right
    assert not left & right
    assert len(left | right) == 50


@pytest.mark.parametrize("share", [0.01, 0.25, 0.9])
def test_the_held_out_share_is_about_what_was_asked_for(share: float) -> None:
    raw = random.Random(9).randbytes(40_000)
    spans = np.arange(40_001, dtype=np.int64)[: 40_000 // 10 * 10 : 10].repeat(2).reshape(-1, 2)
    spans[:, 1] += 10
    below = ReadOptions(GPT2, held_out=share).held_out_below
    _, held_out = hold_out(Text.of(raw), spans, below, None)
    assert abs(len(held_out) / len(spans) - share) < 0.03


def test_what_is_held_out_stays_so_when_text_is_appended() -> None:
    before = prose(3, 60_000)
    after = before + " " + prose(4, 60_000)
    reading = ReadOptions(GPT2, held_out=0.5)
    one, two = (
        count_chunk(CHUNK, ChunkText.of(Text.of(content.encode())), reading).held_out
        for content in (before, after)
    )
    if one and len(one[-1]) < SECTION_BYTES:  # the last section goes on growing
        one.pop()
    assert one
    assert two[: len(one)] == one
    assert len(two) > len(one)
