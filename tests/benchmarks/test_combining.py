"""Shards that are made: words of a file and others like them; the step and plain sorting agree."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import combining
from benchmarks.measurement import Case
from benchmarks.process import Stopwatch


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(1, 20))) for _ in range(3000)]
    path = tmp_path / "corpus.txt"
    path.write_text(" ".join(chance.choices(words, k=20_000)))
    return path


def test_numbers_are_spelled_as_words_of_their_own() -> None:
    content = np.frombuffer(b" the a house", np.uint8)
    words = combining.Vocabulary(content, np.array([0, 4, 6, 12]))
    numbers = np.array([0, 2, 3, 4, 5, 3 + 2**48 - 1])
    spelled, ends = words.spelled(numbers)
    found = [spelled[a:b].tobytes() for a, b in itertools.pairwise(ends)]
    assert found[:2] == [b" the", b" house"]
    assert [len(word) for word in found[2:]] == [8, 8, 8, 8]
    assert len(set(found)) == len(numbers)
    assert found[2:] == [b"\xc0" * 8, b"\xc0" * 7 + b"\xc1", b"\xc0" * 7 + b"\xc2", b"\xff" * 8]


@pytest.mark.night
def test_the_step_comes_to_the_sum_of_plain_sorting(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combining, "_SHARDS", 3)
    monkeypatch.setattr(combining, "_FEWEST", 5_000)
    monkeypatch.setattr(combining, "_MOST", 9_000)
    case = Case((str(corpus),))
    with combining._made(case) as prepared:
        case = replace(case, prepared={**prepared, "shards": 3})
        expected = combining._by_sorting(case, Stopwatch())
        assert expected[0] > 3000
        assert prepared["facts"]["rows"] > expected[0], "shards share words"
        assert combining._by_the_step(case, Stopwatch()) == expected
