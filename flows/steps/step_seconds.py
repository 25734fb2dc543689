"""How long the steps of a training take, roughly: as they took before, else as they usually do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bpeline.flows.requests import TrainingRequest

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Run


@dataclass(frozen=True, slots=True)
class _Usual:
    """Seconds of a step: ``fixed + factor · bytes ** power``."""

    fixed: float
    factor: float = 0.0
    power: float = 1.0

    def seconds(self, amount: float) -> float:
        return self.fixed + self.factor * float(amount**self.power)


# On two cores. Merging follows the distinct words, which grow like a root of the corpus.
_USUAL = {
    "plan chunks": _Usual(0.1),
    "count words": _Usual(0.2, 5e-9),
    "combine counts": _Usual(0.3, 1e-9),
    "learn merges": _Usual(0.3, 6e-6, 0.6),
    "evaluate": _Usual(1.5),
    "screen tokens": _Usual(1.5),
    "publish": _Usual(3.0),
    "promote": _Usual(0.2),
}
_COUNTING_BY_REGEX = _Usual(1.0, 1e-7)  # one process
_READING = 1e-9  # seconds for a byte that is read, and named by its digest


class StepSeconds:
    """What to expect of a request's steps.

    Args:
        request: what would be trained.
        earlier: runs of the same workspace, newest first.
    """

    def __init__(self, request: TrainingRequest, earlier: Sequence[Run]) -> None:
        self._usual: Mapping[str, _Usual] = _USUAL
        if request.pattern_remark:
            slow = _COUNTING_BY_REGEX
            counting = _Usual(slow.fixed, slow.factor / request.workers)
            self._usual = {**_USUAL, "count words": counting}
        alike = [
            run.steps
            for run in earlier
            if run.config.get("algorithm") == request.algorithm
            and run.config.get("pattern") == request.pattern
        ]
        self._earlier: dict[str, tuple[float, float]] = {}
        for steps in reversed(alike):
            self._earlier |= {name: (took, done) for name, (took, done) in steps.items() if done}

    def of(self, step: str, amount: float = 1) -> float:
        """Seconds for a step that does so much: bytes where `Outcome.amount` has bytes."""
        usual = self._usual[step]
        if step not in self._earlier:
            return usual.seconds(amount)
        took, done = self._earlier[step]
        return took * usual.seconds(amount) / usual.seconds(done)

    def of_reading(self, read: int, counted: int) -> float:
        """Seconds for reading so many bytes and counting so many of them."""
        return (self.of("count words", counted) if counted else 0.1) + _READING * (read - counted)
