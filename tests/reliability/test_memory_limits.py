"""Too little memory, wherever it ends: a `MemoryError` or one of ours, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from zygote import Zygote

from .attempts import Attempts, encoding, publication, training
from .conftest import Golden, Record
from .test_disk_faults import require_the_end

LIMITS = 20  # that are tried for each, unless --cases multiplies them
# Bytes more than a process has that begins: with fewer Python waits for ever for a thread that it
# could not start, and the most are enough for all that is done here.
FEWEST, MOST = 1 << 20, 600 << 20


def require_survival(
    record: Record, cases: float, attempts: Attempts, expected: dict[str, Any]
) -> None:
    """Let a job have more and more memory, until it is enough; then let the same command end."""
    limits = int(LIMITS * cases)
    for case in range(1, limits + 1):
        if not record.wants(case):
            continue
        memory = FEWEST + MOST * (case - 1) ** 2 // (limits - 1) ** 2
        repeated = f"{record.suite} --point {case} ({memory >> 10} KiB)"
        with attempts.afresh() as attempt:
            ended = attempt(memory=memory)
            record.add("limits")
            record.add("typed errors", int(ended.typed))
            if ended.signal or (ended.error and not ended.typed):
                record.fail(repeated, ended.error or f"signal {ended.signal}")
            require_the_end(record, repeated, attempt(), expected)
    record.require_none()


@pytest.mark.slow
def test_a_training_with_too_little_memory(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = training(zygote, golden.empty, golden.corpus, place)
    require_survival(record, cases, attempts, golden.waiting)


@pytest.mark.slow
def test_a_publication_with_too_little_memory(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = publication(zygote, golden.outbox, place)
    require_survival(record, cases, attempts, golden.finished)


@pytest.mark.slow
def test_an_encoding_with_too_little_memory(
    zygote: Zygote, golden: Golden, place: Path, record: Record, cases: float
) -> None:
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    require_survival(record, cases, attempts, attempts.undisturbed()["state"])
