"""Asked to end at random moments, by Ctrl-C or a supervisor: it ends, and the next one goes on.

Python raises an exception wherever it happens to be: between any two lines of ours, of DuckDB's
and of MLflow's clients. Every case has a number of its own, from which all follows.
"""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest

from .attempts import Attempts
from .conftest import Record, Work, difference

ASKING = (signal.SIGINT, signal.SIGTERM)
ENDINGS = ("KeyboardInterrupt", "Terminated")
IMPATIENCE = 0.05  # seconds after which somebody asks again, at most
ENDS_WITHIN = 20.0  # seconds after the last signal


def require_an_end(
    record: Record, cases: int, attempts: Attempts, expected: dict[str, Any]
) -> None:
    """Ask a job to end; it does soon, for no other reason, and typed again it ends as it should."""
    whole = attempts.undisturbed()["seconds"]
    for case in range(1, cases + 1):
        if not record.wants(case):
            continue
        repeated = f"{record.suite} --point {case} --seed {record.seed}"
        chance = random.Random(f"{record.seed}/{record.suite}/{case}")
        signals = [(chance.random() * whole, chance.choice(ASKING))]
        if case % 3 == 0:
            signals.append((signals[0][0] + chance.random() * IMPATIENCE, chance.choice(ASKING)))
        with attempts.afresh() as attempt:
            ended = attempt(signals=signals, looks=False)
            record.add("signals", len(signals))
            if ended.hung or ended.seconds > signals[-1][0] + ENDS_WITHIN:
                record.fail(repeated, f"went on for {ended.seconds:.1f} seconds")
            elif ended.signal and ended.signal not in ASKING:
                record.fail(repeated, f"signal {ended.signal}")
            elif ended.error and ended.error.split(":")[0] not in (
                "KeyboardInterrupt",
                "Terminated",
            ):
                record.fail(repeated, ended.error)
            elif ended.result is None:
                record.add("ended where they were")
            resumed = attempt()
            if resumed.error or resumed.signal:
                record.fail(repeated, f"afterwards: {resumed.error or resumed.signal}")
            elif unlike := difference(resumed.result["state"], expected):
                record.fail(repeated, f"afterwards: {unlike}")
    record.require_none()


@pytest.mark.night
def test_work_asked_to_end(work: Work, record: Record) -> None:
    require_an_end(record, record.amounts.signals[work.kind], work.attempts, work.state)
