"""Wall and processor seconds of the named phases of one training; knows nothing of trainers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.memory import peak_megabytes

WHOLE = "all"  # the one phase of trainers that do not tell their phases apart


@dataclass(slots=True)
class Stopwatch:
    """Adds up phases in the order they began; what lies outside every phase is not measured.

    Attributes:
        phases: wall seconds by name.
        cpu_seconds: user and system time of all threads during all phases.
        megabytes_before: the process's peak memory before the first phase.
    """

    phases: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    megabytes_before: float = 0.0

    @property
    def seconds(self) -> float:
        """Wall seconds of all phases together."""
        return sum(self.phases.values())

    @contextmanager
    def phase(self, name: str = WHOLE) -> Iterator[None]:
        if not self.phases:
            self.megabytes_before = peak_megabytes()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - wall
        self.cpu_seconds += time.process_time() - cpu

    def split(self, ends: dict[str, float], begin: float, end: float) -> None:
        """Replace the one phase by several that a trainer reported while it ran.

        Args:
            ends: name → `time.perf_counter()` at its end, in order; the last one lasts to ``end``.
            begin, end: of the whole.
        """
        self.phases.clear()
        last = list(ends)[-1]
        for name, at in ends.items():
            until = end if name == last else at
            self.phases[name] = until - begin
            begin = until
