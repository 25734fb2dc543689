"""Figures of compression against their formulas, computed the slow way."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidUtf8
from bpeline.tokenizer_core.evaluation import measuring
from bpeline.tokenizer_core.evaluation.metrics import CompressionReport, evaluate
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]
BYTES = {byte: bytes([byte]) for byte in range(256)}
HIGH_BYTES = {bytes([byte]) for byte in range(0x80, 0x100)}


@pytest.fixture(scope="module")
def documents(fuzz_texts: list[str]) -> list[bytes]:
    return [text.encode() for text in fuzz_texts[:1_500]]


@pytest.fixture(scope="module")
def report(tokenizer: Tokenizer, documents: list[bytes]) -> CompressionReport:
    return evaluate(tokenizer, documents)


def test_words_that_ignore_merges_are_measured_as_they_are_encoded() -> None:
    vocab = {id_: bytes([id_]) for id_ in range(256)} | {256: b" abcdefghijklmnop"}
    tokenizer = Tokenizer(vocab, [], ignore_merges=True)
    document = b" abcdefghijklmnop and the other words" * 5
    report = evaluate(tokenizer, [document])
    tokens = len(tokenizer.encode(document.decode()))
    assert report.tokens == tokens == len(document) - 5 * 16
    assert report.curve == ((257, len(document) / tokens),)
    assert report.unreachable_tokens == 0


def test_figures_follow_their_formulas(
    report: CompressionReport, tokenizer: Tokenizer, documents: list[bytes]
) -> None:
    texts = [document.decode() for document in documents]
    occurrences = Counter(i for text in texts for i in tokenizer.encode(text))
    tokens = occurrences.total()
    size = sum(map(len, documents))
    chars = sum(map(len, texts))
    words = sum(len(text.split()) for text in texts)
    assert (report.bytes, report.chars, report.words) == (size, chars, words)
    assert (report.tokens, report.documents) == (tokens, len(documents))
    assert report.bytes_per_token == size / tokens
    assert report.chars_per_token == chars / tokens
    assert report.fertility == tokens / words
    lines = sum(text.count("\n") + (not text.endswith("\n")) for text in texts if text)
    assert (report.lines, report.tokens_per_line) == (lines, tokens / lines)
    assert report.compression_ratio_vs_bytes == pytest.approx(1 - tokens / size)
    assert report.vocab_utilization == len(occurrences) / tokenizer.vocab_size
    pieces = Counter(
        piece for text in texts for piece in reference.split(text, tokenizer.pattern.regex)
    )
    several = {piece for piece in pieces if len(tokenizer.encode(piece)) > 1}
    assert (report.pre_tokens, report.distinct_pre_tokens) == (pieces.total(), len(pieces))
    assert report.continued_words == sum(pieces[piece] for piece in several) / pieces.total()
    assert report.single_token_words == (len(pieces) - len(several)) / len(pieces)
    assert report.distribution.distinct_tokens == len(occurrences)
    bits = -sum(count * math.log2(count / tokens) for count in occurrences.values())
    assert report.unigram_bits_per_byte == pytest.approx(bits / size)
    special = set(tokenizer.special_tokens.values())
    lengths = [len(token) for id_, token in tokenizer.vocab.items() if id_ not in special]
    assert report.mean_token_bytes == pytest.approx(statistics.fmean(lengths))
    assert report.median_token_bytes == statistics.median(lengths)
    assert report.longest_token_bytes == max(lengths)
    assert report.p99_token_bytes == pytest.approx(np.quantile(lengths, 0.99))
    listed = sum(lengths) + len(lengths)
    assert report.description_length == pytest.approx((bits / 8 + listed) / size)
    lone = sum(occurrences[i] for i, token in tokenizer.vocab.items() if token in HIGH_BYTES)
    assert report.byte_rate == lone / tokens > 0
    assert report.roundtrip_failures == 0
    assert report.encode_mb_per_second > 0
    assert report.decode_mb_per_second > 0


def test_the_curve_is_that_of_smaller_tokenizers(
    report: CompressionReport, tokenizer: Tokenizer, documents: list[bytes]
) -> None:
    assert [size for size, _ in report.curve] == [512, 1024, tokenizer.vocab_size]
    assert report.curve[-1][1] == report.bytes_per_token
    for size, bytes_per_token in report.curve:
        merges = tokenizer.merges[: size - 256 - len(tokenizer.special_tokens)]
        vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(merges)}
        smaller = Tokenizer(vocab, merges, (), tokenizer.pattern)
        tokens = sum(len(ids) for ids in smaller.encode_batch([d.decode() for d in documents]))
        assert bytes_per_token == report.bytes / tokens


def test_the_gain_of_merges_is_what_the_curve_rises_by(report: CompressionReport) -> None:
    tokens = [report.bytes / value for _, value in report.curve]
    sizes = [size for size, _ in report.curve]
    assert [size for size, _ in report.merge_gain] == sizes[1:]
    for i, (_, gain) in enumerate(report.merge_gain):
        saved = (tokens[i] - tokens[i + 1]) / (sizes[i + 1] - sizes[i])
        assert gain == pytest.approx(1e6 * saved / tokens[-1])


def test_parts_change_no_figure(
    report: CompressionReport,
    tokenizer: Tokenizer,
    documents: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "PART_BYTES", 100)
    in_parts = evaluate(tokenizer, documents).as_dict()
    whole = report.as_dict()
    for figures in (in_parts, whole):
        del figures["encode_mb_per_second"], figures["decode_mb_per_second"]
    assert in_parts == whole


def test_equal_shares_of_all_tokens_are_fully_efficient() -> None:
    only_bytes = Tokenizer(BYTES, [])
    ascii_once = bytes(range(128))
    report = evaluate(only_bytes, [ascii_once])
    assert report.distribution.renyi_efficiency_observed == pytest.approx(1)
    assert report.distribution.renyi_efficiency == pytest.approx(7 / 8)
    assert report.bytes_per_token == 1
    assert report.compression_ratio_vs_bytes == 0
    assert (report.undecodable_tokens, report.mixed_fragment_tokens) == (128, 0)
    assert report.curve == ((256, 1.0),)
    assert evaluate(only_bytes, [b"aaaa"]).distribution.renyi_efficiency_observed == 0


def test_tokens_out_of_reach_are_counted() -> None:
    vocab = BYTES | {256: b"ab", 257: b"xyz", 258: b"bc", 259: b"abc", 260: b"a b", 261: b"<s>"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")]
    report = evaluate(Tokenizer(vocab, merges, ["<s>"]), [b"abc"])
    # no merge makes xyz; abc becomes ab c; no pre-token is "a b"
    assert report.unreachable_tokens == 3
    unmade = {b"xyz", b"abc", b"a b"}
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    for token in unmade:
        pieces = reference.split(token.decode(), r" ?\p{L}+| ")
        symbols = [s for piece in pieces for s in reference.merge_word(piece.encode(), ranks)]
        assert symbols != [token]


def test_a_round_trip_that_fails_is_counted(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = Tokenizer.decode_bytes
    monkeypatch.setattr(
        Tokenizer, "decode_bytes", lambda self, ids: decode(self, ids).replace(b"x", b"y")
    )
    assert evaluate(tokenizer, [b"a", b"ax", b"", b"xx"]).roundtrip_failures == 2


def test_a_report_is_json_with_its_definitions(report: CompressionReport) -> None:
    loaded = json.loads(json.dumps(report.as_dict()))
    assert loaded["renyi_order"] == 2.5
    assert "white space" in loaded["word_definition"]
    assert loaded["curve"][-1] == [report.vocab_size, report.bytes_per_token]


def test_nothing_to_measure_is_refused(tokenizer: Tokenizer) -> None:
    for nothing in ([], [b"", b""]):
        with pytest.raises(EmptyCorpus):
            evaluate(tokenizer, nothing)
    with pytest.raises(InvalidUtf8):
        evaluate(tokenizer, [b"a\xff"])
    assert evaluate(tokenizer, ["\n \u3000".encode()]).fertility == 0


def test_gains_are_not_negative_and_sum_to_what_was_saved(
    tokenizer: Tokenizer, report: CompressionReport, documents: list[bytes]
) -> None:
    words = Counter(
        piece.encode()
        for document in documents
        for piece in reference.split(document.decode(), tokenizer.pattern.regex)
    )
    gains = tokenizer.merge_gains(WordCounts.from_mapping(words, tokenizer.pattern))
    assert gains.dtype == np.int64
    assert gains.min() >= 0
    assert report.bytes - gains.sum() == report.tokens
