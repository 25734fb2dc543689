"""The benchmark of the word-count store on a tiny file: it runs real steps and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.counting import stored
from benchmarks.measurement import Case
from benchmarks.process import Stopwatch
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
