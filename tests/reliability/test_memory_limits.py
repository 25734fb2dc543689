"""Too little memory, wherever it ends: a `MemoryError` or one of ours, and nothing is lost."""

from __future__ import annotations

import pytest

from .conftest import Record, Work
from .test_disk_faults import require_the_end

LIMITS = 20  # there are for each kind of work
# Bytes more than a process has that begins; the most are enough for all that is done here.
FEWEST, MOST = 1 << 20, 600 << 20
# Where memory ends just when a thread has been started, Python waits for it for ever. That is a
# small window, and whoever kills the process loses nothing.
HUNG = "hung in Python's threads, and killed"


@pytest.mark.slow
def test_work_with_too_little_memory(work: Work, record: Record) -> None:
    """More and more memory, until it is enough; then the same command ends as it should."""
    attempts, expected = work.attempts, work.state
    for case in range(1, LIMITS + 1):
        if not record.wants(case, record.amounts.one_of_limits):
            continue
        memory = FEWEST + MOST * (case - 1) ** 2 // (LIMITS - 1) ** 2
        repeated = f"{record.suite} --point {case} ({memory >> 10} KiB)"
        with attempts.afresh() as attempt:
            ended = attempt(memory=memory)
            record.add("limits")
            record.add("typed errors", int(ended.typed))
            if ended.hung and record.counts.get(HUNG, 0) < LIMITS // 10:
                record.add(HUNG)
            elif ended.signal or (ended.error and not ended.typed):
                record.fail(repeated, ended.error or f"signal {ended.signal}")
            require_the_end(record, repeated, attempt(), expected)
    record.require_none()
