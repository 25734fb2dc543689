"""Figures of compression against their formulas, computed the slow way."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, reference, train_bpe
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, InvalidUtf8
from bpeline.tokenizer_core.evaluation import measuring
from bpeline.tokenizer_core.evaluation.metrics import (
    BoundaryScores,
    CompressionReport,
    GoldWord,
    TokenDistribution,
    boundary_scores,
    evaluate,
    read_gold,
    token_distribution,
)
from bpeline.tokenizer_core.evaluation.suite import parity

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


# The distribution of tokens


def of(counts: list[int], vocab_size: int | None = None) -> TokenDistribution:
    return token_distribution(np.array(counts, np.int64), vocab_size or len(counts))


@pytest.mark.parametrize("seed", range(20))
def test_figures_of_a_distribution_follow_their_formulas(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randrange(2, 400)
    counts = [int(chance.paretovariate(0.8)) if chance.random() < 0.8 else 0 for _ in range(size)]
    counts[0] = counts[0] or 1
    found = of(counts)
    total = sum(counts)
    shares = sorted((count / total for count in counts if count), reverse=True)
    used = len(shares)
    entropy = -sum(share * math.log2(share) for share in shares)
    renyi = math.log2(sum(share**2.5 for share in shares)) / (1 - 2.5)
    assert (found.distinct_tokens, found.unused_tokens) == (used, size - used)
    assert found.rare_tokens == sum(0 < count < 100 for count in counts)
    assert found.type_token_ratio == used / total
    assert found.shannon_entropy == pytest.approx(entropy)
    assert found.shannon_efficiency == pytest.approx(entropy / math.log2(size))
    assert found.renyi_efficiency == pytest.approx(renyi / math.log2(size))
    imbalance = sum(abs(count / total - 1 / size) for count in counts) / 2
    assert found.imbalance == pytest.approx(imbalance)
    ranks = sum(rank * share for rank, share in enumerate(shares, 1))
    assert found.average_rank == pytest.approx(ranks)
    middle = sum(shares[int(0.03 * used) : int(0.83 * used)])
    assert found.percentile_frequency == pytest.approx(middle)
    reached = [least for least in {*counts} if sum(c >= least for c in counts) >= 0.95 * size]
    assert found.f95 == max(reached)


def test_an_even_distribution_is_efficient_and_balanced() -> None:
    found = of([7] * 64)
    assert found.shannon_efficiency == pytest.approx(1)
    assert found.renyi_efficiency == pytest.approx(1)
    assert found.imbalance == pytest.approx(0)
    assert (found.f95, found.unused_tokens) == (7, 0)


def test_one_token_alone_says_nothing() -> None:
    found = of([0, 9, 0, 0])
    assert (found.shannon_entropy, found.renyi_efficiency_observed) == (0, 0)
    assert found.imbalance == pytest.approx(0.75)
    assert found.average_rank == 1
    assert found.f95 == 0


def test_ids_with_gaps_count_the_vocab_not_the_array() -> None:
    assert of([5, 0, 0, 0, 0, 3], vocab_size=2).unused_tokens == 0


def test_large_counts_stay_exact_enough() -> None:
    found = of([2**53, 2**53, 1])
    assert found.shannon_entropy == pytest.approx(1)


def test_parity_follows_its_formula() -> None:
    costs = {"en": 0.2, "de": 0.25, "th": 0.6, "zh": 0.4}
    values = list(costs.values())
    mean = sum(values) / 4
    gini = sum(abs(a - b) for a in values for b in values) / (2 * 16 * mean)
    found = parity(costs)
    assert found.gini == pytest.approx(gini)
    assert found.max_over_min == pytest.approx(3)
    assert (found.dearest, found.cheapest) == ("th", "en")
    assert parity({"en": 0.3}).gini == 0


# Boundaries of morphs


GOLD = [
    GoldWord("unhappy", ("un", "happy")),
    GoldWord("walked", ("walk", "ed")),
    GoldWord("naïvely", ("naïve", "ly")),
    GoldWord("cat", ("cat",)),
]


def with_tokens(*tokens: str) -> Tokenizer:
    """Words of these tokens are cut there: each is taken whole, as nothing else merges."""
    vocab = BYTES | {256 + i: token.encode() for i, token in enumerate(tokens)}
    return Tokenizer(vocab, [], pattern=r" |un|happy|wal|ked|naïve|l|y|cat", ignore_merges=True)


def test_boundaries_are_counted_inside_words_and_the_space_is_none() -> None:
    tokenizer = with_tokens("un", "happy", "wal", "ked", "naïve", "cat")
    scores = boundary_scores(tokenizer, GOLD)
    # un|happy, wal|ked, naïve|l|y, cat
    assert scores == BoundaryScores(words=4, gold=3, found=4, right=2, whole=1)
    assert (scores.precision, scores.recall) == (2 / 4, 2 / 3)
    assert scores.f1 == pytest.approx(2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3))
    assert scores.metrics["morphology/words_in_one_token"] == 1 / 4


def test_a_cut_within_a_character_is_wrong() -> None:
    scores = boundary_scores(Tokenizer(BYTES, []), GOLD)
    sizes = [len(one.word.encode()) for one in GOLD]
    assert scores.found == sum(sizes) - len(sizes)
    assert (scores.right, scores.recall) == (3, 1.0)


@pytest.mark.parametrize("train", [train_bpe, train_char_bpe, train_wordpiece])
def test_every_algorithm_is_cut_where_its_tokens_end(train: object) -> None:
    pattern = "gpt2" if train is train_bpe else "whitespace"
    space = " " if train is train_bpe else ""
    counts = {f"{space}{one.word}".encode(): 5 for one in GOLD} | {f"{space}walk".encode(): 90}
    words = WordCounts.from_mapping(counts, pattern)
    sizes = {train_bpe: 262, train_char_bpe: 6, train_wordpiece: 24}  # of one, merges
    tokenizer = train(words, sizes[train])  # type: ignore
    found = right = 0
    for one in GOLD:
        text, cuts = f" {one.word}", set()
        for at in range(2, len(text)):
            offsets = tokenizer.encode_with_offsets(text).char_offsets.tolist()
            if any(end == at for _, end in offsets) and any(begin == at for begin, _ in offsets):
                cuts.add(at - 1)
        gold = {len(one.morphs[0])} if len(one.morphs) > 1 else set()
        found, right = found + len(cuts), right + len(cuts & gold)
    scores = boundary_scores(tokenizer, GOLD)
    assert scores.right == right > 0
    assert scores.found >= found  # a cut within ï is one more


def test_figures_that_mean_nothing_are_left_out() -> None:
    scores = boundary_scores(with_tokens("cat"), [GoldWord("cat", ("cat",))])
    assert math.isnan(scores.precision)
    assert math.isnan(scores.recall)
    assert scores.metrics == {"morphology/words": 1, "morphology/words_in_one_token": 1}


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "gold.tsv"
    path.write_text(
        "# by hand\nunhappy\tun happy\r\n\nwalked\twalk ed\nnaïvely\tnaïve ly\ncat\tcat\n",
        encoding="utf-8",
    )
    assert read_gold(path) == GOLD


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"walked\twalk d\n", "line 1"),
        (b"cat\tcat\nwalked walk ed\n", "line 2"),
        (b"\n# nothing\n", r"gold\.tsv"),
        (b"caf\xe9\tcaf\xe9\n", "utf-8"),
    ],
)
def test_what_is_no_segmentation_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "gold.tsv"
    path.write_bytes(content)
    with pytest.raises(InvalidOption, match=said) as caught:
        read_gold(path)
    assert "unhappiness" in caught.value.accepted
    with pytest.raises(InvalidOption, match=r"gone\.tsv"):
        read_gold(tmp_path / "gone.tsv")
