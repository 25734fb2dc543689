"""A disk that is full, broken, read-only or refuses, at every operation: a typed error, no loss."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
from zygote import Ended, Zygote

from .attempts import Attempts, encoding, publication, training
from .conftest import Golden, Record, difference

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EDQUOT, errno.EACCES, errno.EROFS)
LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # a full disk stays full
FAILURES_IN_ONE_PROCESS = 60  # more would take longer than a job may
FILE_SIZES = 24  # limits there are


def require_typed_errors(
    record: Record,
    operations: list[str],
    expected: dict[str, Any],
    attempts: Attempts,
) -> None:
    """Let each operation fail, see a typed error, then let the same command end."""
    one_of = record.amounts.one_of_disk_faults
    for number, operation in enumerate(operations, 1):
        if not record.wants(number, one_of):
            continue
        for turn in range(record.amounts.disk_errors):
            error = ERRORS[(number // one_of + record.seed + turn) % len(ERRORS)]
            lasting = error in LASTING
            said = f"{record.suite} --point {number} --seed {record.seed}"
            repeated = f"{said} ({errno.errorcode[error]} at {operation})"
            with attempts.afresh() as attempt:
                failed = attempt(point=number, error=error, lasting=lasting)
                record.add("faults")
                if failed.signal:
                    record.fail(repeated, f"signal {failed.signal}")
                elif failed.error and not failed.typed:
                    record.fail(repeated, failed.error)
                require_the_end(record, repeated, attempt(), expected)
    record.add("operations", len(operations))
    record.require_none()


def require_the_end(
    record: Record, repeated: str, resumed: Ended, expected: dict[str, Any]
) -> None:
    """The same command, on a disk that works again, ends as if nothing had been."""
    if resumed.error or resumed.signal:
        record.fail(repeated, f"afterwards: {resumed.error or resumed.signal}")
    elif unlike := difference(resumed.result["state"], expected):
        record.fail(repeated, f"afterwards: {unlike}")


@pytest.mark.night
def test_a_training_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    attempts = training(zygote, golden.empty, golden.corpus, place)
    require_typed_errors(record, golden.training, golden.waiting, attempts)


@pytest.mark.night
def test_a_publication_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    attempts = publication(zygote, golden.outbox, place)
    require_typed_errors(record, golden.publishing, golden.finished, attempts)


@pytest.mark.night
def test_an_encoding_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    first = attempts.undisturbed()
    require_typed_errors(record, first["operations"], first["state"], attempts)


@pytest.mark.night
def test_failures_leave_nothing_open(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """In one process, as in a notebook: files, threads and children do not become more."""
    workspace = place / "workspace"
    shutil.copytree(golden.empty, workspace)
    last = len(golden.training)
    every = range(1, last + 1, record.amounts.one_of_disk_faults)
    for begin in range(0, len(every), FAILURES_IN_ONE_PROCESS):
        points = [1, last // 2, *every[begin : begin + FAILURES_IN_ONE_PROCESS]]
        named = {"workspace": workspace, "corpus": golden.corpus, "points": points}
        held = zygote.run("fail_again", error=errno.EIO, **named).returned()
        record.add("failures in one process after the other", len(held))
        for point, one in zip(points[2:], held[2:], strict=True):
            if any(now > then for now, then in zip(one, held[1], strict=True)):
                record.fail(record.suite, f"after a failure at {point}: {one}, at first {held[1]}")
    record.require_none()


@pytest.mark.night
def test_no_file_may_grow_beyond_a_limit(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """The system's own limit: it meets DuckDB and SQLite too, in the middle of their writes."""
    largest = 1_100_000  # nearly that of MLflow's database
    attempts = training(zygote, golden.empty, golden.corpus, place)
    for case in range(1, FILE_SIZES + 1):
        if not record.wants(case, record.amounts.one_of_limits):
            continue
        limit = largest * case * case // (FILE_SIZES * FILE_SIZES)
        repeated = f"{record.suite} --point {case} ({limit} bytes)"
        with attempts.afresh() as attempt:
            failed = attempt(largest_file=limit)
            record.add("limits")
            record.add("typed errors", int(failed.typed))
            if failed.signal or (failed.error and not failed.typed):
                record.fail(repeated, failed.error or f"signal {failed.signal}")
            require_the_end(record, repeated, attempt(), golden.waiting)
    record.require_none()
