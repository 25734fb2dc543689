"""A disk that is full, broken or out of descriptors, at every operation: a typed error, no loss."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from zygote import Ended, Zygote

from .conftest import Golden, Record, difference

Attempt = Callable[..., Ended]

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE)
EACH = 2  # of so many operations one fails, unless --cases is above 1
FILE_SIZES = 24  # limits that are tried, unless --cases multiplies them


def require_typed_errors(
    record: Record,
    operations: list[str],
    expected: dict[str, Any],
    attempts: Callable[[], Iterator[Attempt]],
    errors_each: int,
) -> None:
    """Let each operation fail, see a typed error, then let the same command end."""
    for number, operation in enumerate(operations, 1):
        if not record.wants(number, one_of=EACH):
            continue
        for turn in range(errors_each):
            error = ERRORS[(number + record.seed + turn) % len(ERRORS)]
            lasting = error == errno.ENOSPC  # a full disk stays full
            said = f"{record.suite} --point {number} --seed {record.seed}"
            repeated = f"{said} ({errno.errorcode[error]} at {operation})"
            for attempt in attempts():
                failed = attempt(point=number, error=error, lasting=lasting)
                record.add("faults")
                if failed.signal:
                    record.fail(repeated, f"signal {failed.signal}")
                elif failed.error and not failed.typed:
                    record.fail(repeated, failed.error)
                resumed = attempt()
                if resumed.error or resumed.signal:
                    record.fail(repeated, f"afterwards: {resumed.error or resumed.signal}")
                elif unlike := difference(resumed.result["state"], expected):
                    record.fail(repeated, f"afterwards: {unlike}")
    record.add("operations", len(operations))
    record.require_none()


@pytest.fixture
def errors_each(cases: float) -> int:
    """How many of the errors every operation meets: one by turns, or all of them."""
    return len(ERRORS) if cases > 1 else 1


@pytest.mark.slow
def test_a_training_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record, errors_each: int
) -> None:
    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(golden.empty, workspace)
        yield lambda **fault: zygote.run(
            "train", workspace=workspace, corpus=golden.corpus, **fault
        )
        shutil.rmtree(workspace)

    require_typed_errors(record, golden.training, golden.waiting, attempts, errors_each)


@pytest.mark.slow
def test_a_publication_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record, errors_each: int
) -> None:
    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(golden.outbox, workspace)
        yield lambda **fault: zygote.run("publish_waiting", workspace=workspace, **fault)
        shutil.rmtree(workspace)

    require_typed_errors(record, golden.publishing, golden.finished, attempts, errors_each)


@pytest.mark.slow
def test_an_encoding_meets_a_failing_disk_at_any_operation(
    zygote: Zygote, golden: Golden, place: Path, record: Record, errors_each: int
) -> None:
    def attempts() -> Iterator[Attempt]:
        out = place / "tokens"
        yield lambda **fault: zygote.run(
            "encode", workspace=golden.registered, corpus=golden.corpus, out=out, **fault
        )
        shutil.rmtree(out)

    first = next(attempt() for attempt in attempts()).returned()
    shutil.rmtree(place / "tokens", ignore_errors=True)
    require_typed_errors(record, first["operations"], first["state"], attempts, errors_each)


@pytest.mark.slow
def test_no_file_may_grow_beyond_a_limit(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    """The system's own limit: it meets DuckDB and SQLite too, in the middle of their writes."""
    largest = 1_100_000  # nearly that of MLflow's database
    workspace = str(place / "workspace")
    arguments = {"workspace": workspace, "corpus": golden.corpus}
    limits = int(FILE_SIZES * cases)
    for case in range(1, limits + 1):
        if not record.wants(case):
            continue
        limit = largest * case * case // (limits * limits)
        shutil.copytree(golden.empty, workspace)
        failed = zygote.run("train", largest_file=limit, **arguments)
        repeated = f"{record.suite} --point {case} ({limit} bytes)"
        record.add("limits")
        record.add("typed errors", int(failed.typed))
        if failed.signal or (failed.error and not failed.typed):
            record.fail(repeated, failed.error or f"signal {failed.signal}")
        resumed = zygote.run("train", **arguments)
        if resumed.error or resumed.signal:
            record.fail(repeated, f"afterwards: {resumed.error or resumed.signal}")
        elif unlike := difference(resumed.result["state"], golden.waiting):
            record.fail(repeated, f"afterwards: {unlike}")
        shutil.rmtree(workspace)
    record.require_none()
