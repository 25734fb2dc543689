"""When merges are saved; knows neither their file format nor how they are learned."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.merging.checkpoint import Checkpoint, save_checkpoint

_SECONDS = 1.0
_SHARE = 20  # a write that took t seconds is followed by 20 t seconds of work at least


class CheckpointSchedule:
    """Saves after every second of work or every so many merges, whichever comes first.

    On a slow disk the merges wait, so that saving takes a twentieth of the time at most.

    Args:
        path: where to save.
        blank: a checkpoint of this run without merges.
        saved: how many merges the file holds already.
        every: merges after which a checkpoint is due; 1 saves after each merge, however slow.
    """

    def __init__(self, path: Path, blank: Checkpoint, saved: int, every: int) -> None:
        self._path = path
        self._blank = blank
        self._every = every
        self._saved = saved
        self._saved_at = time.monotonic()
        self._writing_took = 0.0

    @property
    def next_stop(self) -> int:
        """The number of merges at which a look is worth while."""
        return self._saved + self._every

    def look(self, learned: NDArray[np.int64]) -> None:
        """Save ``learned`` ([n, 3]: left, right, count) if it is time."""
        idle = time.monotonic() - self._saved_at
        due = len(learned) >= self.next_stop or idle >= _SECONDS
        if due and (self._every == 1 or idle >= _SHARE * self._writing_took):
            self.save(learned)

    def save(self, learned: NDArray[np.int64]) -> None:
        """Save ``learned`` unless the file holds as many merges."""
        if len(learned) <= self._saved:
            return
        began = time.monotonic()
        left, right = learned[:, 0].astype(np.int32), learned[:, 1].astype(np.int32)
        counts = learned[:, 2].copy()
        save_checkpoint(self._path, replace(self._blank, left=left, right=right, counts=counts))
        self._saved, self._saved_at = len(learned), time.monotonic()
        self._writing_took = self._saved_at - began
