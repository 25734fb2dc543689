"""Tokenizers derived from others: of a smaller size, with reserved slots, and pruned."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.derived import (
    RARE,
    UNREACHABLE,
    PrunePlan,
    check_on,
    of_size,
    plan_pruning,
    rename_special_tokens,
    require_something,
    slots_of,
    token_counts,
    with_reserved_slots,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, InvalidTokenizer

SPECIALS = ["<|end|>", "<|pad|>"]
WORDS = WordCounts.from_mapping({
    f" {first}{second}{third}".encode(): 2 + (7 * first_at + second_at) % 11
    for first_at, first in enumerate(["low", "new", "wid", "é"])
    for second_at, second in enumerate(["er", "est", ""])
    for third in ["", "s", "ing", "中"]
})  # fmt: skip
TEXT = " lowest newer wides 中 <|end|> éest unseen"


def trained(size: int, special_ids: str = "first") -> Tokenizer:
    return train_bpe(WORDS, size, special_tokens=SPECIALS, special_ids=special_ids)  # type: ignore[arg-type]


def test_a_smaller_size_is_what_training_it_makes() -> None:
    largest = trained(400)
    for size in (258, 259, 270, largest.vocab_size - 1, largest.vocab_size):
        smaller = of_size(largest, size)
        assert smaller.digest == trained(size).digest
        assert sorted(smaller.vocab) == list(range(size))
        assert smaller.encode(TEXT) == trained(size).encode(TEXT)


def test_special_tokens_that_come_last_keep_their_ids() -> None:
    largest = trained(280, "last")
    smaller = of_size(largest, 270)
    assert smaller.vocab_size == 270
    assert smaller.special_tokens == largest.special_tokens == {"<|end|>": 278, "<|pad|>": 279}
    assert sorted(smaller.vocab) == [*range(268), 278, 279]
    assert largest.decode(smaller.encode(TEXT)) == TEXT
    allowed = smaller.encode(TEXT, allowed_special="all")
    assert 278 in allowed
    assert largest.decode(allowed) == TEXT


def test_tokens_that_no_merge_makes_are_kept() -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256: b"ab", 257: b"abc", 258: b"whole", 259: b"abcd"}
    merges = [(b"a", b"b"), (b"ab", b"c"), (b"abc", b"d")]
    smaller = of_size(Tokenizer(vocab, merges, ignore_merges=True), 258)
    assert smaller.encode("whole") == [258]
    assert smaller.encode("abcd") == [256, ord("c"), ord("d")]


def test_character_bpe_is_served_in_smaller_sizes_too() -> None:
    counts = WordCounts.from_mapping({b"lower": 5, b"lowest": 3, b"newest": 4}, "whitespace")
    for joined in (False, True):
        largest = train_char_bpe(counts, 8, joined=joined)
        fewer = of_size(largest, largest.vocab_size - 3)
        assert fewer.merges == largest.merges[:5]
        trained_so = train_char_bpe(counts, 5, joined=joined)
        text = "lower newest west"
        assert [fewer.vocab[id_] for id_ in fewer.encode(text)] == [
            trained_so.vocab[id_] for id_ in trained_so.encode(text)
        ]
        assert largest.decode(fewer.encode("lower newest")) == "lower newest"


@pytest.mark.parametrize("size", [0, 257, 10_000])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(InvalidOption, match=f"{size:,}") as caught:
        of_size(trained(300), size)
    assert "258" in caught.value.accepted


def test_algorithms_without_an_order_are_refused() -> None:
    vocab = {0: b"[UNK]", 1: b"a", 2: b"##a"}
    with pytest.raises(InvalidOption, match="wordpiece"):
        of_size(Tokenizer(vocab, [], ["[UNK]"], algorithm=WordPiece()), 2)


# Reserved slots


FEW_WORDS = WordCounts.from_mapping({b" lower": 5, b" lowest": 3, b" newest": 4, b" wider": 6})
SHORT_TEXT = " lower newest <|end|> unseen"


def with_end(size: int = 270) -> Tokenizer:
    return train_bpe(FEW_WORDS, size, special_tokens=["<|end|>"])


def test_slots_follow_the_highest_id_and_fill_a_multiple() -> None:
    base = with_end()
    made = with_reserved_slots(base, 3)
    assert slots_of(made) == {"<|reserved_0|>": 270, "<|reserved_1|>": 271, "<|reserved_2|>": 272}
    assert made.encode(SHORT_TEXT) == base.encode(SHORT_TEXT)
    assert with_reserved_slots(base, 3, 128).vocab_size == 384
    assert with_reserved_slots(base, 0, 270) is base
    assert with_reserved_slots(base, 1, 270).vocab_size == 540
    assert made.digest != base.digest


def test_names_that_are_taken_are_passed_over() -> None:
    twice = with_reserved_slots(with_reserved_slots(with_end(), 1), 2)
    assert list(slots_of(twice)) == ["<|reserved_0|>", "<|reserved_1|>", "<|reserved_2|>"]
    taken = train_bpe(FEW_WORDS, 270, special_tokens=["<|reserved_0|>"])
    assert list(slots_of(with_reserved_slots(taken, 1))) == ["<|reserved_0|>", "<|reserved_1|>"]


def test_a_name_changes_no_id_here_and_in_tokenizers(tmp_path: Path) -> None:
    made = with_reserved_slots(with_end(), 2)
    named = rename_special_tokens(made, {"<|reserved_1|>": "<|tool|>"})
    assert named.special_tokens == {"<|end|>": 0, "<|reserved_0|>": 270, "<|tool|>": 271}
    assert {id_ for id_ in made.vocab if made.vocab[id_] != named.vocab[id_]} == {271}
    text = f"{SHORT_TEXT}<|tool|><|reserved_0|>"
    path = tmp_path / "tokenizer.json"
    named.save(path, "hf")
    theirs = tokenizers.Tokenizer.from_file(str(path))
    ids = named.encode(text, allowed_special="all")
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert ids[-2:] == [271, 270]
    # What was read from a file of others takes names and slots, too.
    read = Tokenizer.load(path)
    again = rename_special_tokens(with_reserved_slots(read, 1), {"<|tool|>": "<|call|>"})
    assert again.encode("<|call|><|reserved_1|> lower") == [271, 272, *read.encode(" lower")]


def test_smaller_sizes_lose_slots_first() -> None:
    base = with_end()
    made = with_reserved_slots(base, 3)
    assert of_size(made, 270).digest == base.digest
    assert of_size(made, 265).digest == with_end(265).digest
    assert list(slots_of(of_size(made, 272))) == ["<|reserved_0|>", "<|reserved_1|>"]
    # One that has a name is a special token as any other.
    named = rename_special_tokens(made, {"<|reserved_0|>": "<|tool|>"})
    assert of_size(named, 266).special_tokens == {"<|end|>": 0, "<|tool|>": 270}


@pytest.mark.parametrize(
    "names",
    [
        {"<|nothing|>": "<|tool|>"},
        {"<|end|>": " lower"},
        {"<|end|>": "x"},
        {"<|end|>": ""},
        {"<|end|>": "<|reserved_0|>"},
        {"<|end|>": "<|a|>", "<|reserved_0|>": "<|a|>"},
    ],
)
def test_names_that_cannot_be_are_refused(names: dict[str, str]) -> None:
    with pytest.raises(InvalidSpecialToken):
        rename_special_tokens(with_reserved_slots(with_end(), 1), names)


def test_a_token_that_a_template_names_keeps_its_name(tmp_path: Path) -> None:
    with_end().save(tmp_path / "tokenizer.json", "hf")
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|end|> $A", special_tokens=[("<|end|>", 0)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InvalidSpecialToken, match=r"'<\|end\|>'"):
        rename_special_tokens(Tokenizer.load(tmp_path / "tokenizer.json"), {"<|end|>": "<|eos|>"})


def test_numbers_out_of_range_are_refused() -> None:
    for asked in ({"reserve": -1}, {"round_to": 0}, {"reserve": True}):
        with pytest.raises(InvalidOption):
            with_reserved_slots(with_end(), **asked)
    with pytest.raises(InvalidOption):
        rename_special_tokens(with_end(), {})


# Pruning


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
