"""Names and shares of steps and flows, attempts after errors, thread maps.

The names are shown in progress bars, plans, Prefect's tasks and the catalogue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from bpeline.tokenizer_core.errors import BpelineError, CorpusChanged, CorruptFile


@dataclass(frozen=True, slots=True)
class StepKind:
    """A step of a flow; ``share`` is its relative duration, for progress bars."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class FlowKind:
    """A flow for Prefect.

    Attributes:
        kind: prefix of its artifact keys: ``tokenizer`` gives ``tokenizer-summary-news``.
        hours: time limit; finished work is kept, and the next run continues.
        again_after: error after which the steps are repeated, because damaged or changed files
            are discarded and created again.
    """

    name: str
    kind: str
    steps: tuple[StepKind, ...]
    hours: float
    again_after: type[BpelineError] | tuple[()] = ()
    attempts: int = 1

    @property
    def shares(self) -> dict[str, float]:
        """Share of each step in per cent."""
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
Got = TypeVar("Got", covariant=True)
Item = TypeVar("Item")

MOST_TASKS = 64  # a Prefect task costs about 25 ms, and thousands overload its server
_PATIENCE = 0.5  # seconds for running work to end by itself

Stop = Callable[[], bool]  # returns whether the result of a step is no longer wanted
_stop: ContextVar[Stop | None] = ContextVar("stop", default=None)


class Stopped(Exception):
    """Raised inside a step that must stop because the flow has failed already."""


@contextmanager
def stopped_by(stop: Stop) -> Iterator[None]:
    """Let ``stop`` end the steps inside the block, see `raise_if_stopped`."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def raise_if_stopped() -> None:
    """Raise Stopped if the results of a step are no longer wanted."""
    if (stop := _stop.get()) is not None and stop():
        raise Stopped


def attempts(
    flow: FlowKind, say: Callable[[str], object]
) -> Iterator[AbstractContextManager[None]]:
    """Repeat steps after an error that creating files again can fix.

    Use as ``for attempt in attempts(FLOW, note): with attempt: …``. For servers that do not answer,
    there are Prefect's retries.
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
            say(f"{error.happened}; trying again")

    for number in range(1, flow.attempts + 1):
        if failed:
            yield one(number == flow.attempts)


class Awaited(Protocol[Got]):
    """A result that is or will be available: a future of Python or Prefect."""

    def result(self) -> Got: ...


_together: ContextVar[threading.Event | None] = ContextVar("together", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Stop all `stopping_together` functions inside the block when one of them fails."""
    stop = threading.Event()
    token = _together.set(stop)
    try:
        with stopped_by(stop.is_set):
            yield
    except BaseException:
        stop.set()
        raise
    finally:
        _together.reset(token)


def stopping_together(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function stop the others of its `together` block when it fails."""

    @wraps(function)
    def work(*args: P.args, **kwargs: P.kwargs) -> R:
        raise_if_stopped()
        try:
            return function(*args, **kwargs)
        except BaseException:
            if (stop := _together.get()) is not None:
                stop.set()
            raise

    return work


def map_threads(
    function: Callable[..., R],
    items: Sequence[Item],
    workers: int,
    on_interrupt: Callable[[], None] | None = None,
    **shared: Any,
) -> list[R]:
    """Run ``function(item, **shared)`` for every item in threads; see `all_results`."""
    work = stopping_together(partial(function, **shared))
    with ThreadPoolExecutor(workers) as threads, together():
        # In a copy of the context, so that the function finds the listener.
        futures = [threads.submit(copy_context().run, work, item) for item in items]
        return all_results({future: future for future in futures}, on_interrupt)


def all_results(
    futures: Mapping[Future[Any], Awaited[R]], on_interrupt: Callable[[], None] | None
) -> list[R]:
    """Return the results of work started in a `together` block, in order.

    After the first error, waiting work is cancelled and running work stops at `raise_if_stopped`.
    The function returns when all of it has ended.

    Args:
        on_interrupt: called repeatedly after an interruption until the work has ended, to wake
            threads that wait.
    """
    if len(futures) > MOST_TASKS:
        raise ValueError(f"{len(futures)} items: group them, at most {MOST_TASKS} are mapped")
    try:
        for done in as_completed(futures):
            with suppress(Stopped):
                futures[done].result()
        return [awaited.result() for awaited in futures.values()]
    except BaseException as error:
        if (stop := _together.get()) is not None:
            stop.set()
        for future in futures:
            future.cancel()
        while wait(futures, _PATIENCE).not_done:
            if on_interrupt is not None and not isinstance(error, Exception):
                on_interrupt()
        raise
