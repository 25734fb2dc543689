"""Laws of growth and clusters on paper: known laws are found, simulations keep their books."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster_model import DISPATCH, RESTART, Cluster, Task, simulate
from benchmarks.counting import GROWTH, STORING
from benchmarks.forecast import (
    CLUSTERS,
    MOST_TASKS,
    SIZES,
    GrowthModel,
    PowerLaw,
    forecast,
    forecast_tables,
    law_table,
    measured,
)
from benchmarks.results import save
from benchmarks.runner import results_of

ALONE = Cluster("one core", 1, 1, 8, network=1.0, storage=1.0, failures=0.0)


def result_of(law: PowerLaw, sizes: list[int]) -> dict[str, Any]:
    """What measuring a text that obeys a law exactly would give."""
    points = [
        {
            "bytes": size,
            "distinct": law.at(size),
            "once": law.at(size) / 2,
            "word_bytes": 9 * law.at(size),
            "often_bytes": 2 * law.at(size),
            "cpu_phases": {"merging": 0.2 + 1e-7 * 9 * law.at(size)},
            "megabytes": {"merging": 50 + 4e-5 * 9 * law.at(size)},
        }
        for size in sizes
    ]
    whole = sizes[-1]
    storing = {
        "cpu_phases": {"counting": whole / 250e6, "keeping": whole / 1000e6, "combining": 1.0},
        "shard_rows": 2_000_000,
        "shard_bytes": 20_000_000,
    }
    return {"file": "made.txt", "points": points, "storing": storing}


def test_a_law_is_found_again() -> None:
    law = PowerLaw(41.0, 0.57)
    found = PowerLaw.through((x, law.at(x)) for x in (1e6, 3e7, 1e9))
    assert found.factor == pytest.approx(41.0)
    assert found.exponent == pytest.approx(0.57)
    with pytest.raises(ValueError, match="1 points"):
        PowerLaw.through([(1.0, 1.0)])


def test_the_model_is_what_was_measured() -> None:
    law = PowerLaw(30.0, 0.6)
    model = GrowthModel.of(result_of(law, [1 << power for power in range(22, 31)]))
    assert model.distinct.at(1e12) == pytest.approx(law.at(1e12))
    assert model.held_back_error == pytest.approx(0.0, abs=1e-9)
    assert model.count_rate == pytest.approx(200e6)
    assert model.merging(1e12)[0] == pytest.approx(0.2 + 1e-7 * 9 * law.at(1e12))
    assert model.merging(1e12)[1] == pytest.approx(50 + 4e-5 * 9 * law.at(1e12))
    assert math.isnan(GrowthModel.of(result_of(law, [1 << 29, 1 << 30])).held_back_error)


def test_one_core_takes_as_long_as_its_tasks() -> None:
    outcome = simulate([Task(10.0)] * 400, ALONE)
    assert outcome.seconds == pytest.approx(4000, rel=0.05)
    assert outcome.busy == pytest.approx(1 - 400 * DISPATCH / outcome.seconds, rel=1e-6)
    assert simulate([Task(10.0)] * 400, ALONE) == outcome, "the same seed, the same outcome"
    assert simulate([], ALONE).seconds == 0


def test_reading_is_shared_among_cores() -> None:
    wide = Cluster("wide", 4, 4, 8, network=100.0, storage=1.6, failures=0.0)
    assert wide.reading == 1e8
    outcome = simulate([Task(0.001, 1e9)] * 160, wide)
    assert outcome.seconds == pytest.approx(160e9 / 1.6e9, rel=0.25)


def test_more_machines_are_never_much_slower_and_dispatch_is_a_floor() -> None:
    tasks = [Task(5.0)] * 2000
    times = [
        simulate(tasks, Cluster("", machines, 8, 8, 10.0, 1000.0, failures=0.0)).seconds
        for machines in (1, 2, 8, 64)
    ]
    assert times == sorted(times, reverse=True)
    assert times[-1] > 2000 * DISPATCH


def test_what_a_failing_machine_did_is_done_again() -> None:
    often = Cluster("frail", 8, 2, 8, network=10.0, storage=100.0, failures=2.0)
    outcomes = [simulate([Task(60.0)] * 1000, often, seed) for seed in range(5)]
    assert all(outcome.repeated > 10 for outcome in outcomes)
    assert all(outcome.busy < 1 for outcome in outcomes)
    sound = simulate([Task(60.0)] * 1000, Cluster("sound", 8, 2, 8, 10.0, 100.0, failures=0.0))
    assert sound.repeated == 0
    assert all(outcome.seconds > sound.seconds for outcome in outcomes)
    one = simulate([Task(600.0)] * 3, Cluster("one", 1, 1, 8, 1.0, 1.0, failures=3.0), seed=1)
    assert one.repeated > 0
    assert one.seconds > 1500 + RESTART, "it waits for its only machine"


@pytest.mark.night
def test_a_terabyte_is_thousands_of_tasks_and_forecasts_follow_the_text() -> None:
    model = GrowthModel.of(result_of(PowerLaw(30.0, 0.6), [1 << power for power in range(22, 31)]))
    for cluster in CLUSTERS:
        small, large = (forecast(model, SIZES[size], cluster) for size in ("100 GB", "10 TB"))
        assert small.tasks <= large.tasks == MOST_TASKS
        assert 8 < large.count / small.count < 110
        assert large.merge < 20 * small.merge, "distinct words, not bytes"
    huge = forecast(model, 1e15, CLUSTERS[0])
    assert huge.gigabytes / huge.gigabytes_often == pytest.approx(4.5, rel=0.01)
    assert "~~" in forecast_tables(model), "what does not fit is struck out"
    text = law_table([model]) + forecast_tables(model)
    assert text.count("\n") == 3 + 4 + len(SIZES) * len(CLUSTERS) - 2


@pytest.mark.night
def test_growth_is_measured_on_beginnings_of_a_file(tmp_path: Path) -> None:
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
    (result,) = measured(tmp_path)
    points = result["points"]
    assert len(points) == 3
    assert [one["bytes"] for one in points] == sorted(one["bytes"] for one in points)
    assert points[-1]["bytes"] == corpus.stat().st_size
    assert points[-1]["words"] == pytest.approx(960_000, rel=0.1)  # lines begin with a new line
    assert 0 < points[-1]["once"] < points[-1]["distinct"] <= 90_000 + 1
    assert result["storing"]["shard_rows"] >= 0.9 * points[-1]["distinct"]
    assert result["storing"]["shard_bytes"] > 0
