"""A clock of the day that is wrong, another way at each reading: nothing depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from zygote import Zygote

from .attempts import Attempts, encoding, publication, training
from .conftest import Golden, Record, difference

CLOCKS = 3  # for each, unless --cases multiplies them


def require_the_same(
    record: Record, cases: float, attempts: Attempts, expected: dict[str, Any]
) -> None:
    """Let a job run by wrong clocks."""
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


@pytest.mark.slow
def test_a_training_by_a_wrong_clock(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = training(zygote, golden.empty, golden.corpus, place)
    require_the_same(record, cases, attempts, golden.waiting)


@pytest.mark.slow
def test_a_publication_by_a_wrong_clock(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = publication(zygote, golden.outbox, place)
    require_the_same(record, cases, attempts, golden.finished)


@pytest.mark.slow
def test_an_encoding_by_a_wrong_clock(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    require_the_same(record, cases, attempts, attempts.undisturbed()["state"])
