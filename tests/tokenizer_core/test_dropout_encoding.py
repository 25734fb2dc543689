"""Encoding with dropout: its distribution, what it depends on, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise
from math import sqrt
from pathlib import Path
from random import Random

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tempting_texts import odd_texts

from bpeline import train_char_bpe
from bpeline.tokenizer_core import Tokenizer, WordCounts, count_texts, reference, train_bpe
from bpeline.tokenizer_core.corpus import find_source_files, sources_of
from bpeline.tokenizer_core.derived import DropoutEncoding
from bpeline.tokenizer_core.encoding.merge_encoding import merge_table
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    MOST_DROPPED,
    WAITING_SCRATCH,
    merge_with_dropout,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.reference import dropout_outcomes
from bpeline.tokenizer_core.shards import ShardJob, file_encoding_of, shard_format
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS, SUPERWORDS

MERGES = [(b"a", b"b"), (b"b", b"a"), (b"ab", b"a"), (b"ab", b"ab"), (b"a", b"a"), (b"aa", b"b")]
SAMPLES = 4_000


def of_merges(merges: list[tuple[bytes, bytes]], *, whole: tuple[bytes, ...] = ()) -> Tokenizer:
    made = [left + right for left, right in merges]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256 + at: token for at, token in enumerate(dict.fromkeys([*made, *whole]))}
    return Tokenizer(vocab, merges, ignore_merges=bool(whole))


@pytest.mark.parametrize(
    ("word", "dropout"),
    [
        *[(word, Fraction(1, 2)) for word in (b"ab", b"aaa", b"ababa", b"aabab", b"baaab")],
        *[(b"ababa", Fraction(tenths, 10)) for tenths in (1, 9)],
        *[(b"aabab", Fraction(tenths, 10)) for tenths in (1, 9)],
    ],
)
def test_every_outcome_is_as_frequent_as_its_probability(word: bytes, dropout: Fraction) -> None:
    tokenizer = of_merges(MERGES)
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}
    expected = dropout_outcomes(tuple(bytes([byte]) for byte in word), ranks, dropout)
    assert sum(expected.values()) == 1
    sampled = DropoutEncoding(tokenizer, float(dropout), seed=5)
    seen: dict[tuple[bytes, ...], int] = {}
    for sample in range(SAMPLES):
        outcome = tuple(tokenizer.vocab[id_] for id_ in sampled.encode(word.decode(), sample))
        seen[outcome] = seen.get(outcome, 0) + 1
    assert seen.keys() <= expected.keys()
    for outcome, probability in expected.items():
        mean = float(probability) * SAMPLES
        deviation = sqrt(mean * (1 - float(probability)))
        assert abs(seen.get(outcome, 0) - mean) <= 5 * deviation + 1, outcome


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.9, 1.0])
def test_the_kernel_is_the_reference_word_by_word(dropout: float, seed: int) -> None:
    """Of words of every length: merges that overlap, and ranks that a merge brings forward."""
    cases = Random(seed)
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}
    ids = {token: id_ for id_, token in of_merges(MERGES).vocab.items()}
    left, right = ([ids[pair[side]] for pair in MERGES] for side in (0, 1))
    results = np.array([ids[one + two] for one, two in MERGES])
    table = merge_table((np.array(left), np.array(right), results))
    words = ["".join(cases.choices("ab", k=cases.randint(1, 90))).encode() for _ in range(60)]
    streams = np.array([cases.getrandbits(64) for _ in words], np.uint64)
    edges = np.cumsum([0, *map(len, words)])
    found, ends = np.empty(edges[-1], np.uint32), np.empty(len(words), np.int64)
    merge_with_dropout(
        np.frombuffer(bytearray(b"".join(words)), np.uint8),
        edges[:-1].copy(),
        edges[1:].copy(),
        streams,
        np.uint64(dropout * MOST_DROPPED),
        np.arange(256, dtype=np.uint32),
        table,
        HASH_KEY,
        np.empty(WAITING_SCRATCH * 90 // 8 + 1, np.uint64),
        found,
        ends,
    )
    for word, stream, (begin, end) in zip(
        words, streams.tolist(), pairwise([0, *ends]), strict=True
    ):
        symbols = tuple(bytes([byte]) for byte in word)
        expected = reference.merge_with_dropout(symbols, ranks, dropout, stream)
        assert found[begin:end].tolist() == [ids[token] for token in expected]


def below(stream: int, number: int) -> int:
    """Where the random numbers of a part begin: SplitMix64, from those of the whole."""
    all_64 = (1 << 64) - 1
    mixed = ((stream ^ number) + 0x9E3779B97F4A7C15) & all_64
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & all_64
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & all_64
    return mixed ^ (mixed >> 31)


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", SUPERWORDS])
@pytest.mark.parametrize("dropout", [0.05, 0.5])
def test_odd_texts_are_encoded_as_by_the_reference(pattern: str, dropout: float, seed: int) -> None:
    """Every script, NULs, white space alone, CRLF, long words: each from its place in the text."""
    texts = list(islice(odd_texts(seed), 40))
    tokenizer = train_bpe(count_texts(texts, pattern), 256 + 200)
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    sampled = DropoutEncoding(tokenizer, dropout, seed=(1 << 64) - 1)
    for text in texts:
        stream, at = below(below(below(0, (1 << 64) - 1), 3), 0), 0
        expected = list[bytes]()
        for word in reference.split(text, NAMED_PATTERNS.get(pattern, pattern)):
            symbols = tuple(bytes([byte]) for byte in word.encode())
            expected += reference.merge_with_dropout(symbols, ranks, dropout, below(stream, at))
            at += len(symbols)
        ids = sampled.encode(text, sample=3)
        assert [tokenizer.vocab[id_] for id_ in ids] == expected, repr(text)
        assert tokenizer.decode(ids) == text


@pytest.fixture(scope="module")
def trained(english_and_code: str) -> Tokenizer:
    words = WordCounts.from_pairs([(word, 1) for word in english_and_code.split()], "gpt2")
    return train_bpe(words, 600, special_tokens=["<|endoftext|>"])


def test_the_ids_depend_on_seed_sample_and_text_alone(
    trained: Tokenizer, english_and_code: str
) -> None:
    text = english_and_code[:3_000] + "漢字 <|endoftext|>"
    first, again = DropoutEncoding(trained, 0.1, 7), DropoutEncoding(trained, 0.1, 7)
    ids = first.encode(text, sample=3)
    again.encode("something else")
    assert again.encode(text, sample=3) == ids
    assert trained.decode(ids) == text
    assert first.encode(text, sample=4) != ids
    assert DropoutEncoding(trained, 0.1, 8).encode(text, sample=3) != ids
    assert len(ids) > len(trained.encode_ordinary(text))


def test_no_dropout_encodes_as_ever_and_full_dropout_merges_nothing(
    trained: Tokenizer, english_and_code: str
) -> None:
    text = english_and_code[:3_000] + "漢字"
    assert DropoutEncoding(trained, 0).encode(text) == trained.encode_ordinary(text)
    nothing = DropoutEncoding(trained, 1).encode(text)
    assert [trained.vocab[id_] for id_ in nothing] == [bytes([b]) for b in text.encode()]
    assert DropoutEncoding(trained, 0.5).encode("") == []
    taken_whole = of_merges(MERGES, whole=(b"xyz",))
    assert len(taken_whole.encode("xyz")) == 1
    assert DropoutEncoding(taken_whole, 0).encode("xyz") == taken_whole.encode("xyz")
    assert len(DropoutEncoding(taken_whole, 0.1).encode("xyz")) == 3


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", r"\p{L}+|\s+|."])
def test_dropout_that_never_happens_encodes_as_without(pattern: str, english_and_code: str) -> None:
    text = english_and_code[:20_000] + "漢字 e\u0301 \U0001f44d"
    tokenizer = train_bpe(count_texts([text], pattern), 700)
    assert DropoutEncoding(tokenizer, 1e-15).encode(text) == tokenizer.encode_ordinary(text)


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_probabilities_and_numbers_out_of_range_are_refused(
    trained: Tokenizer, dropout: float
) -> None:
    with pytest.raises(InvalidOption, match=str(dropout)):
        DropoutEncoding(trained, dropout)
    with pytest.raises(InvalidOption, match=r"seed.*-1"):
        DropoutEncoding(trained, 0.1, -1)
    with pytest.raises(InvalidOption, match="sample"):
        DropoutEncoding(trained, 0.1).encode("a", sample=1 << 64)


def test_other_algorithms_are_refused() -> None:
    words = WordCounts.from_mapping({b"low": 5, b"lower": 2}, "whitespace")
    with pytest.raises(InvalidOption):
        DropoutEncoding(train_char_bpe(words, 3), 0.1)


@pytest.mark.parametrize("format", ["txt", "jsonl", "parquet"])
def test_files_have_the_same_ids_whatever_the_pieces_and_threads(
    trained: Tokenizer, english_and_code: str, tmp_path: Path, format: str
) -> None:
    texts = [english_and_code[at : at + 700] for at in range(0, 90_000, 700)]
    path = tmp_path / f"a.{format}"
    if format == "txt":
        path.write_text("<|endoftext|>".join(texts), encoding="utf-8")
    elif format == "jsonl":
        path.write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    else:
        parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=40)
    files = find_source_files(sources_of(path))
    made = []
    for number, piece_bytes in enumerate((1 << 20, 5_000)):
        encoding = file_encoding_of(trained, "<|endoftext|>", dropout=0.1, seed=7)
        encoding = replace(encoding, piece_bytes=piece_bytes)
        out = tmp_path / str(number)
        job = ShardJob(encoding, files, shard_place(out), shard_format("bin"))
        made.append([ids.tolist() for ids in job.run(number + 1)])
    assert made[0] == made[1]
    assert [trained.decode(ids) for ids in made[0]] == texts
    again = trained.encode_files(
        path, tmp_path / "again", separator="<|endoftext|>", dropout=0.1, seed=8
    )
    assert [ids.tolist() for ids in again] != made[0]
    assert (again.manifest["dropout"], again.manifest["dropout_seed"]) == (0.1, 8)
    # The documents of a file are encoded apart: the same text in two of them is encoded otherwise.
    twice = tmp_path / "twice.jsonl"
    twice.write_text(2 * (json.dumps({"text": texts[0]}) + "\n"))
    first, second = trained.encode_files(twice, tmp_path / "twice", dropout=0.1)
    assert first.tolist() != second.tolist()


def test_what_places_depend_on_is_not_replaced(trained: Tokenizer) -> None:
    with pytest.raises(InvalidOption, match="replace"):
        file_encoding_of(trained, invalid_utf8="replace", dropout=0.1)
    with pytest.raises(InvalidOption, match=r"1\.5"):
        file_encoding_of(trained, dropout=1.5)
