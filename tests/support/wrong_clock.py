"""A clock of the day that jumps by years whenever it is read, forwards and backwards."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from bpeline.registry.catalogue import values

_YEARS = (-30, 80)  # from now: from before 2000 to beyond 2038
_SECONDS_A_YEAR = 31_556_952


@contextmanager
def wrong_clock(seed: int) -> Iterator[None]:
    """Let Python's clock of the day be wrong, another way at each reading.

    What measures durations is left alone: `time.monotonic` is not set by anybody.
    """
    chance = random.Random(seed)
    right = time.time

    def wrong() -> float:
        return right() + chance.uniform(*_YEARS) * _SECONDS_A_YEAR

    class WrongDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> WrongDatetime:
            return cls.fromtimestamp(wrong(), tz)

    with (
        patch.object(time, "time", wrong),
        patch.object(time, "time_ns", lambda: int(wrong() * 1e9)),
        patch.object(values, "datetime", WrongDatetime),
    ):
        yield
