"""BPE training: published values, other trainers, laws, progress, options."""

from __future__ import annotations

import functools
import itertools
import json
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import models, pre_tokenizers, trainers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.merging import checkpoint
from bpeline.tokenizer_core.merging.checkpoint import TrainingProgress
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.training.bpe import (
    LearnedMerges,
    learn_merges,
    merges_for,
    train_bpe,
)
from bpeline.tokenizer_core.vocabulary.numbering import (
    TIE_BREAKS,
    byte_order,
    to_printable,
    token_bytes,
)

TOY = {b"low_": 5, b"lower_": 2, b"newest_": 6, b"widest_": 3}


@functools.cache
def library_text() -> str:
    """About 1.5 MB of the standard library's own sources."""
    size, pieces = 0, []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        pieces.append(path.read_bytes().decode(errors="ignore"))
        size += len(pieces[-1])
        if size > 1_500_000:
            break
    return "".join(pieces)


@functools.cache
def library_words() -> dict[bytes, int]:
    return reference.count_words([library_text()], SplitPattern.named("gpt2").regex)


def pairs_of(learned: LearnedMerges, tie_break: str) -> list[tuple[bytes, bytes]]:
    tokens = token_bytes(learned.pairs(), byte_order(tie_break))
    return [(tokens[left], tokens[right]) for left, right in learned.pairs()]


def train(words: dict[bytes, int], merges: int, **options: object) -> list[tuple[bytes, bytes]]:
    tie_break = str(options.get("tie_break", "smallest-ids"))
    learned = learn_merges(WordCounts.from_mapping(words), merges, **options)  # type: ignore[arg-type]
    return pairs_of(learned, tie_break)


def as_lists(learned: LearnedMerges) -> tuple[list[int], list[int], list[int], bool]:
    return (
        learned.left.tolist(),
        learned.right.tolist(),
        learned.counts.tolist(),
        learned.exhausted,
    )


# Values and other trainers


def test_the_published_toy_corpus_gives_the_published_merges() -> None:
    learned = learn_merges(WordCounts.from_mapping(TOY), 10, tie_break="first-seen")
    merges = pairs_of(learned, "first-seen")
    assert " · ".join(f"{left.decode()} {right.decode()}" for left, right in merges) == (
        "e s · es t · est _ · l o · lo w · n e · ne w · new est_ · low _ · w i"
    )
    assert learned.counts.tolist() == [9, 9, 9, 7, 7, 6, 6, 6, 5, 3]
    assert not learned.exhausted


def test_the_toy_corpus_under_the_other_tie_breaks() -> None:
    assert train(TOY, 1, tie_break="greatest-bytes") == [(b"t", b"_")]
    assert train(TOY, 1, tie_break="smallest-ids") == [(b"e", b"s")]


@pytest.mark.night
def test_the_merges_are_those_of_huggingface() -> None:
    vocab_size = 6000
    tokenizer = HuggingFaceTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([library_text()], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    ours = train_bpe(
        WordCounts.from_mapping(library_words()), vocab_size, special_tokens=["<|endoftext|>"]
    )
    assert [(to_printable(left), to_printable(right)) for left, right in ours.merges] == [
        tuple(merge) for merge in model["merges"]
    ]
    special = {"<|endoftext|>": 0}
    assert ours.special_tokens == special
    assert {to_printable(token): id_ for id_, token in ours.vocab.items() if id_} | special == (
        model["vocab"]
    )


@pytest.mark.night
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_a_real_text_gives_the_merges_of_the_reference(tie_break: str) -> None:
    words = dict(itertools.islice(library_words().items(), 3000))
    expected = reference.train(words, 120, tie_break=tie_break)
    assert train(words, 120, tie_break=tie_break) == expected


# Laws


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_fewer_merges_are_the_first_ones_of_more(tie_break: str) -> None:
    counts = WordCounts.from_mapping(library_words())
    most = learn_merges(counts, 5000, tie_break=tie_break)
    for merges in (0, 1, 31, 33, 1000, 4999):
        fewer = learn_merges(counts, merges, tie_break=tie_break)
        assert fewer.pairs() == most.pairs()[:merges]
        assert fewer.counts.tolist() == most.counts[:merges].tolist()


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_the_order_of_rows_does_not_matter_where_positions_tell_the_order(tie_break: str) -> None:
    counts = WordCounts.from_mapping(library_words())
    order = np.random.default_rng(6).permutation(len(counts)).astype(np.int64)
    expected = learn_merges(counts, 3000, tie_break=tie_break)
    assert as_lists(learn_merges(counts.take(order), 3000, tie_break=tie_break)) == (
        as_lists(expected)
    )


def test_first_seen_depends_on_the_order_of_sight() -> None:
    assert train({b"ab": 2, b"cd": 2}, 1, tie_break="first-seen") == [(b"a", b"b")]
    assert train({b"cd": 2, b"ab": 2}, 1, tie_break="first-seen") == [(b"c", b"d")]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_multiplying_all_counts_changes_nothing_but_the_counts(tie_break: str) -> None:
    words, factor = library_words(), 3_000_000_017
    once = learn_merges(WordCounts.from_mapping(words), 3000, tie_break=tie_break, min_count=3)
    multiplied = {word: count * factor for word, count in words.items()}
    often = learn_merges(
        WordCounts.from_mapping(multiplied), 3000, tie_break=tie_break, min_count=3 * factor
    )
    assert often.pairs() == once.pairs()
    assert often.counts.tolist() == [count * factor for count in once.counts.tolist()]


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_a_count_may_be_spread_over_rows(tie_break: str) -> None:
    counts = WordCounts.from_mapping(library_words())
    rows = np.concatenate([np.arange(len(counts)), np.arange(len(counts))]).astype(np.int64)
    spread = counts.take(rows)
    once = learn_merges(counts, 3000, tie_break=tie_break, min_count=2)
    twice = learn_merges(spread, 3000, tie_break=tie_break, min_count=4)
    assert twice.pairs() == once.pairs()


# Progress


def test_progress_is_told_in_order_and_ends_with_the_last_merge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint, "_REPORT_SECONDS", 0.0)
    seen: list[TrainingProgress] = []
    counts = WordCounts.from_mapping(library_words())
    learned = learn_merges(counts, 2000, on_progress=seen.append)
    assert len(seen) > 3
    assert [report.merges_done for report in seen] == sorted({r.merges_done for r in seen})
    assert seen[-1].merges_done == seen[-1].merges_total == len(learned) == 2000
    assert seen[-1].best_pair == pairs_of(learned, "smallest-ids")[-1]
    assert seen[-1].best_count == learned.counts[-1]
    assert seen[-1].eta_seconds == 0
    assert all(report.seconds >= 0 and report.eta_seconds >= 0 for report in seen)


def test_progress_is_told_at_most_ten_times_a_second() -> None:
    seen: list[TrainingProgress] = []
    learn_merges(WordCounts.from_mapping(library_words()), 3000, on_progress=seen.append)
    assert seen
    for one, other in itertools.pairwise(seen[:-1]):
        assert other.seconds - one.seconds >= 0.1


# Options and the tokenizer


@pytest.mark.parametrize("vocab_size", [-1, 0, 10, 256, 257])
def test_a_vocabulary_without_room_for_bytes_and_special_tokens_is_refused(
    vocab_size: int,
) -> None:
    with pytest.raises(InvalidOption) as refusal:
        train_bpe(WordCounts.from_mapping(TOY), vocab_size, special_tokens=["<a>", "<b>"])
    assert "258" in refusal.value.accepted


@pytest.mark.parametrize(
    "options",
    [
        {"tie_break": "random"},
        {"min_count": 0},
        {"min_count": 1.5},
        {"max_token_bytes": 0},
        {"special_ids": "middle"},
    ],
)
def test_options_out_of_range_are_refused_with_what_is_accepted(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as refusal:
        train_bpe(WordCounts.from_mapping(TOY), 300, **options)  # type: ignore[arg-type]
    assert refusal.value.happened
    assert refusal.value.accepted
    assert refusal.value.next_step


def test_a_vocabulary_of_exactly_bytes_and_special_tokens_learns_nothing() -> None:
    tokenizer = train_bpe(WordCounts.from_mapping(TOY), 257, special_tokens=["<a>"])
    assert tokenizer.merges == []
    assert tokenizer.vocab_size == 257
    assert tokenizer.vocab[0] == b"<a>"


@pytest.mark.parametrize("vocab_size", [2000, 2**31])
def test_a_vocabulary_larger_than_the_corpus_allows_stops_early(vocab_size: int) -> None:
    counts = WordCounts.from_mapping(TOY)
    learned = learn_merges(counts, merges_for(vocab_size))
    assert learned.exhausted
    assert len(learned) < 30
    assert train_bpe(counts, vocab_size).vocab_size == 256 + len(learned)


def test_special_tokens_come_first_or_last() -> None:
    counts = WordCounts.from_mapping(TOY)
    first = train_bpe(counts, 262, special_tokens=["<a>", "<b>"])
    last = train_bpe(counts, 262, special_tokens=["<a>", "<b>"], special_ids="last")
    assert first.special_tokens == {"<a>": 0, "<b>": 1}
    assert last.special_tokens == {"<a>": 260, "<b>": 261}
    assert first.merges == last.merges
    assert len(first.merges) == 4
    assert first.vocab_size == last.vocab_size == 262


def test_the_tokenizer_encodes_with_the_merges_and_the_pattern_of_the_counts() -> None:
    counts = WordCounts.from_mapping(library_words())
    tokenizer = train_bpe(counts, 1000, special_tokens=["<|endoftext|>"])
    assert tokenizer.pattern.digest == counts.pattern.digest
    text = library_text()[:3000]
    assert tokenizer.encode(text) == reference.encode(
        text, tokenizer.vocab, tokenizer.merges, tokenizer.pattern.regex
    )
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_that_are_also_ordinary_tokens_are_refused() -> None:
    counts = WordCounts.from_mapping(TOY)
    for special in ("a", "est_"):
        with pytest.raises(InvalidSpecialToken, match=f"'{special}'"):
            train_bpe(counts, 300, special_tokens=[special])


def test_no_token_is_longer_than_any_tokenizer_may_hold() -> None:
    tokenizer = train_bpe(WordCounts.from_mapping({b"a" * 1_000_000: 1}), 300)
    assert max(map(len, tokenizer.vocab.values())) == 65_536
