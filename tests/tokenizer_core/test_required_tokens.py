"""Required tokens are tokens whatever the corpus says; special tokens never clash with tokens."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.training.bpe import (
    learn_merges,
    required_merges,
    settings_digest,
    train_bpe,
)
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS, byte_order, token_bytes

WORDS = {b"low": 5, b" lower": 2, b" newest": 6, b" widest": 3, b"abcabc": 4}
Merges = list[tuple[bytes, bytes]]


def merges_of(pairs: np.ndarray, tie_break: str) -> Merges:
    tokens = token_bytes([(int(a), int(b)) for a, b in pairs], byte_order(tie_break))
    return [(tokens[left], tokens[right]) for left, right in pairs.tolist()]


def in_ranks(word: bytes, merges: Merges) -> list[bytes]:
    """Every merge in turn, from left to right: encoding as the textbook has it."""
    parts = [bytes([byte]) for byte in word]
    for left, right in merges:
        at = 0
        while at + 1 < len(parts):
            if (parts[at], parts[at + 1]) == (left, right):
                parts[at : at + 2] = [left + right]
            at += 1
    return parts


def learned_by_hand(words: dict[bytes, int], given: Merges, merges: int) -> Merges:
    """Given merges first, then the most frequent pair; ties go to the greatest bytes."""
    done = list(given)
    while len(done) < merges:
        pairs: dict[tuple[bytes, bytes], int] = {}
        for word, count in words.items():
            parts = in_ranks(word, done)
            for pair in itertools.pairwise(parts):
                pairs[pair] = pairs.get(pair, 0) + count
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            return done
        done.append(best)
    return done


def tempting_tokens(source: random.Random) -> list[str]:
    letters = source.choice(["ab", "abc", "aä"])
    return list(
        dict.fromkeys(
            source.choice(["", " "])
            + "".join(source.choice(letters) for _ in range(source.randrange(1, 9)))
            for _ in range(source.randrange(1, 9))
        )
    )


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_every_required_token_is_one_token_whatever_came_before_it(tie_break: str) -> None:
    for seed in range(300):
        tokens = tempting_tokens(random.Random(seed))
        merges = merges_of(required_merges(tokens, "gpt2", tie_break), tie_break)
        results = [left + right for left, right in merges]
        assert len(set(results)) == len(results), tokens  # one derivation for each
        for token in tokens:
            assert in_ranks(token.encode(), merges) == [token.encode()], (tokens, token)


def test_the_case_in_which_bytes_from_left_to_right_would_fail() -> None:
    merges = merges_of(required_merges(["bc", "abc"], "gpt2"), "smallest-ids")
    assert merges == [(b"b", b"c"), (b"a", b"bc")]


def test_tokens_are_built_from_the_left_and_repeats_share_merges() -> None:
    assert merges_of(required_merges(["abab", "abc"], "gpt2"), "smallest-ids") == [
        (b"a", b"b"), (b"ab", b"ab"), (b"ab", b"c"),
    ]  # fmt: skip
    assert len(required_merges(["a"], "gpt2")) == 0  # bytes are tokens anyway


def test_required_tokens_come_first_and_training_goes_on_behind_them() -> None:
    for seed in range(40):
        source = random.Random(seed)
        tokens = tempting_tokens(source)
        words = {
            bytes(source.choice(b"abc ") for _ in range(source.randrange(2, 9))): source.randrange(
                1, 6
            )
            for _ in range(12)
        }
        given = required_merges(tokens, "gpt2", "greatest-bytes")
        goal = len(given) + 12
        learned = learn_merges(
            WordCounts.from_mapping(words), goal, tie_break="greatest-bytes", given=given
        )
        pairs = np.stack((learned.left, learned.right), axis=1)
        expected = learned_by_hand(words, merges_of(given, "greatest-bytes"), goal)
        assert merges_of(pairs, "greatest-bytes") == expected, (seed, tokens)


def test_the_tokenizer_has_them_and_encodes_with_them() -> None:
    required = [" tokenizer", "straße", "low"]
    tokenizer = train_bpe(
        WordCounts.from_mapping(WORDS), 300, required_tokens=required, special_tokens=["<|end|>"]
    )
    for token in required:
        assert len(tokenizer.encode(token)) == 1, token
    assert tokenizer.special_tokens == {"<|end|>": 0}
    text = " tokenizer lowest straße"
    assert tokenizer.encode(text) == reference.encode(
        text, tokenizer.vocab, tokenizer.merges, tokenizer.pattern.regex
    )


def test_an_interrupted_training_with_required_tokens_goes_on(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping(WORDS)
    options = {"min_count": 1, "required_tokens": [" tokenizer"]}
    checkpoint = tmp_path / "merges"
    train_bpe(counts, 268, checkpoint=checkpoint, **options)  # type: ignore[arg-type]
    resumed = train_bpe(counts, 280, resume_from=checkpoint, **options)  # type: ignore[arg-type]
    assert resumed.merges == train_bpe(counts, 280, **options).merges  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="settings"):
        train_bpe(counts, 280, resume_from=checkpoint, min_count=1)


@pytest.mark.parametrize(
    ("tokens", "options", "named"),
    [
        (["two words"], {}, "'gpt2': 'two', ' words'"),
        ([""], {}, "''"),
        (["low", "low"], {}, "'low'"),
        (["\ud800"], {}, "surrogate"),
        (["a" * 2000], {}, "2000 bytes"),
        ([" tokenizer"], {"max_token_bytes": 5}, "10 bytes"),
        ("low", {}, "='low'"),
        ([" tokenizer"], {"vocab_size": 260}, "9 merges"),
        ([3], {}, "=[3]"),
    ],
)
def test_tokens_that_cannot_be_are_refused_in_three_parts(
    tokens: list[str], options: dict[str, int], named: str
) -> None:
    size = options.pop("vocab_size", 400)
    with pytest.raises(InvalidOption) as refusal:
        train_bpe(WordCounts.from_mapping(WORDS), size, required_tokens=tokens, **options)  # type: ignore[arg-type]
    assert named in str(refusal.value)
    assert refusal.value.accepted
    assert refusal.value.next_step


def test_what_is_one_pre_token_depends_on_the_pattern() -> None:
    apart = SplitPattern(regex=r"\w|[^\w]")
    assert len(required_merges(["abc"], SplitPattern(regex=r"\w+|[^\w]+"))) == 2
    with pytest.raises(InvalidOption, match="'a', 'b', 'c'"):
        required_merges(["abc"], apart)


# Special tokens beside ordinary ones


@pytest.mark.parametrize("special", ["a", "tok", " tokenizer", " tok"])
def test_a_special_token_that_is_ordinary_is_refused_before_anything_is_learned(
    special: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.tokenizer_core.training import bpe

    def learn(*_: object, **__: object) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(bpe, "learn_merges", learn)
    with pytest.raises(InvalidSpecialToken) as refusal:
        train_bpe(
            WordCounts.from_mapping({b"xyz": 3}),
            400,
            special_tokens=[special],
            required_tokens=["tok", " tokenizer"],
        )
    assert repr(special) in refusal.value.happened
    assert refusal.value.next_step


def test_a_special_token_inside_a_word_is_refused_and_the_word_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bpeline.tokenizer_core.training import bpe

    monkeypatch.setattr(bpe, "MergeEngine", None)
    with pytest.raises(InvalidSpecialToken, match="' newest'"):
        train_bpe(WordCounts.from_mapping(WORDS), 400, special_tokens=["west"])


def test_a_special_token_across_two_neighbouring_rows_is_not_in_a_word() -> None:
    apart = {b"xa": 2, b"by": 2}
    tokenizer = train_bpe(WordCounts.from_mapping(apart), 300, special_tokens=["ab"])
    assert tokenizer.special_tokens == {"ab": 0}
    # the first place found lies across two rows; the one that counts overlaps it
    with pytest.raises(InvalidSpecialToken, match="'aay'"):
        train_bpe(WordCounts.from_mapping({b"xa": 2, b"aay": 1}), 300, special_tokens=["aa"])


# Rare words


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_rare_words_are_left_out_as_if_they_were_not_there(tie_break: str) -> None:
    for seed in range(60):
        source = random.Random(seed)
        words = {
            bytes(source.choice(b"abc ") for _ in range(source.randrange(2, 9))): source.randrange(
                1, 6
            )
            for _ in range(14)
        }
        least = source.randrange(1, 5)
        learned = learn_merges(
            WordCounts.from_mapping(words), 40, tie_break=tie_break, min_word_count=least
        )
        frequent = {word: count for word, count in words.items() if count >= least}
        pairs = np.stack((learned.left, learned.right), axis=1)
        assert merges_of(pairs, tie_break) == reference.train(frequent, 40, tie_break=tie_break)
        rare = [count for count in words.values() if count < least]
        assert (learned.pruned.words, learned.pruned.occurrences) == (len(rare), sum(rare))


def test_leaving_out_rare_words_is_a_setting_that_a_checkpoint_remembers() -> None:
    assert settings_digest(min_word_count=2) != settings_digest()


def test_a_threshold_that_leaves_no_word_is_refused() -> None:
    with pytest.raises(EmptyCorpus) as refusal:
        train_bpe(WordCounts.from_mapping(WORDS), 300, min_word_count=7)
    assert "6" in refusal.value.accepted
    with pytest.raises(InvalidOption, match="min_word_count"):
        train_bpe(WordCounts.from_mapping(WORDS), 300, min_word_count=0)
