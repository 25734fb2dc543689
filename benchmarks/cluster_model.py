"""Machines on paper, and how long they take for many independent tasks: a simulation of events.

Knows nothing of text. A scheduler hands out tasks one by one; a task takes a core for as long as
its computing or its reading takes, whichever is longer, and its durations vary; machines fail now
and then, and what they were doing is done again elsewhere.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

DISPATCH = 0.002  # seconds of the scheduler for each task
SPREAD = 0.15  # standard deviation of the logarithm of a task's duration
RESTART = 120.0  # seconds until a failed machine works again, kernels loaded
START = 10.0  # seconds until workers have started and loaded their kernels


@dataclass(frozen=True, slots=True)
class Cluster:
    """Like machines that read from one storage.

    Attributes:
        name: for people.
        machines, cores: how many, and of each.
        memory: GB of each.
        network: GB/s that one machine reads at most.
        storage: GB/s that all of them read at most.
        failures: of one machine, per hour.
    """

    name: str
    machines: int
    cores: int
    memory: int
    network: float
    storage: float
    failures: float = 0.001

    @property
    def all_cores(self) -> int:
        return self.machines * self.cores

    @property
    def reading(self) -> float:
        """Bytes a second for each core when all read."""
        return 1e9 * min(self.network / self.cores, self.storage / self.all_cores)


@dataclass(frozen=True, slots=True)
class Task:
    """Work for one core: seconds of computing, bytes to read and write."""

    seconds: float
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all tasks.

    Attributes:
        seconds: from the first dispatch to the last end.
        busy: the share of core time that went into tasks that finished.
        repeated: how many were lost with a machine and done again.
    """

    seconds: float
    busy: float
    repeated: int


def simulate(tasks: Sequence[Task], cluster: Cluster, seed: int = 0) -> Outcome:
    """Carry out tasks in their order; the same seed gives the same outcome."""
    random_ = random.Random(seed)
    mean_life = 3600 / cluster.failures if cluster.failures else float("inf")
    ends = [_life(random_, mean_life) for _ in range(cluster.machines)]
    free = [(0.0, core % cluster.machines, core) for core in range(cluster.all_cores)]
    heapq.heapify(free)
    waiting, lost = deque(tasks), []
    scheduler = useful = finished = 0.0
    repeated = 0
    while waiting or lost:
        at, machine, core = heapq.heappop(free)
        while at >= ends[machine]:  # failed while this core was idle
            at = max(at, ends[machine] + RESTART)
            ends[machine] = at + _life(random_, mean_life)
        scheduler = begin = max(scheduler, at) + DISPATCH
        known, task = heapq.heappop(lost)[0::2] if _is_due(lost, begin, waiting) else (0, None)
        task = task or waiting.popleft()
        begin = max(begin, known)
        lasts = max(task.seconds, task.bytes / cluster.reading) * random_.lognormvariate(0, SPREAD)
        if begin + lasts > ends[machine]:
            repeated += 1
            heapq.heappush(lost, (ends[machine], repeated, task))
            heapq.heappush(free, (ends[machine] + RESTART, machine, core))
            continue
        useful += lasts
        finished = max(finished, begin + lasts)
        heapq.heappush(free, (begin + lasts, machine, core))
    core_seconds = finished * cluster.all_cores
    return Outcome(finished, useful / core_seconds if core_seconds else 0.0, repeated)


def _is_due(lost: list[tuple[float, int, Task]], at: float, waiting: deque[Task]) -> bool:
    """Whether a lost task is next: its machine's end is known by now, or nothing else is left."""
    return bool(lost) and (lost[0][0] <= at or not waiting)


def _life(random_: random.Random, mean_life: float) -> float:
    return random_.expovariate(1 / mean_life) if mean_life < float("inf") else mean_life
