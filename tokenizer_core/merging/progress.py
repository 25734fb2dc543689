"""How training tells what it is doing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_REPORT_SECONDS = 0.1
_MEMORY_OF_SPEED = 0.7  # how much of the earlier estimate of seconds per merge survives a report


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Where training stands.

    Attributes:
        merges_done, merges_total: merges made so far and wanted, those of a checkpoint included.
        best_pair: (left, right) bytes of the last merge.
        best_count: how often it occurred when it was merged.
        seconds: since the first merge began.
        eta_seconds: estimated time to the last merge, at the recent speed.
    """

    merges_done: int
    merges_total: int
    best_pair: tuple[bytes, bytes]
    best_count: int
    seconds: float
    eta_seconds: float


OnProgress = Callable[[TrainingProgress], None]


class Merger(Protocol):
    """What merges pairs one after the other: `MergeEngine`, `ParityEngine`."""

    base: int

    @property
    def merges_done(self) -> int:
        """How many there are."""

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged."""

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until ``goal`` have been made; goal ≤ n."""

    def token(self, token: int) -> bytes:
        """The bytes of a token."""


class Reporter:
    """Calls ``on_progress`` at most ten times a second, and once at the end."""

    def __init__(self, on_progress: OnProgress | None, engine: Merger, total: int) -> None:
        self._on_progress = on_progress
        self._engine = engine
        self._total = total
        self._began = self._reported = time.monotonic()
        self._reported_merges = engine.merges_done
        self._seconds_per_merge: float | None = None

    def look(self) -> None:
        """Report if the last report is long enough ago."""
        if self._on_progress and time.monotonic() - self._reported >= _REPORT_SECONDS:
            self._report()

    def finish(self) -> None:
        """Report the end, unless it has been reported."""
        if self._on_progress and self._engine.merges_done > self._reported_merges:
            self._report()

    def _report(self) -> None:
        assert self._on_progress is not None
        now, done = time.monotonic(), self._engine.merges_done
        if done > self._reported_merges:
            recent = (now - self._reported) / (done - self._reported_merges)
            earlier = recent if self._seconds_per_merge is None else self._seconds_per_merge
            self._seconds_per_merge = earlier + (1 - _MEMORY_OF_SPEED) * (recent - earlier)
        self._reported, self._reported_merges = now, done
        if done == 0:
            return
        left, right, count = self._engine.learned[-1].tolist()
        self._on_progress(
            TrainingProgress(
                merges_done=done,
                merges_total=self._total,
                best_pair=(self._engine.token(left), self._engine.token(right)),
                best_count=count,
                seconds=now - self._began,
                eta_seconds=(self._total - done) * (self._seconds_per_merge or 0.0),
            )
        )
