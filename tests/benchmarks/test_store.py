"""The benchmark of the word-count store on a tiny file: it runs real steps and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.store import Cost, Measured, measure
from bpeline.registry.word_counts.store import WordCountStore


def test_counting_and_storing_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    corpus = tmp_path / "tiny.txt"
    corpus.write_text("low lower lowest low " * 500)
    put = WordCountStore.put
    measured = measure(corpus, threads=1)
    assert measured.words == 5  # the first word of the text has no space before it
    assert min(measured.keeping.cpu, measured.combining.cpu, measured.keeping.wall) > 0
    assert list(tmp_path.iterdir()) == [corpus]
    assert WordCountStore.put is put


def test_the_share_is_that_of_processor_time() -> None:
    measured = Measured(Cost(4.0, 2.0), Cost(0.5, 0.1), Cost(1.5, 0.9), words=1)
    assert (measured.storing, measured.share) == (Cost(2.0, 1.0), 0.5)
