"""Steps and flows: the table of their names and shares, and the decorator that makes them tasks.

The table serves the decorator, progress bars, plans, Prefect and the catalogue. Without Prefect a
step is the function itself. Steps exchange handles (ids, paths, digests), never arrays.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from bpeline.tokenizer_core.errors import BpelineError, CorpusChanged, CorruptFile
from bpeline.tokenizer_core.redaction import hide_in_errors


@dataclass(frozen=True, slots=True)
class StepKind:
    """A step as people see it.

    Attributes:
        name: in progress bars, in Prefect and in the catalogue.
        share: of a run's time, beside the shares of the other steps of a flow; progress bars
            believe it.
    """

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A flow as Prefect sees it.

    Attributes:
        name: of the flow.
        kind: begins the keys of its artifacts: ``tokenizer`` gives ``tokenizer-summary-news``.
        steps: in their order; without any there is no progress bar.
        hours: after which it is stopped; what it finished is kept, and the next run goes on there.
        again_after: the error after which its steps are done again: what was found damaged or
            changed is forgotten, and made anew.
        attempts: how often at most; the last one's error ends the flow.
    """

    name: str
    kind: str
    steps: tuple[StepKind, ...]
    hours: float
    again_after: type[BpelineError] | tuple[()] = ()
    attempts: int = 1

    @property
    def shares(self) -> dict[str, float]:
        """Percent of a run that each step takes."""
        whole = sum(step.share for step in self.steps)
        return {step.name: 100 * step.share / whole for step in self.steps}


PLAN_CHUNKS = StepKind("plan chunks", 2)
COUNT_WORDS = StepKind("count words", 40)
COMBINE_COUNTS = StepKind("combine counts", 8)
LEARN_MERGES = StepKind("learn merges", 35)
CHOOSE_SIZE = StepKind("choose size", 2)
EVALUATE = StepKind("evaluate", 4)
SCREEN_TOKENS = StepKind("screen tokens", 2)
PUBLISH = StepKind("publish", 8)
PROMOTE = StepKind("promote", 1)
READ_FILES = StepKind("read files", 20)
CERTIFY = StepKind("certify", 30)
SAMPLE_TEXT = StepKind("sample text", 7)
RECALL_VERSION = StepKind("recall version", 7)
MEASURE_DRIFT = StepKind("measure drift", 16)
ENCODE = StepKind("encode", 95)
PACK = StepKind("pack", 15)
RECORD = StepKind("record", 2)
COLLECT_GARBAGE = StepKind("sweep garbage", 1)
READ_EXPORTS = StepKind("read exports", 1)

TRAIN_TOKENIZER = FlowKind(
    "train-tokenizer",
    "tokenizer",
    (
        PLAN_CHUNKS, COUNT_WORDS, COMBINE_COUNTS, LEARN_MERGES, CHOOSE_SIZE, EVALUATE,
        SCREEN_TOKENS, PUBLISH, PROMOTE,
    ),
    hours=24,
    again_after=CorruptFile,
    attempts=3,
)  # fmt: skip
IMPORT_TOKENIZER = FlowKind(
    "import-tokenizer",
    "tokenizer",
    (READ_FILES, CERTIFY, EVALUATE, PUBLISH, PROMOTE),
    hours=6,
)
WATCH_DRIFT = FlowKind(
    "watch-drift",
    "drift",
    (
        PLAN_CHUNKS, COUNT_WORDS, COMBINE_COUNTS, SAMPLE_TEXT, RECALL_VERSION, MEASURE_DRIFT,
        RECORD,
    ),
    hours=6,
    again_after=CorruptFile,
    attempts=3,
)  # fmt: skip
ENCODE_DATASET = FlowKind(
    "encode-dataset",
    "dataset",
    (ENCODE, PACK, RECORD),
    hours=24,
    again_after=CorpusChanged,
    attempts=3,
)
GC = FlowKind("sweep-garbage", "garbage", (), hours=1)
RECERTIFY = FlowKind("recertify", "certificates", (), hours=6)


P = ParamSpec("P")
R = TypeVar("R")
Item = TypeVar("Item")

MOST_TASKS = 64  # one Prefect task costs about 25 ms, and thousands unsettle its server
_PATIENCE = 0.5  # seconds for what runs to end by itself

Stop = Callable[[], bool]  # whether the result of a running step is no longer wanted
_stop: ContextVar[Stop | None] = ContextVar("stop", default=None)


class Stopped(Exception):
    """Raised inside a step that was asked to stop because the flow has already failed."""


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """Let ``stop`` end the steps inside the block: `raise_if_stopped` asks it."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def raise_if_stopped() -> None:
    """Called by long steps between two pieces of work.

    Raises:
        Stopped: another step of the same map failed, or the user interrupted the flow.
    """
    if (stop := _stop.get()) is not None and stop():
        raise Stopped


def in_prefect_flow() -> bool:
    """Whether this code runs in a Prefect flow and outside its tasks; never imports Prefect."""
    if "prefect" not in sys.modules:
        return False
    from prefect.context import FlowRunContext, TaskRunContext

    return FlowRunContext.get() is not None and TaskRunContext.get() is None


class Step(Generic[P, R]):
    """A function that people see as a step of a certain kind."""

    def __init__(self, function: Callable[P, R], kind: StepKind) -> None:
        update_wrapper(self, function)
        self.function = function
        self.kind = kind

    def __reduce__(self) -> str:
        """A step goes to another process by its name; that process imports it."""
        return self.function.__qualname__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        work: Callable[P, R] = self.task if in_prefect_flow() else self.function
        return work(*args, **kwargs)

    @cached_property
    def task(self) -> Any:
        """The same function as a Prefect task: nothing cached, no result stored."""
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        shown = hide_in_errors()(self.function)  # the server keeps what a task raises
        return task(shown, name=self.kind.name, cache_policy=NO_CACHE, persist_result=False)


def step(kind: StepKind) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Mark a function as a step of a flow, of a kind that the table of steps names."""
    return lambda function: Step(function, kind)


def attempts(
    flow: FlowKind, say: Callable[[str], object]
) -> Iterator[AbstractContextManager[None]]:
    """Repeat steps after an error: ``for attempt in attempts(FLOW, note): with attempt: …``.

    Neither a single step nor Prefect repeats anything.

    Args:
        flow: says after which error, and how often.
        say: is told of each error that is not the last.
    """
    failed = True

    @contextmanager
    def one(is_last: bool) -> Iterator[None]:
        nonlocal failed
        try:
            yield
            failed = False
        except flow.again_after as error:
            if is_last:
                raise
            say(f"{error.happened}; it is made again")

    for number in range(1, flow.attempts + 1):
        if failed:
            yield one(number == flow.attempts)


def map_step(
    step: Step[..., R],
    items: Sequence[Item],
    workers: int,
    on_interrupt: Callable[[], None] | None = None,
    **shared: Any,
) -> list[R]:
    """Run ``step(item, **shared)`` for every item, ``workers`` at a time.

    The first error stops the rest: waiting items are cancelled, running ones see it through
    `raise_if_stopped`; nothing returns before all of them have ended. Of an interruption
    ``on_interrupt`` tells those that wait for something themselves, again until they have ended.

    Returns:
        The results in the order of ``items``.

    Raises:
        Exception: the first error that is not an answer to another one.
    """
    if len(items) > MOST_TASKS:
        raise ValueError(f"{len(items)} items: group them, at most {MOST_TASKS} are mapped")
    stop = threading.Event()
    errors: list[BaseException] = []

    def work(item: Item) -> R:
        raise_if_stopped()
        try:
            return step(item, **shared)
        except BaseException as error:
            if not isinstance(error, Stopped):
                errors.append(error)
            stop.set()  # at once: the thread that waits for us may take a while to wake up
            raise

    with stopped_by(stop.is_set), ThreadPoolExecutor(workers, step.kind.name) as threads:
        # In a copy of the context a step sees who listens, and Prefect the flow it is a task of.
        futures = [threads.submit(copy_context().run, work, item) for item in items]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            if errors:
                raise errors[0]
            return [future.result() for future in futures]
        except BaseException as error:
            stop.set()
            for future in futures:
                future.cancel()
            while wait(futures, _PATIENCE).not_done:
                if on_interrupt is not None and not isinstance(error, Exception):
                    on_interrupt()
            raise
        finally:
            errors.clear()  # which hold this frame
