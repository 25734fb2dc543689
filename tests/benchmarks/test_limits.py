"""Limits of the machine: bounds are what bytes and lines cost, and every loop has a row."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks import limits
from benchmarks.cluster import CLUSTER
from benchmarks.measurement import Case
from benchmarks.process import Stopwatch

MACHINE = limits.Machine(1e10, 1e10, 1e-7, 5e-9, 8e-9, 1e-9, 5e-9)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefgh", k=chance.randint(1, 9))) for _ in range(900)]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(" ".join(chance.choices(words, k=20)) for _ in range(500)))
    return path


def test_bounds_are_bytes_and_lines() -> None:
    far = limits.Loop("a", "row", 1.0, 10, 2 * 10**10, 10**6, "far")
    near = limits.Loop("a", "row", 1.0, 10, 10**10, 10**6, "near")
    assert far.bounds(MACHINE) == pytest.approx((2.0, 8e-3))
    assert near.bounds(MACHINE) == pytest.approx((1.0, 1e-3))


@pytest.mark.night
def test_every_loop_has_a_row(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "_machine", lambda: MACHINE)
    limits.measure(corpus)
    rows = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[4:]]
    assert rows == ["count words", "combine", "base pairs", "merge step", "encode, warm", "decode"]


@pytest.mark.night
def test_counting_and_encoding_are_measured_as_the_flows_do_them(corpus: Path) -> None:
    case = Case((str(corpus),))
    with CLUSTER.prepare(case) as prepared:
        watch = Stopwatch()
        case = Case(case.files, prepared=prepared)
        _, statistics, manifest = CLUSTER.named("threads").run(case, watch)
    assert "shards=1" in statistics
    assert "tokens" in manifest
    assert [*watch.phases] == ["counting", "encoding"]
