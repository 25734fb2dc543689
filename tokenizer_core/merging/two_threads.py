"""A second thread beside the one that merges; knows nothing of words or of the order of merges."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import TypeVar

import numpy as np

from bpeline.tokenizer_core.kernels.merging import merge_halves
from bpeline.tokenizer_core.kernels.merging.merge_state import TOKENS, Integer, Limits, MergeState

_LEAST_SHARED = 2048  # occurrences of a pair; for fewer, meeting costs as much as it saves
_SHARE_WORTH_IT = 0.2  # of merges; where fewer are shared, a helper does little but wait
_PATIENCE = 1 << 22  # looks for work in vain; some milliseconds

One = TypeVar("One")
Other = TypeVar("Other")


def at_once(one: Callable[[], One], other: Callable[[], Other]) -> tuple[One, Other]:
    """What two calls return that are made at the same time."""
    with ThreadPoolExecutor(1) as second:
        later = second.submit(other)
        return one(), later.result()


class MergeHelper:
    """A thread that takes its half of each frequent pair while there are such pairs.

    Args:
        state: the arrays of who leads; `stop` comes before any of them is exchanged or moved.
        half: the same, but ``changes``, ``touched`` and ``sizes`` of its own.
    """

    def __init__(self, state: MergeState, half: MergeState) -> None:
        self._state, self._half = state, half
        self._task = np.zeros(merge_halves.TASK, np.int64)
        self._task[merge_halves.TAKEN] = 1
        self._thread: Thread | None = None
        self._is_worth_it = True

    def learn(self, limits: Limits, goal: int) -> Integer:
        """What `merge_step.learn` does, with help if frequent pairs were many in the last call."""
        if self._is_worth_it and not (self._thread and self._thread.is_alive()):
            given = self._half, self._task, _PATIENCE
            self._thread = Thread(target=merge_halves.help_merging, args=given)
            self._thread.start()
        shared, merges = int(self._task[merge_halves.SHARED]), self._merges
        status: Integer = merge_halves.learn_in_halves(
            self._state, limits, self._half, self._task, _LEAST_SHARED, goal
        )
        shared, merges = int(self._task[merge_halves.SHARED]) - shared, self._merges - merges
        self._is_worth_it = shared >= _SHARE_WORTH_IT * merges
        return status

    @property
    def _merges(self) -> int:
        """How many there are, and base tokens."""
        return int(self._state.sizes[TOKENS])

    def stop(self) -> None:
        """Wait until nobody helps any more."""
        self._task[merge_halves.OVER] = 1
        if self._thread is not None:
            self._thread.join()
