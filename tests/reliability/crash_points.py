"""Killing a job at each of its durable operations; shared by the suites that do."""

from __future__ import annotations

import signal
from typing import Any

from .attempts import Attempts
from .conftest import Record, difference


def require_every_point(
    record: Record,
    operations: list[str],
    expected: dict[str, Any],
    attempts: Attempts,
) -> None:
    """Kill an attempt before and after each operation, and let a second one end.

    Args:
        record: of this suite.
        operations: of an attempt that nobody kills.
        expected: the state it leads to.
        attempts: the job.
    """
    kills = [(late, number) for late in (False, True) for number in range(1, len(operations) + 1)]
    for case, (late, number) in enumerate(kills, 1):
        if not record.wants(case, record.amounts.one_of_crash_points):
            continue
        place = f"{'after' if late else 'before'} {operations[number - 1]}"
        repeated = f"{record.suite} --point {case} ({place})"
        with attempts.afresh() as attempt:
            killed = attempt(point=number, late=late, looks=False)
            record.add("kills")
            if killed.signal != signal.SIGKILL:
                record.fail(repeated, f"was not killed: {killed}")
                continue
            resumed = attempt()
            if resumed.error or resumed.signal:
                record.fail(repeated, resumed.error or f"signal {resumed.signal}")
            elif unlike := difference(resumed.result["state"], expected):
                record.fail(repeated, unlike)
    record.add("operations", len(operations))
    record.require_none()
