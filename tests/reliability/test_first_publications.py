"""Killed while MLflow's database is made or upgraded: the next publication succeeds.

MLflow's own migrations take seconds and leave nothing on disk before they are done; most kills here
are aimed at what follows: there the tables come from a copy.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from mlflow_tables import OLDER, make_older, revision_of
from zygote import Ended, Zygote

from .attempts import Attempts
from .conftest import Golden, Record, difference

pytestmark = pytest.mark.night

REAL = 6  # one of so many kills meets MLflow's own migrations


@pytest.fixture
def first(zygote: Zygote, golden: Golden, place: Path) -> Attempts:
    """The first publication of a result that waits."""
    begin, made = place / "begin", place / "workspace"
    shutil.copytree(golden.outbox, begin, ignore=shutil.ignore_patterns("mlflow.sqlite*"))
    tables = str(place / "tables.sqlite")
    return Attempts(
        zygote, "publish_first", made, str(begin), {"workspace": made, "tables": tables}
    )


def publish(first: Attempts, **how: Any) -> Ended:
    return first.zygote.run(first.job, **{**first.arguments, **how})


def require_published(record: Record, first: Attempts, golden: Golden, repeated: str) -> None:
    """The same command again, in the workspace where it was killed; then doctor."""
    ended = publish(first)
    record.add("recoveries")
    if ended.error or ended.signal:
        record.fail(repeated, ended.error or f"signal {ended.signal}")
    elif unlike := difference(ended.result["state"], golden.finished):
        record.fail(repeated, unlike)
    else:
        said = first.zygote.run("doctor_on_mlflow", workspace=first.made).returned()
        if said[0] != "ok":
            record.fail(repeated, said)


def test_killed_while_the_database_is_made(first: Attempts, golden: Golden, record: Record) -> None:
    seconds = {}
    for tables in (first.arguments["tables"], ""):  # the first one makes them
        for _ in range(2 if tables else 1):
            with first.afresh():
                began = time.time()
                publish(first, tables=tables, looks=False).returned()
                made = (first.made / "mlflow.sqlite.lock").stat().st_mtime
                seconds[bool(tables)] = made - began
                latest = revision_of(first.made / "mlflow.sqlite")
    case = 0
    while record.counts.get("kills", 0) < record.amounts.kills["first publication"]:
        case += 1
        chance = random.Random(f"{record.seed}/{case}")
        tables = "" if case % REAL == 0 else first.arguments["tables"]
        # Mostly at the end of it, where something is written.
        after = seconds[bool(tables)] * (1 - chance.random() ** 2 + 0.05)
        with first.afresh():
            ended = publish(first, kill_after=after, tables=tables, looks=False)
            if ended.signal == signal.SIGKILL:
                record.add("kills")
                path = first.made / "mlflow.sqlite"
                state = revision_of(path)
                record.add(f"{'whole' if state else 'absent'} after a kill")
                if state not in {"", latest}:
                    record.fail(f"{record.suite}, kill {case} --seed {record.seed}", state)
            require_published(record, first, golden, f"kill {case} --seed {record.seed}")
        if len(record.failures) > 5:
            break
    record.require_none()


def test_killed_while_an_older_one_is_upgraded(
    first: Attempts, golden: Golden, record: Record
) -> None:
    make_older(Path(first.begin) / "mlflow.sqlite")
    with first.afresh():
        began = time.time()
        publish(first, tables="", looks=False).returned()
        seconds, latest = time.time() - began, revision_of(first.made / "mlflow.sqlite")
    case = 0
    while record.counts.get("kills", 0) < record.amounts.kills["upgrade"]:
        case += 1
        chance = random.Random(f"{record.seed}/{case}")
        with first.afresh():
            ended = publish(
                first, kill_after=chance.uniform(0.2, 1) * seconds, tables="", looks=False
            )
            if ended.signal == signal.SIGKILL:
                record.add("kills")
                state = revision_of(first.made / "mlflow.sqlite")
                record.add(f"{'older' if state == OLDER else 'new'} after a kill")
                if state not in {OLDER, latest}:
                    record.fail(f"kill {case} --seed {record.seed}", state)
                for aside in first.made.glob(".tmp-*-upgraded-*"):  # as the next training does
                    shutil.rmtree(aside)
            require_published(record, first, golden, f"kill {case} --seed {record.seed}")
    record.require_none()


def test_two_make_it_at_once(zygote: Zygote, first: Attempts, golden: Golden, place: Path) -> None:
    """Two workspaces with one MLflow; both publish the same result."""
    places = [place / "one", place / "other"]
    for one in places:
        shutil.copytree(str(first.begin), one)
    uri = f"sqlite:///{place / 'shared' / 'mlflow.sqlite'}"
    jobs = [("prepare_mlflow", {"workspace": one, "uri": uri}) for one in places]
    assert [one.returned() for one in zygote.run_together(jobs)] == [[], []]
    assert revision_of(place / "shared" / "mlflow.sqlite")
    left = {path.name for path in (place / "shared").iterdir()}
    assert left == {"mlflow.sqlite", "mlflow.sqlite.lock"}
