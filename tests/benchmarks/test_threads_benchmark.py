"""The benchmark of one thread and two on a tiny corpus: every phase, and what must be the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measurement import Case
from benchmarks.pages import threads_block
from benchmarks.runner import compare
from benchmarks.tables import plain
from benchmarks.threads import PHASES, THREADS, TWO


@pytest.mark.night
def test_one_thread_and_two_are_measured(tmp_path: Path, english_and_code: str) -> None:
    file = tmp_path / "text.txt"
    file.write_text(english_and_code[:60_000], encoding="utf-8")
    names = [one.name for one in THREADS.contestants]
    result = compare(THREADS, names, Case((str(file),), 600), rounds=1)
    assert all(one["equal"] for one in result["contestants"].values())
    assert tuple(result["contestants"][TWO]["phases"]) == PHASES
    for phase in PHASES:
        assert f"| text.txt, {phase} | " in threads_block([result])
        assert f"text.txt, {phase} " in plain(result)


def test_how_many_times_as_fast_is_told_of_the_quickest_runs() -> None:
    def runs(*seconds: float) -> dict[str, object]:
        phases = [{"counting": one} for one in seconds]
        made = [{"phases": one, "cpu_phases": one} for one in phases]
        return {"phases": phases[0], "runs": made}

    result = {
        "file": "a.txt",
        "rounds": 2,
        "load": 0.0,
        "contestants": {"one thread": runs(2.0, 3.0), "two threads": runs(5.0, 1.0)},
    }
    row = "| a.txt, counting | 2.000 | 1.000 | 2.00 | 2.000 | 1.000 | 0.50 |"
    assert row in threads_block([result])
