"""Progress of flows, and its listeners: bars on a terminal, else lines.

Listeners may be called from several threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO, cast

from bpeline.flows.running.moving_line import stop_moving
from bpeline.flows.wording import as_typed, token_text
from bpeline.tokenizer_core.redaction import Unescaped, without_controls

if TYPE_CHECKING:
    from bpeline.flows.running.steps import StepKind
    from bpeline.tokenizer_core.merging import TrainingProgress

NAME_WIDTH = 14


class Progress:
    """A listener that shows nothing; subclasses override its methods."""

    def step_started(self, name: str, total: int | None = None, unit: str = "") -> None:
        """Called when a step begins; ``total`` is its size in bytes or merges, if known."""

    def step_advanced(self, name: str, amount: int) -> None:
        """Called when ``amount`` more of the total is done."""

    def merging(self, at: TrainingProgress) -> None:
        """Called while merges are learned, many times a second."""

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        """Called when a step is done; ``outcome`` describes it in a sentence."""

    def part_finished(self, text: str) -> None:
        """Called when a part of a step is done, such as a file."""

    def note(self, text: str) -> None:
        """Called with information on a result that is no error."""

    def summary(self, title: str, markdown: str) -> None:
        """Called when the run is done; ``markdown`` describes its result."""

    def compared(self, title: str, markdown: str) -> None:
        """Called when a version was compared with the champion."""

    def drifted(self, name: str, alias: str, event: Mapping[str, Any]) -> None:
        """Called when new text has drifted; ``event`` is the payload for automations."""

    def closed(self) -> None:
        """Called when the run has ended, with or without an error, to clear the screen."""


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def listening(progress: Progress) -> Iterator[Progress]:
    """Make ``progress`` the listener of all flows inside the ``with`` block."""
    token = _current.set(progress)
    try:
        yield progress
    finally:
        _current.reset(token)
        progress.closed()


def current() -> Progress:
    """Return the current listener, or one that shows nothing."""
    return _current.get() or Progress()


class Several(Progress):
    """Passes every call on to ``listeners``, except for `Progress.closed`."""

    def __init__(self, listeners: Sequence[Progress]) -> None:
        self.listeners = listeners

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in {"listeners", "closed"}:
            return super().__getattribute__(name)

        def tell(*args: Any) -> None:
            for listener in self.listeners:
                getattr(listener, name)(*args)

        return tell


class Outcome:
    """Result and duration of a step."""

    text = ""
    seconds = 0.0

    def __call__(self, text: str) -> None:
        self.text = f"{self.text} {text}".lstrip()


@contextmanager
def telling(step: StepKind, total: int | None = None, unit: str = "") -> Iterator[Outcome]:
    """Report a step and its duration; yield an object to call with the step's result."""
    listener = current()
    listener.step_started(step.name, total, unit)
    outcome = Outcome()
    begin = time.perf_counter()
    yield outcome
    outcome.seconds = time.perf_counter() - begin
    listener.step_finished(step.name, outcome.seconds, outcome.text)


def step_line(name: str, seconds: float, outcome: str) -> str:
    """Format a finished step as a line of text."""
    return f"{name:<{NAME_WIDTH}} {seconds:7.2f} s  {outcome}"


def describe_merging(progress: TrainingProgress) -> str:
    """Describe the last merge: the two tokens, their count, the time left."""
    left, right = (token_text(token, longest=18) for token in progress.best_pair)
    eta = progress.eta_seconds
    remaining = "" if eta is None or not eta < 1e6 else f", {eta:.0f} s left"
    return (
        f"{progress.merges_done:,} of {progress.merges_total:,} merges, "
        f"{left} + {right} × {progress.best_count:,}{remaining}"
    )


def describe_bytes(done: float, total: float, seconds: float) -> str:
    """Describe the amount of text done, the speed, and the remaining time."""
    text = f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
    if total < 1e6:
        text = f"{done / 1e3:,.0f} of {total / 1e3:,.0f} kB"
    if not done or not seconds:
        return text
    remaining = seconds * max(total - done, 0) / done
    return f"{text}, {done / seconds / 1e6:,.1f} MB/s, {remaining:,.1f} s left"


class Lines(Progress):
    """One plain line per finished step."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.lock = threading.Lock()

    def say(self, line: str) -> None:
        with self.lock:
            self.stream.write(without_controls(line) + "\n")
            self.stream.flush()

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        self.say(step_line(name, seconds, outcome))

    def part_finished(self, text: str) -> None:
        self.say(text)

    def note(self, text: str) -> None:
        self.say(f"note: {as_typed(text)}")


class Bars(Lines):
    """Prints the same lines, and shows a bar for the current step on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from rich.console import Console

        self.console = Console(file=cast(TextIO, Unescaped(stream)), highlight=False)
        self.display: Any = None

    def say(self, line: str) -> None:
        self.console.print(without_controls(line), markup=False, soft_wrap=True)

    def step_started(self, name: str, total: int | None = None, unit: str = "") -> None:
        from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
        from rich.progress import Progress as Display
        from rich.text import Text

        class Said(ProgressColumn):
            """Text of the bar, rendered ten times a second."""

            def render(self, task: Task) -> Text:
                seconds = task.elapsed or 0.0
                if total is None or (not task.completed and not task.description):
                    return Text(f"{seconds:.1f} s")
                if unit == "bytes":
                    return Text(describe_bytes(task.completed, total, seconds))
                return Text(task.description)

        self.closed()
        columns: list[Any] = [SpinnerColumn(), TextColumn(f"{name:<{NAME_WIDTH}}")]
        columns += [BarColumn()] if total is not None else []
        self.display = Display(*columns, Said(), console=self.console, transient=True)
        self.task = self.display.add_task("", total=total)
        self.display.start()

    def step_advanced(self, name: str, amount: int) -> None:
        if self.display is not None:
            self.display.advance(self.task, amount)

    def merging(self, at: TrainingProgress) -> None:
        if self.display is not None:
            self.display.update(
                self.task, completed=at.merges_done, description=describe_merging(at)
            )

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        self.closed()
        super().step_finished(name, seconds, outcome)

    def closed(self) -> None:
        if self.display is not None:
            self.display.stop()
            self.display = None


class Notes(Lines):
    """Prints only notes, for ``--quiet``."""

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        """Print nothing."""

    def part_finished(self, text: str) -> None:
        """Print nothing."""


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def be_quiet() -> Callable[[], None]:
    """Show only notes from now on; return a function that ends this."""
    stop_moving()
    token = _quiet.set(True)
    return lambda: _quiet.reset(token)


def for_stream(stream: TextIO) -> Progress:
    """Return bars for a terminal, lines for a log, or only notes after `be_quiet`."""
    if _quiet.get():
        return Notes(stream)
    return Bars(stream) if stream.isatty() else Lines(stream)
