"""The iterations of training as the papers' readers print them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bpeline.tokenizer_core.algorithms.visible_training import (
    ALGORITHMS,
    LARGEST,
    lines_of,
    steps_of,
)
from bpeline.tokenizer_core.algorithms.wordpiece import SCORE_NAMES, Score
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption

TOY = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}


def toy(pattern: str = "whitespace") -> WordCounts:
    return WordCounts.from_mapping(TOY, pattern)


def test_tokens_and_their_number_after_each_merge() -> None:
    shown = list(steps_of("char-bpe", toy(), 5))
    start = {"l": 7, "o": 7, "w": 16, "</w>": 16, "e": 17, "r": 2, "n": 6, "s": 9, "t": 9, "i": 3,
             "d": 3}  # fmt: skip
    assert shown[0].tokens == start
    assert [len(step.tokens) for step in shown] == [11, 11, 10, 10, 9, 9]
    assert [step.merge and step.merge.made for step in shown] == [
        None, "es", "est", "est</w>", "lo", "low"
    ]  # fmt: skip
    assert [step.count for step in shown] == [0, 9, 9, 9, 7, 7]
    assert (shown[1].tokens["es"], shown[1].tokens["e"], "s" in shown[1].tokens) == (9, 8, False)
    assert (shown[3].tokens["est</w>"], shown[3].tokens["</w>"]) == (9, 7)
    assert (shown[5].tokens["low"], shown[5].tokens["w"]) == (7, 9)


def test_a_step_as_lines() -> None:
    lines = lines_of(list(steps_of("char-bpe", toy(), 1, end_of_word="_"))[1])
    facts = [
        "1: e + s = es",
        "l o w _ 5, l o w e r _ 2, n e w es t _ 6, w i d es t _ 3",
        "l 7, o 7, w 16, _ 16, e 8, r 2, n 6, es 9, t 9, i 3, d 3",
        " 11",
        "es + t 9, t + _ 9, l + o 7, o + w 7, n + e 6, e + w 6, w + es 6, w + _ 5, "
        "w + i 3, i + d 3, d + es 3, w + e 2, ",
    ]
    assert all(fact in line for fact, line in zip(facts, lines, strict=True))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_steps(algorithm: str) -> None:
    shown = list(steps_of(algorithm, toy(), 4))
    assert [step.number for step in shown] == [0, 1, 2, 3, 4]
    for before, after in pairwise(shown):
        assert after.merge is not None
        assert after.count == after.tokens[after.merge.made]  # no pair here overlaps itself
        assert before.tokens[after.merge.left] >= after.count
        lost = sum(before.tokens.values()) - sum(after.tokens.values())
        assert lost == after.count
        assert before.pairs[after.merge[:2]] == after.count
        # Nothing scores better than what is merged next.
        assert before.scores[after.merge[:2]] == max(before.scores.values())
        assert sum(len(word) * count for word, count in after.words) == sum(after.tokens.values())


def test_wordpiece_and_joined_ends_look_as_their_tokens_do() -> None:
    pieces = list(steps_of("wordpiece", toy(), 3, score="gain"))
    assert "##e" in pieces[0].tokens
    assert pieces[1].merge == ("##s", "##t", "##st")
    assert any("(score " in line for line in lines_of(pieces[0]))
    joined = list(steps_of("char-bpe", toy(), 1, joined=True, tie_break="greatest-bytes"))
    assert joined[1].merge == ("s", "t</w>", "st</w>")


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_the_best_score_is_merged_next(score: Score) -> None:
    words = WordCounts.from_mapping({b"aaaab": 5, b"baa": 2, b"abab": 4, b"aab": 3}, "wordpunct")
    shown = list(steps_of("wordpiece", words, 9, score=score, min_count=1))
    assert len(shown) > 5
    for before, after in pairwise(shown):
        assert after.merge is not None
        assert before.scores[after.merge[:2]] == max(before.scores.values())


def test_large_inputs_and_other_algorithms_are_refused() -> None:
    large = WordCounts.from_mapping({b"a" * (LARGEST + 1): 1}, "whitespace")
    with pytest.raises(InvalidOption, match=f"{LARGEST + 1:,}"):
        steps_of("char-bpe", large, 3)
    with pytest.raises(InvalidOption, match="algorithm"):
        steps_of("unigram", toy(), 3)
