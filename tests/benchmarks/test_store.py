"""Benchmarks of growing texts and of the word-count store, on tiny files."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.counting import GROWTH, STORING, stored
from benchmarks.measurement import Case
from benchmarks.process import Stopwatch
from benchmarks.results import newest, save
from benchmarks.runner import results_of
from bpeline.registry.word_counts import ShardFiles


def test_counting_and_storing_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    corpus = tmp_path / "tiny.txt"
    corpus.write_text("low lower lowest low " * 500)
    write, watch = ShardFiles.write, Stopwatch()
    assert stored(Case((str(corpus),), threads=1), watch) == 5  # the first has no space before it
    for phases in (watch.phases, watch.cpu_phases):
        assert set(phases) == {"counting", "keeping", "combining"}
        assert min(phases.values()) > 0
    assert watch.more["shard_rows"] == 5
    assert list(tmp_path.iterdir()) == [corpus]
    assert ShardFiles.write is write


@pytest.mark.night
def test_growth_is_measured_on_beginnings_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(1)
    words = ["".join(random_.choices("abcdefgh", k=random_.randint(1, 9))) for _ in range(80_000)]
    corpus = tmp_path / "corpus.txt"
    lines = (" ".join(random_.choices(words, k=12)) for _ in range(80_000))
    corpus.write_text("\n".join(lines))
    for measurement, megabytes in ((GROWTH, [1, 2, 100]), (STORING, None)):
        asked = {"vocab_size": [300], "threads": [1], "megabytes": megabytes}
        asked |= {"vocabulary": None, "rounds": 1}
        for found in results_of(measurement, [corpus], ["bpeline"], asked):
            save(found, tmp_path)
    points = [
        {"bytes": one["bytes"], **one["contestants"]["bpeline"]}
        for one in newest("growth", tmp_path)
    ]
    assert len(points) == 3
    assert [one["bytes"] for one in points] == sorted(one["bytes"] for one in points)
    assert points[-1]["bytes"] == corpus.stat().st_size
    assert points[-1]["words"] == pytest.approx(960_000, rel=0.1)  # lines begin with a new line
    assert 0 < points[-1]["once"] < points[-1]["distinct"] <= 90_000 + 1
    (storing,) = newest("storing", tmp_path)
    stored = storing["contestants"]["bpeline"]
    assert stored["shard_rows"] >= 0.9 * points[-1]["distinct"]
    assert stored["shard_bytes"] > 0
    monkeypatch.setattr(tables, "LARGE", points[1]["bytes"])
    grown = tables.growth_table(newest("growth", tmp_path)).splitlines()
    assert [row.split(" | ")[1] for row in grown[2:]] == ["2", f"{points[-1]['bytes'] / 1e6:.0f}"]
    assert f"| {stored['shard_rows']:,} |" in tables.storing_table([storing])
