"""A clock of the day that is wrong, another way at each reading: nothing depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from .attempts import Attempts
from .conftest import Record, difference

CLOCKS = 3  # for each kind of work, unless --cases multiplies them


@pytest.mark.slow
def test_work_by_a_wrong_clock(
    work: tuple[Attempts, dict[str, Any]], record: Record, cases: float
) -> None:
    attempts, expected = work
    for case in range(1, int(CLOCKS * cases) + 1):
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
