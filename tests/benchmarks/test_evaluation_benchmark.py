"""The benchmark of evaluation on a tiny corpus: both phases are measured, of the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evaluating import EVALUATING
from benchmarks.measurement import Case
from benchmarks.pages import evaluation_block
from benchmarks.runner import compare


@pytest.mark.night
def test_figures_and_perturbations_are_measured(tmp_path: Path, english_and_code: str) -> None:
    file = tmp_path / "text.txt"
    file.write_text(english_and_code[:60_000], encoding="utf-8")
    names = [one.name for one in EVALUATING.contestants]
    result = compare(EVALUATING, names, Case((str(file),), 600), rounds=1)
    found = result["contestants"]
    assert all(one["equal"] for one in found.values()), "a champion changes no figure"
    phases = found["beside a champion"]["runs"][0]["cpu_phases"]
    assert phases.keys() == {"figures", "perturbations"}
    assert "| text.txt | 600 | alone |" in evaluation_block([result])
