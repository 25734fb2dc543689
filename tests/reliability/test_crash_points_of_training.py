"""A training killed before and after every durable operation, up to the record in the outbox."""

from __future__ import annotations

from pathlib import Path

import pytest
from zygote import Zygote

from .attempts import training
from .conftest import Golden, Record
from .crash_points import require_every_point


@pytest.mark.slow
def test_a_training_killed_at_any_operation_ends_as_if_nothing_had_been(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    attempts = training(zygote, golden.empty, golden.corpus, place)
    require_every_point(record, golden.training, golden.waiting, attempts)
