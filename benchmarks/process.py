"""`python -m benchmarks.process REQUEST REPORT`: measure one contestant.

Started by `benchmarks.runner`; both files are JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measurement import Case

WHOLE = "all"  # the only phase of contestants that do not report phases
_STATUS = Path("/proc/self/status")


@dataclass(slots=True)
class Stopwatch:
    """Times phases in order: wall seconds, and CPU seconds of threads and children.

    Attributes:
        megabytes_before: peak memory before the first phase.
        more: other figures, which take precedence.
    """

    clock: Callable[[], float] = field(default=lambda: _cpu_seconds())
    phases: dict[str, float] = field(default_factory=dict)
    cpu_phases: dict[str, float] = field(default_factory=dict)
    megabytes_before: float = 0.0
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu_phases.values())

    @contextmanager
    def phase(self, name: str = WHOLE) -> Iterator[None]:
        if not self.phases:
            self.megabytes_before = memory("VmHWM")
        wall, cpu = time.perf_counter(), self.clock()
        yield
        self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - wall
        self.cpu_phases[name] = self.cpu_phases.get(name, 0.0) + self.clock() - cpu

    def split(self, ends: dict[str, float], begin: float, end: float) -> None:
        """Replace the single phase by those that a trainer reported.

        ``ends``: name → `time.perf_counter()` at its end, in order; the last one lasts to ``end``.
        """
        self.phases.clear()
        last = list(ends)[-1]
        for name, at in ends.items():
            until = end if name == last else at
            self.phases[name] = until - begin
            begin = until

    def figures(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_megabytes": memory("VmHWM"),
            "megabytes_before": self.megabytes_before,
            "phases": self.phases,
            "cpu_phases": self.cpu_phases,
            **self.more,
        }


def main() -> None:
    from benchmarks.measurements import MEASUREMENTS

    request, report = (Path(name) for name in sys.argv[1:])
    parameters = json.loads(request.read_text())
    case = Case(**parameters["case"])
    restrict_to(case.threads)
    watch = Stopwatch()
    contestant = MEASUREMENTS[parameters["measurement"]].named(parameters["contestant"])
    if contestant.folder:
        sys.path.insert(0, contestant.folder)
    outcome = contestant.run(case, watch)
    result = {"figures": watch.figures(), "found": outcome}
    report.write_text(json.dumps(result, default=bytes.hex))


def restrict_to(threads: int) -> None:
    """Limit this process to ``threads`` CPUs, which sets the size of thread pools."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


def memory(mark: str) -> float:
    """Peak (``VmHWM``) or current (``VmRSS``) memory of this process, in 10⁶ bytes.

    Read from /proc on Linux, where ``ru_maxrss`` includes the parent; elsewhere both are the peak.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith(f"{mark}:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (peak if sys.platform == "darwin" else peak * 1024) / 1e6


@contextmanager
def captured(descriptor: int) -> Iterator[Callable[[], str]]:
    """Capture what native code prints to descriptor 1 or 2."""
    text = ""
    saved = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield lambda: text
        finally:
            os.dup2(saved, descriptor)
            os.close(saved)
            file.seek(0)
            text = file.read().decode(errors="replace")


def _cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


if __name__ == "__main__":
    main()
