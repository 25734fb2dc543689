"""Steps and flows: the table of their names and shares, attempts after damage, and mapping.

The table serves progress bars, plans, Prefect's tasks and the catalogue. Knows no Prefect.
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
Got = TypeVar("Got", covariant=True)
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


def attempts(
    flow: FlowKind, say: Callable[[str], object]
) -> Iterator[AbstractContextManager[None]]:
    """Repeat steps after an error: ``for attempt in attempts(FLOW, note): with attempt: …``.

    For errors that only making something anew can mend; Prefect tries again where nobody answers.

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


class Awaited(Protocol[Got]):
    """A result that is there, or will be: Python's future, or Prefect's."""

    def result(self) -> Got: ...


_together: ContextVar[threading.Event | None] = ContextVar("together", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Functions by `stopping_together` that begin inside the block stop when one of them fails."""
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
    """Let a function stop the others of its `together` at once when it fails."""

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
    """Run ``function(item, **shared)`` for every item in some threads; see `all_results`."""
    work = stopping_together(partial(function, **shared))
    with ThreadPoolExecutor(workers) as threads, together():
        # In a copy of the context, so that the function sees who listens.
        futures = [threads.submit(copy_context().run, work, item) for item in items]
        return all_results({one: one for one in futures}, on_interrupt)


def all_results(
    futures: Mapping[Future[Any], Awaited[R]], on_interrupt: Callable[[], None] | None
) -> list[R]:
    """The results of work that began in a block of `together`, in order.

    The first error stops the rest: what waits is cancelled, what runs sees it through
    `raise_if_stopped`; nothing returns before all of it has ended.

    Args:
        futures: of a pool of threads → whose results are wanted.
        on_interrupt: tells of an interruption those that wait for something themselves, again
            until they have ended.

    Raises:
        Exception: the first error that is not an answer to another one.
    """
    if len(futures) > MOST_TASKS:
        raise ValueError(f"{len(futures)} items: group them, at most {MOST_TASKS} are mapped")
    try:
        for done in as_completed(futures):
            with suppress(Stopped):
                futures[done].result()
        return [one.result() for one in futures.values()]
    except BaseException as error:
        if (stop := _together.get()) is not None:
            stop.set()
        for future in futures:
            future.cancel()
        while wait(futures, _PATIENCE).not_done:
            if on_interrupt is not None and not isinstance(error, Exception):
                on_interrupt()
        raise
