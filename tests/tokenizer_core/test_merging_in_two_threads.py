"""Merging in two threads learns what one thread learns, whoever does which part when."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.merging import merge_halves, merge_state
from bpeline.tokenizer_core.merging import merge_engine, two_threads
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, byte_words
from bpeline.tokenizer_core.training.bpe import learn_merges
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS
from tests.tokenizer_core.test_merge_engine import see_few_pairs_at_a_time, tempting_words

SECONDS = 1 << 31  # looks for work


class Promised(two_threads.MergeHelper):
    """Makes the leader share whether or not the helper has begun: what it has not, he does."""

    def learn(self, limits: merge_state.Limits, goal: int) -> merge_state.Integer:
        self._task[merge_halves.PRESENT] = 1
        return super().learn(limits, goal)


class Met(two_threads.MergeHelper):
    """Waits for the helper before each call, and adds up what helpers did."""

    helped = 0

    def learn(self, limits: merge_state.Limits, goal: int) -> merge_state.Integer:
        self._is_worth_it = False
        if self._thread is None:
            given = self._half, self._task, SECONDS
            self._thread = two_threads.Thread(target=merge_halves.help_merging, args=given)
            self._thread.start()
            while not self._task[merge_halves.PRESENT]:
                pass
        return super().learn(limits, goal)

    def stop(self) -> None:
        super().stop()
        type(self).helped += int(self._task[merge_halves.HELPED])


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_engine, "_LARGE", 0)
    monkeypatch.setattr(two_threads, "_LEAST_SHARED", 2)
    monkeypatch.setattr(merge_engine, "MergeHelper", Promised)


def learned(
    words: Mapping[bytes, int], tie_break: str, merges: int, threads: int, step: int = 0
) -> list[list[int]]:
    engine = MergeEngine(
        byte_words(WordCounts.from_mapping(words), tie_break),
        tie_break=tie_break,
        min_count=1,
        threads=threads,
    )
    for goal in range(step or merges, merges + 1, step or merges):
        if not engine.learn(goal):
            break
    engine._stop_help()
    return engine.learned.tolist()


def many_words(source: random.Random, number: int) -> dict[bytes, int]:
    """Words of few letters, which all hold the frequent pairs; counts repeat in long runs."""
    words = (bytes(source.choices(b"aab ", k=source.randrange(2, 14))) for _ in range(number))
    return {word: source.randrange(1, 4) for word in words}


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_the_merges_are_those_of_the_reference(
    tie_break: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:
        see_few_pairs_at_a_time(monkeypatch)
    for seed in range(150):
        words = tempting_words(random.Random(seed))
        engine = MergeEngine(
            byte_words(WordCounts.from_mapping(words), tie_break),
            tie_break=tie_break,
            min_count=1,
            threads=2,
        )
        engine.learn(60)
        engine._stop_help()
        found = [(engine.token(left), engine.token(right)) for left, right, _ in engine.learned]
        assert found == reference.train(words, 60, tie_break=tie_break, min_count=1), (seed, words)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_many_words_are_merged_as_by_one_thread(
    tie_break: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:
        see_few_pairs_at_a_time(monkeypatch)
    for seed in range(4):
        words = many_words(random.Random(seed), 1500)
        alone = learned(words, tie_break, 700, threads=1)
        assert learned(words, tie_break, 700, threads=2) == alone
        assert learned(words, tie_break, 700, threads=2, step=7) == alone


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_runs_of_one_letter_are_merged_as_by_one_thread(tie_break: str) -> None:
    words = {b"a" * length: 1 + length % 3 for length in range(2, 90)}
    words |= {b"b" + b"a" * 5000: 1, b"ab" * 700: 2}
    alone = learned(words, tie_break, 200, threads=1)
    assert learned(words, tie_break, 200, threads=2) == alone


def test_arrays_that_grow_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_engine, "_FIRST_TOKENS", 256)
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 1)
    words = many_words(random.Random(5), 900)
    alone = learned(words, "smallest-ids", 600, threads=1)
    assert len(alone) == 600
    assert learned(words, "smallest-ids", 600, threads=2) == alone


def test_a_thread_that_is_there_does_its_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_engine, "MergeHelper", Met)
    words = many_words(random.Random(7), 20_000)
    alone = learned(words, "smallest-ids", 400, threads=1)
    for _ in range(100):  # where one processor is left, it may come too late for each of them
        assert learned(words, "smallest-ids", 400, threads=2, step=50) == alone
        if Met.helped:
            break
    assert Met.helped


def test_few_pairs_or_none_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    see_few_pairs_at_a_time(monkeypatch)
    for words in ({}, {b"a": 3}, {b"ab": 1}, {b"ab": 1, b"c": 2}, {b"ab": 2, b"ba": 2}):
        assert learned(words, "smallest-ids", 9, 2) == learned(words, "smallest-ids", 9, 1)


def test_a_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping(many_words(random.Random(9), 800))
    whole = learn_merges(counts, 300, threads=1)
    learn_merges(counts, 120, threads=2, checkpoint=tmp_path / "c")
    resumed = learn_merges(counts, 300, threads=2, resume_from=tmp_path / "c")
    for column in ("left", "right", "counts"):
        assert np.array_equal(getattr(resumed, column), getattr(whole, column))


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_a_wrong_number_of_threads_is_refused(threads: object) -> None:
    with pytest.raises(InvalidOption, match="threads"):
        learn_merges(WordCounts.from_mapping({b"ab": 2}), 1, threads=threads)  # type: ignore[arg-type]
