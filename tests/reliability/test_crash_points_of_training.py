"""A training killed before and after every durable operation, up to the record in the outbox."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from zygote import Zygote

from .conftest import Golden, Record
from .crash_points import Attempt, require_every_point


@pytest.mark.slow
def test_a_training_killed_at_any_operation_ends_as_if_nothing_had_been(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    def attempts() -> Iterator[Attempt]:
        workspace = str(place / "workspace")
        shutil.copytree(golden.empty, workspace)
        yield lambda **point: zygote.run(
            "train", workspace=workspace, corpus=golden.corpus, **point
        )
        shutil.rmtree(workspace)

    require_every_point(record, golden.training, golden.waiting, attempts)
