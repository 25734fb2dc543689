"""Boundaries of tokens against boundaries of morphs, counted by hand and one by one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metrics import (
    BoundaryScores,
    GoldWord,
    boundary_scores,
    read_gold,
)

GOLD = [
    GoldWord("unhappy", ("un", "happy")),
    GoldWord("walked", ("walk", "ed")),
    GoldWord("naïvely", ("naïve", "ly")),
    GoldWord("cat", ("cat",)),
]
BYTES = {i: bytes([i]) for i in range(256)}


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
