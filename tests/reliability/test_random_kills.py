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

from .attempts import Attempts, encoding, publication, training
from .conftest import Golden, Record, difference

# Kills, 1,000 in all, unless --cases multiplies them. Shares of trainings may run side by side.
TRAININGS, SHARES = 800, 4
PUBLICATIONS, ENCODINGS = 100, 100
IN_A_ROW = 12  # at most, before one is left to end
ENOUGH_FAILURES = 20  # something is wrong with every case


def require_survival(
    record: Record, kills: float, attempts: Attempts, expected: dict[str, Any]
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


@pytest.mark.slow
@pytest.mark.parametrize("share", range(1, SHARES + 1))
def test_trainings_killed_at_random(
    share: int, zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = training(zygote, golden.empty, golden.corpus, place, workers=2)
    require_survival(record, TRAININGS * cases / SHARES, attempts, golden.waiting)


@pytest.mark.slow
def test_publications_killed_at_random(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    """On a real MLflow: copying files, laying out the model, writing both databases."""
    attempts = publication(zygote, golden.outbox, place)
    require_survival(record, PUBLICATIONS * cases, attempts, golden.finished)


@pytest.mark.slow
def test_encodings_killed_at_random(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    require_survival(record, ENCODINGS * cases, attempts, attempts.undisturbed()["state"])
