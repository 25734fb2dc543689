"""Killed at random moments, up to five times in a row, in compiled code as in Python: all the same.

What no number reaches is reached here: DuckDB's and SQLite's own writes, MLflow's files, threads
that were half-way. Every case has a number of its own, from which all of its delays follow.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from zygote import Zygote

from .conftest import Golden, Record, difference

TRAININGS, PUBLICATIONS, ENCODINGS = 160, 20, 20  # kills, unless --cases multiplies them


def require_survival(
    zygote: Zygote,
    record: Record,
    kills: float,
    begin: str | None,
    made: Path,
    job: str,
    expected: dict[str, Any],
    **arguments: Any,
) -> None:
    """Kill a job again and again until enough were killed; each row of kills ends undisturbed."""
    whole = 0.5  # seconds it takes, as far as is known
    case = 0
    while record.counts.get("kills", 0) < kills or not case:
        case += 1
        if not record.wants(case):
            if case > record.only:
                break
            continue
        chance = random.Random(f"{record.seed}/{case}")
        if begin is not None:
            shutil.copytree(begin, made)
        for _ in range(chance.randint(1, 5)):
            delay = chance.random() * whole
            ended = zygote.run(job, kill_after=delay, **arguments)
            if ended.signal == signal.SIGKILL:
                record.add("kills")
            elif ended.error:
                record.fail(f"{record.suite} --point {case} --seed {record.seed}", ended.error)
            else:
                record.add("ended before the signal")
        ended = zygote.run(job, **arguments)
        whole = 0.8 * whole + 0.2 * ended.seconds
        record.add("recoveries")
        unlike = ended.error or difference((ended.result or {"state": {}})["state"], expected)
        if unlike or ended.signal:
            repeated = f"{record.suite} --point {case} --seed {record.seed}"
            record.fail(repeated, unlike or f"signal {ended.signal}")
        shutil.rmtree(made, ignore_errors=True)
    record.require_none()


@pytest.mark.slow
def test_trainings_killed_at_random(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    workspace = place / "workspace"
    require_survival(
        zygote, record, TRAININGS * cases, golden.empty, workspace, "train", golden.waiting,
        workspace=workspace, corpus=golden.corpus, workers=2,
    )  # fmt: skip


@pytest.mark.slow
def test_publications_killed_at_random(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    """On a real MLflow: copying files, laying out the model, writing both databases."""
    workspace = place / "workspace"
    require_survival(
        zygote, record, PUBLICATIONS * cases, golden.outbox, workspace, "publish_waiting",
        golden.finished, workspace=workspace,
    )  # fmt: skip


@pytest.mark.slow
def test_encodings_killed_at_random(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    out = place / "tokens"
    arguments = {"workspace": golden.registered, "corpus": golden.corpus, "out": out}
    expected = zygote.run("encode", **arguments).returned()["state"]
    shutil.rmtree(out)
    require_survival(zygote, record, ENCODINGS * cases, None, out, "encode", expected, **arguments)
