"""The nightly benchmark on a tiny corpus: it measures a run that reads what is new alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.nightly import measure, table


@pytest.mark.rotating(4)
@pytest.mark.slow
def test_tonight_reads_what_is_new(tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in files:
        path.write_text("".join(f"line {n} of {path.name}\n" for n in range(3000)))
    result = measure(files, rounds=1, vocab_size=300)
    (night,) = result["rounds"]
    assert {name: (run["chunks"], run["chunks_reused"]) for name, run in night.items()} == {
        "yesterday": (2, 0),
        "tonight": (3, 2),
        "from scratch": (3, 0),
    }
    size = sum(path.stat().st_size for path in files)
    assert 0.01 * size <= result["new_bytes"] < 0.011 * size
    assert "| whole command |" in table(result)
