"""Plans for pruning: what goes, what stays, and that nothing else changes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import (
    RARE,
    UNREACHABLE,
    PrunePlan,
    check_on,
    plan_pruning,
    require_something,
    token_counts,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

BYTES = {byte: bytes([byte]) for byte in range(256)}


def made(*merges: tuple[bytes, bytes]) -> Tokenizer:
    vocab = BYTES | {256 + rank: left + right for rank, (left, right) in enumerate(merges)}
    return Tokenizer(vocab | {400: b"<|end|>"}, list(merges), ["<|end|>"])


def dropped(plan: PrunePlan) -> dict[bytes, tuple[int, str]]:
    return {one.token: (one.count, one.reason) for one in plan.dropped}


def test_rare_tokens_go_and_leave_their_occurrences_to_their_parts() -> None:
    tokenizer = made((b"a", b"b"), (b"ab", b"c"), (b"ab", b"d"), (b"x", b"y"), (b"xy", b"z"))
    words = {b"abc": 3, b"abd": 4, b"ab": 1, b"xyz": 9, b"xy": 1}
    plan = plan_pruning(tokenizer, WordCounts.from_mapping(words), min_count=5)
    assert dropped(plan) == {b"abc": (3, RARE), b"abd": (4, RARE)}, "ab occurs 8 times now"
    assert plan.kept_as_parts == 1, "xy, of which xyz is made"
    assert plan.tokens_before == 18
    assert plan.tokens_after == 25
    assert plan.tokenizer.vocab_size == tokenizer.vocab_size - 2 == len(plan.old_ids)
    assert plan.tokenizer.special_tokens == {"<|end|>": 259}
    table = np.arange(401) * 10
    for new, old in enumerate(plan.old_ids.tolist()):
        assert plan.tokenizer.vocab[new] == tokenizer.vocab[old]
        assert plan.new_ids[old] == new
        assert table[plan.old_ids][new] == table[old]


def test_unreachable_tokens_go_unless_something_is_made_of_them() -> None:
    tokenizer = made((b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b".", b"a"), (b"d", b"e"),
                     (b"de", b"f"), (b"e", b"f"))  # fmt: skip
    counts = WordCounts.from_mapping({b"abc": 3})
    plan = plan_pruning(tokenizer, counts, drop_unreachable=True)
    assert dropped(plan) == {b"abc": (0, UNREACHABLE), b".a": (0, UNREACHABLE)}
    seen = WordCounts.from_mapping({b".a": 3})
    assert dropped(plan_pruning(tokenizer, seen, drop_unreachable=True)) == {
        b"abc": (0, UNREACHABLE)
    }, "what was counted is reached"


@pytest.mark.parametrize("seed", range(6))
def test_texts_without_the_tokens_that_go_are_encoded_as_before(seed: int) -> None:
    random_ = random.Random(seed)
    words = {
        " " + "".join(random_.choices("abcdé", k=random_.randint(1, 9))): random_.randint(1, 30)
        for _ in range(300)
    }
    counts = WordCounts.from_mapping({word.encode(): count for word, count in words.items()})
    tokenizer = train_bpe(counts, 420, special_tokens=["<|end|>"], special_ids="last")
    plan = plan_pruning(tokenizer, counts, min_count=random_.choice([100, 200]))
    assert plan.dropped
    texts = [*words, "<|end|> 漢 abc", ""]
    checked = check_on(tokenizer, plan, texts)
    assert checked.texts == len(texts)
    assert checked.changed > 0
    assert checked.first_changed in texts
    assert checked.tokens_after > checked.tokens_before
    assert plan.tokens_after == int(token_counts(plan.tokenizer, counts).sum())
    gone = {one.id for one in plan.dropped}
    assert not gone & plan.new_ids.keys()
    assert gone | plan.new_ids.keys() == tokenizer.vocab.keys()
    broken = replace(plan, old_ids=plan.old_ids[::-1].copy())
    with pytest.raises(InvalidTokenizer, match="'a'"):
        check_on(tokenizer, broken, ["a"])
    other = replace(plan, tokenizer=Tokenizer(BYTES | {256: b"<|end|>"}, [], ["<|end|>"], "cl100k"))
    with pytest.raises(InvalidTokenizer):
        check_on(tokenizer, other, texts)


def test_tokens_that_two_merges_make_stay() -> None:
    vocab = BYTES | {256: b"ab", 257: b"bc", 258: b"abc"}
    merges = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")]
    tokenizer = Tokenizer(vocab, merges)
    plan = plan_pruning(tokenizer, WordCounts.from_mapping({b"q": 1}), min_count=5)
    assert plan.dropped == ()
    assert plan.tokenizer.digest == tokenizer.digest


def test_nothing_to_drop_is_refused() -> None:
    for options in ((0, False), (-1, True)):
        with pytest.raises(InvalidOption, match="--min-count"):
            require_something(*options)
    require_something(0, True)
