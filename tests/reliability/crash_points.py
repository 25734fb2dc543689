"""Killing a job at each of its durable operations; shared by the suites that do."""

from __future__ import annotations

import signal
from typing import Any

from .attempts import Attempts
from .conftest import Record, difference

LATE = 5  # of so many operations one is also killed after it, unless --cases is above 1


def require_every_point(
    record: Record,
    operations: list[str],
    expected: dict[str, Any],
    attempts: Attempts,
) -> None:
    """Kill an attempt at each operation, before and after it, and let a second one end."""
    for number, operation in enumerate(operations, 1):
        for late in (False, True):
            # The next one dies before its own operation: little lies between the two.
            if not record.wants(number, one_of=LATE if late else 1):
                continue
            repeated = (
                f"{record.suite} --point {number} ({'after' if late else 'before'} {operation})"
            )
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
