"""The benchmarks of superwords, parity and dropout on a tiny corpus: each says what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measurement import Case, Measurement
from benchmarks.runner import compare
from benchmarks.tables import plain
from benchmarks.vocabularies import DROPOUT, PARITY, SUPERWORDS


@pytest.mark.night
@pytest.mark.parametrize(
    ("measurement", "said"),
    [(SUPERWORDS, "bytes/token"), (PARITY, "merges"), (DROPOUT, "tokens")],
    ids=lambda one: one.name if isinstance(one, Measurement) else "",
)
def test_everyone_is_measured_and_says_what_came_out(
    measurement: Measurement, said: str, tmp_path: Path, english_and_code: str
) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    files[0].write_text(english_and_code[:60_000], encoding="utf-8")
    files[1].write_text(english_and_code[60_000:90_000].swapcase(), encoding="utf-8")
    names = [one.name for one in measurement.contestants]
    case = Case(tuple(map(str, files if measurement.together else files[:1])), 600, 1)
    result = compare(measurement, names, case, rounds=1)
    assert not any("failure" in one for one in result["contestants"].values()), result
    assert plain(result).count(said) >= len(names)
