"""How long the steps of a training take, roughly: as they took before, else as they usually do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import COUNT_WORDS, StepKind
from bpeline.registry.catalogue import Run

_BY_REGEX = replace(COUNT_WORDS, fixed=1.0, factor=1e-7)  # one process
_READING = 1e-9  # seconds for a byte that is read, and named by its digest


class StepSeconds:
    """What to expect of a request's steps.

    Args:
        request: what would be trained.
        earlier: runs of the same workspace, newest first.
    """

    def __init__(self, request: TrainingRequest, earlier: Sequence[Run]) -> None:
        self._counting = COUNT_WORDS
        if request.pattern_remark:
            self._counting = replace(_BY_REGEX, factor=_BY_REGEX.factor / request.workers)
        alike = [
            run.steps
            for run in earlier
            if run.config.get("algorithm") == request.algorithm
            and run.config.get("pattern") == request.pattern
        ]
        self._earlier: dict[str, tuple[float, float]] = {}
        for steps in reversed(alike):
            self._earlier |= {name: (took, done) for name, (took, done) in steps.items() if done}

    def of(self, step: StepKind, amount: float = 1) -> float:
        """Seconds for a step that does so much: bytes where `Outcome.amount` has bytes."""
        usual = self._counting if step == COUNT_WORDS else step
        if step.name not in self._earlier:
            return usual.seconds(amount)
        took, done = self._earlier[step.name]
        return took * usual.seconds(amount) / usual.seconds(done)

    def of_reading(self, read: int, counted: int) -> float:
        """Seconds for reading so many bytes and counting so many of them."""
        return (self.of(COUNT_WORDS, counted) if counted else 0.1) + _READING * (read - counted)
