"""A clock of the day that is wrong, another way at each reading: nothing depends on it."""

from __future__ import annotations

import pytest

from .conftest import Record, Work, difference


@pytest.mark.night
def test_work_by_a_wrong_clock(work: Work, record: Record) -> None:
    attempts, expected = work.attempts, work.state
    for case in range(1, record.amounts.clocks + 1):
        if not record.wants(case):
            continue
        repeated = f"{record.suite} --point {case} --seed {record.seed}"
        with attempts.afresh() as attempt:
            ended = attempt(clock=record.seed * 1_000 + case)
            record.add("wrong clocks")
            if ended.error or ended.signal:
                record.fail(repeated, ended.error or f"signal {ended.signal}")
            elif unlike := difference(ended.result["state"], expected):
                record.fail(repeated, unlike)
    record.require_none()
