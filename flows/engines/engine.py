"""The engine interface: where the parcels of a step run.

On every engine, the same function runs with the same arguments, and results keep their order.
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
    """Engine of at most ``workers`` threads of this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def parcels(self, size: int, by_one_thread: bool = False) -> int:
        """Return the maximum number of parcels for ``size`` bytes of files.

        Args:
            by_one_thread: parcels run one after the other; fewer then mean fewer output files.
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
            work: a module-level function, which other processes import by name; or a task of one,
                which makes a task run for every item in a flow run.
            named: describes a parcel in error messages.
            prepare: called once per process, before its first parcel; a cluster worker for which it
                raises a BpelineError is left out.

        Returns:
            The results in the order of ``items``.

        Raises:
            Exception: the first error of a parcel.
            WorkerLost: all workers are gone, or several died at the same parcel.
        """
        if items:
            prepare()
        threads = min(self._workers, most_threads or self._workers)
        mapped: Callable[..., list[R]] = getattr(work, "map_all", partial(map_threads, work))
        return mapped(items, threads, on_interrupt, **shared)


Engine: TypeAlias = "Threads | DaskEngine"
_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


def current(workers: int) -> Engine:
    """Return the engine of the enclosing `working` block, else ``workers`` threads."""
    return _current.get() or Threads(workers)


@contextmanager
def working(name: str, workers: int | None, meeting_place: Path) -> Iterator[Engine]:
    """Use an engine for all steps inside the block; it starts with the first parcel.

    Args:
        name: ``local``, ``dask``, or the address of a Dask scheduler.
        workers: threads, or processes of a cluster started here; None means one per processor.
        meeting_place: a directory that all workers can access under this path.
    """
    check_engine(name)
    workers = workers or available_processors()
    with ExitStack() as open_engine:
        engine: Engine = Threads(workers)
        if name != LOCAL:
            if find_spec("distributed") is None:
                raise InvalidOption(
                    "the package distributed, which connects to a Dask cluster, is not installed",
                    "--engine local works without it",
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
    """Raise InvalidOption for anything but ``local``, ``dask`` or an address."""
    if name in (LOCAL, DASK) or _ADDRESS.fullmatch(name):
        return
    raise InvalidOption(
        f"there is no engine {name!r}",
        "expected local (threads of this process), dask (processes of this machine), or the "
        "address of a Dask scheduler, such as tcp://10.0.0.5:8786",
        "type `--engine local`, `--engine dask` or `--engine tcp://HOST:PORT`",
    )
