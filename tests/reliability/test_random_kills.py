"""Killed at random moments, up to twelve times in a row, in compiled code as in Python.

What no number reaches is reached here: DuckDB's and SQLite's own writes, MLflow's files, threads
that were half-way. Every case has a number of its own, from which all of its delays follow.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest
from zygote import Zygote

from .attempts import Attempts, superwords, training
from .conftest import Golden, Record, Work, difference

IN_A_ROW = 12  # at most, before one is left to end
ENOUGH_FAILURES = 20  # something is wrong with every case


def require_survival(
    record: Record, kills: int, attempts: Attempts, expected: dict[str, Any]
) -> None:
    """Kill a job again and again until enough were killed; each row of kills ends undisturbed."""
    whole = 0.5  # seconds its work takes, as far as is known
    case = 0
    while record.counts.get("kills", 0) < kills or not case:
        case += 1
        if len(record.failures) >= ENOUGH_FAILURES:
            break
        if not record.wants(case):
            if case > record.only:
                break
            continue
        repeated = f"{record.suite} --point {case} --seed {record.seed}"
        chance = random.Random(f"{record.seed}/{record.suite}/{case}")
        with attempts.afresh() as attempt:
            for _ in range(chance.randint(1, IN_A_ROW)):
                ended = attempt(kill_after=chance.random() * whole, looks=False)
                if ended.signal == signal.SIGKILL:
                    record.add("kills")
                elif ended.error or ended.signal:
                    record.fail(repeated, ended.error or f"signal {ended.signal}")
                else:
                    record.add("ended before the signal")
            ended = attempt()
        record.add("recoveries")
        if ended.error or ended.signal:
            record.fail(repeated, ended.error or f"signal {ended.signal}")
            continue
        whole = 0.8 * whole + 0.2 * ended.result["seconds"]
        if unlike := difference(ended.result["state"], expected):
            record.fail(repeated, unlike)
    record.require_none()


@pytest.mark.night
def test_work_killed_at_random(work: Work, record: Record) -> None:
    require_survival(record, record.amounts.kills[work.kind], work.attempts, work.state)


TRAININGS: dict[str, dict[str, Any]] = {
    "of a size to choose": {
        "vocab_size": "auto",
        "largest_size": 1_200,
        "model_shape": "llama-3.2-1b",
    },
    "across spaces": {},
}


@pytest.mark.night
@pytest.mark.parametrize("which", TRAININGS)
def test_other_trainings_killed_at_random(
    which: str, zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Superwords, and a size that is chosen; plain trainings are above."""
    if which == "across spaces":
        attempts = superwords(zygote, golden.registered, place)
    else:
        attempts = training(zygote, golden.empty, golden.corpus, place, **TRAININGS[which])
    expected = attempts.undisturbed()["state"]
    assert any(name.startswith("outbox/") for name in expected), "else nothing was learned"
    require_survival(record, record.amounts.kills["other training"], attempts, expected)
