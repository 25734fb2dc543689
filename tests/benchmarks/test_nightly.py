"""The benchmark of a night on a tiny corpus: it measures a run that reads what is new alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.commands import NIGHT
from benchmarks.measurement import Case
from benchmarks.runner import compare
from benchmarks.tables import night_table


@pytest.mark.night
def test_tonight_reads_what_is_new(tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in files:
        path.write_text("".join(f"line {n} of {path.name}\n" for n in range(3000)))
    names = [one.name for one in NIGHT.contestants]
    result = compare(NIGHT, names, Case(tuple(map(str, files)), 300), rounds=1)
    nights = {name: one["runs"][0] for name, one in result["contestants"].items()}
    assert {name: (run["chunks"], run["chunks_reused"]) for name, run in nights.items()} == {
        "tonight": (3, 2),
        "from scratch": (3, 0),
    }
    assert result["contestants"]["tonight"]["equal"] is True
    size = sum(path.stat().st_size for path in files)
    assert 0.01 * size <= result["new_bytes"] < 0.011 * size
    assert "| whole command |" in night_table(result)
