"""Who does the parcels of a step: threads of this process, or the workers of a Dask cluster.

Steps and flows know this seam alone; the cluster is in `dask_engine`. Wherever the work is
done, it is the same function with the same arguments, and its results come in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bpeline.flows.running import MOST_TASKS, map_threads
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.machine import available_processors

if TYPE_CHECKING:
    from bpeline.flows.engines.dask_engine import DaskEngine

R = TypeVar("R")
Item = TypeVar("Item")

LOCAL = "local"
DASK = "dask"
_ADDRESS = re.compile(r"(?:tcp|tls)://(?:\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


_LEAST_PARCEL = 4 << 20  # bytes


class Threads:
    """Threads of this process.

    Args:
        workers: how many at once.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def parcels(self, size: int, by_one_thread: bool = False) -> int:
        """How many parcels ``size`` bytes of files make at most.

        Args:
            by_one_thread: whether one of them is done after the other: what each leaves behind is
                written by itself, so that few are better.
        """
        return min(MOST_TASKS, max(1, size // _LEAST_PARCEL)) if by_one_thread else MOST_TASKS

    def map(
        self,
        work: Callable[..., R],
        items: Sequence[Item],
        *,
        named: Callable[[Item], str],
        prepare: Callable[[], object],
        on_interrupt: Callable[[], None] | None = None,
        most_threads: int | None = None,
        **shared: Any,
    ) -> list[R]:
        """Run ``work(item, **shared)`` for every item.

        Args:
            work: a function of a module, so that other processes find it by its name; or a task of
                one, which in a flow run is a task run for every item.
            items: parcels: handles, not what they stand for.
            named: what people are told when a parcel cannot be done.
            prepare: called once where parcels are done, before the first of them; a worker of a
                cluster for which it raises a BpelineError is left out.
            on_interrupt: see `all_results`.
            most_threads: of one process; None where each is worth it.
            shared: handles too.

        Returns:
            The results in the order of ``items``.

        Raises:
            Exception: the first error of a parcel.
            WorkerLost: workers are gone, or died again and again at the same parcel.
        """
        if items:
            prepare()
        threads = min(self._workers, most_threads or self._workers)
        mapped: Callable[..., list[R]] = getattr(work, "map_all", partial(map_threads, work))
        return mapped(items, threads, on_interrupt, **shared)


Engine: TypeAlias = "Threads | DaskEngine"
_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current(workers: int) -> Engine:
    """The engine of the block we are in (see `working`), else ``workers`` threads."""
    return _current.get() or Threads(workers)


@contextmanager
def working(name: str, workers: int | None, meeting_place: Path) -> Iterator[Engine]:
    """Let an engine do the parcels of all steps inside the block.

    Nothing is started or connected to before there is a parcel.

    Args:
        name: ``local``, ``dask``, or the address of a Dask scheduler.
        workers: threads, or processes of a cluster of our own; None takes one per processor.
        meeting_place: a directory that all workers must see under this path.

    Raises:
        InvalidOption: there is no such engine, or it is not installed.
    """
    check_engine(name)
    workers = workers or available_processors()
    with ExitStack() as open_engine:
        engine: Engine = Threads(workers)
        if name != LOCAL:
            if find_spec("distributed") is None:
                raise InvalidOption(
                    "the package distributed, which speaks to a Dask cluster, is not installed",
                    "--engine local needs nothing more",
                    "type `pip install 'bpeline[cluster]'`",
                )
            from bpeline.flows.engines.dask_engine import DaskEngine

            address = None if name == DASK else name
            engine = open_engine.enter_context(DaskEngine(address, workers, meeting_place))
        token = _current.set(engine)
        try:
            yield engine
        finally:
            _current.reset(token)


def check_engine(name: str) -> None:
    """Refuse a name that means no engine.

    Raises:
        InvalidOption: it is neither ``local`` nor ``dask`` nor an address.
    """
    if name in (LOCAL, DASK) or _ADDRESS.fullmatch(name):
        return
    raise InvalidOption(
        f"there is no engine {name!r}",
        "accepted: local (threads of this process), dask (processes of this machine), or the "
        "address of a Dask scheduler, such as tcp://10.0.0.5:8786",
        "type `--engine local`, `--engine dask` or `--engine tcp://HOST:PORT`",
    )
