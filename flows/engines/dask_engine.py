"""A Dask cluster as an engine: a running one by its address, or processes of this machine.

The only file that imports distributed. Dask places parcels and tells who died; it is never given
data, only handles. Results are fetched one by one and let go, so that a worker that dies later
takes no finished work with it.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bpeline.flows.engines.errands import (
    Errand,
    errand,
    leave_interrupts_to_the_asker,
    other_program,
    program_digest,
    run_parcel,
    warm_up,
)
from bpeline.flows.running import Stopped, progress, settings
from bpeline.tokenizer_core.another_python import required_python, spawning_by
from bpeline.tokenizer_core.errors import (
    BpelineError,
    InvalidOption,
    WorkerLost,
    WorkerRefused,
)

R = TypeVar("R")
Item = TypeVar("Item")

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # without a single worker
PARCEL_BYTES = 256 << 20  # about a second of counting, a thousand times what placing a task costs
MOST_PARCELS = 4096  # what a scheduler holds without effort
PARCELS_PER_WORKER = 8  # so that all workers end at about the same time
_LOOK_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_SIZE_BYTES = 8
_LONGEST_GREETING = 1 << 20  # bytes; it is a few hundred

# Dask tells its workers to give memory back at once, which makes ours ask for it again and again;
# it looks every ten milliseconds at what they do, and every twenty whether their loops still turn:
# an idle cluster of two workers takes 8 % of a processor for that.
_SETTINGS: dict[str, Any] = {
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


class DaskEngine:
    """Maps steps over the workers of a cluster; see `flows.engines.engine.Threads`.

    Args:
        address: of a scheduler; None starts a cluster on this machine, which only this machine can
            reach, when it is first needed.
        workers: processes of a cluster of our own.
        meeting_place: a directory that all workers see under this path.
        patience: seconds to wait when there is not a single worker.

    Raises:
        InvalidOption: distributed is not installed.
    """

    def __init__(
        self,
        address: str | None,
        workers: int,
        meeting_place: Path,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise InvalidOption(
                "the package distributed, which speaks to a Dask cluster, is not installed",
                "--engine local needs nothing more",
                "type `pip install 'bpeline[cluster]'`",
            ) from error
        self._address = address
        self._own_workers = workers
        self._meeting_place = meeting_place
        self._patience = patience
        self._open = ExitStack()
        self._connected: Any = None
        self._seen: set[str] = set()
        self._last_seen = 0.0

    def __enter__(self) -> DaskEngine:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()
        self._connected = None

    # ---- the engine ------------------------------------------------------------------------

    def parcels(self, size: int, by_one_thread: bool = False) -> int:
        # Each worker is a process of its own, which waits for no other.
        if not size:
            return 1
        workers = self._own_workers if self._address is None else len(self._workers())
        return parcels_of(size, max(1, workers))

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
        if not items:
            return []
        task: Any = work
        plain = getattr(task, "plain", work)

        def on_the_cluster() -> list[R]:
            return self._map(plain, plain.__name__, items, named, prepare, shared)

        if plain is work:
            return on_the_cluster()
        # One task run for all parcels: thousands would unsettle Prefect's server.
        whole: list[R] = type(task)(on_the_cluster, name=task.name)()
        return whole

    # ---- parcels ---------------------------------------------------------------------------

    def _map(
        self,
        work: Callable[..., R],
        name: str,
        items: Sequence[Item],
        named: Callable[[Item], str],
        prepare: Callable[[], object],
        shared: dict[str, Any],
    ) -> list[R]:
        client = self._client()
        with errand(self._meeting_place) as asked, self._warm(asked, prepare):
            futures = client.map(
                run_parcel,
                items,
                key=[f"{name}-{asked.token}-{number}" for number in range(len(items))],
                errand=asked,
                work=work,
                shared=shared,
                pure=False,
            )
            return self._results(asked, futures, items, named)

    def _results(
        self,
        asked: Errand,
        futures: list[Any],
        items: Sequence[Item],
        named: Callable[[Item], str],
    ) -> list[Any]:
        """Results in the order of the items, each fetched when it is there."""
        results: list[Any] = [None] * len(futures)
        waiting = {future.key: (number, future) for number, future in enumerate(futures)}
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        futures.clear()  # what is done is let go
        listener = progress.current()
        self._last_seen = looked = time.monotonic()
        try:
            while waiting:
                if time.monotonic() - looked > _LOOK_SECONDS:
                    self._require_workers()
                    looked = time.monotonic()
                with suppress(queue.Empty):
                    future = done.get(timeout=_LOOK_SECONDS)
                    number, _ = waiting[future.key]
                    results[number], heard = self._result(future, named, items[number])
                    del waiting[future.key]
                    for name, amount in heard.items():
                        listener.step_advanced(name, amount)
        except BaseException:
            asked.call_off()
            remaining = [future for _, future in waiting.values()]
            self._tidy(lambda client: client.cancel(remaining, force=True))
            raise
        return results

    def _result(
        self, future: Any, named: Callable[[Item], str], item: Item
    ) -> tuple[Any, dict[str, int]]:
        from distributed import KilledWorker

        while True:
            try:
                result: tuple[Any, dict[str, int]] = future.result(timeout=_LOOK_SECONDS)
                return result
            except TimeoutError:
                if future.status == "error":  # the work's own
                    raise
                self._require_workers()  # the one that had the result may have died: it is redone
            except KilledWorker as error:
                raise WorkerLost(
                    f"{error.allowed_failures + 1} workers died one after the other at "
                    f"{named(item)}",
                    "workers with enough memory for one chunk and its words",
                    "look at the workers' logs and memory, and at that text; or lower "
                    "--table-memory. What was finished is kept",
                ) from error
            except CancelledError as error:
                raise self._gone("the scheduler has gone") from error
            except Stopped as error:
                raise self._gone(f"a worker lost sight of {self._meeting_place}") from error

    # ---- workers ---------------------------------------------------------------------------

    def _workers(self) -> list[str]:
        """The addresses of the workers there are now."""
        try:
            return list(self._client().scheduler_info()["workers"])
        except (OSError, TimeoutError) as error:
            raise self._gone("the scheduler does not answer") from error

    def _require_workers(self) -> None:
        """Say who was lost; give up when there was nobody for too long."""
        connected = self._client().status == "running"
        workers = set(self._workers()) if connected else set()
        now = time.monotonic()
        for lost in sorted(self._seen - workers):
            progress.current().note(f"the worker at {lost} is gone; its parcels are done elsewhere")
        self._seen = workers
        if workers:
            self._last_seen = now
        elif now - self._last_seen > self._patience:
            who = "worker" if connected else "scheduler"
            raise self._gone(f"there has been no {who} for {self._patience:.0f} seconds")

    def _gone(self, happened: str) -> WorkerLost:
        where = "on this machine" if self._address is None else f"at {self._address}"
        return WorkerLost(
            f"the Dask cluster {where} was lost: {happened}",
            "a scheduler that answers and at least one worker; what was finished is kept",
            "start the cluster and type the same command again, or use --engine local",
        )

    @contextmanager
    def _warm(self, asked: Errand, prepare: Callable[[], object]) -> Iterator[None]:
        """All workers admitted and prepared, those that join later as well."""
        from distributed import WorkerPlugin

        own = self._address is None

        class Prepared(WorkerPlugin):  # type: ignore[misc]
            name = f"bpeline-{asked.token}"

            async def setup(self, worker: Any) -> None:
                if own:
                    leave_interrupts_to_the_asker()
                await asyncio.to_thread(warm_up, asked, prepare)  # heartbeats go on

        def forget(client: Any) -> None:
            client.unregister_worker_plugin(Prepared.name)

        client = self._client()
        self._seen = set(self._workers())
        end = time.monotonic() + self._patience
        while True:
            try:
                client.register_plugin(Prepared())
                break
            except BpelineError:
                self._tidy(forget)
                raise
            except OSError as error:  # a worker died meanwhile
                if time.monotonic() > end:
                    raise self._gone("workers die while they start") from error
            except Exception as error:  # it cannot even import what it is to do
                if client.status != "running":
                    raise self._gone("the scheduler has gone") from error
                self._tidy(forget)
                raise other_program("a worker", str(error)) from error
        try:
            yield
        finally:
            self._tidy(forget)

    def _tidy(self, what: Callable[[Any], object]) -> None:
        """Leave nothing of ours with a scheduler, provided there still is one."""
        client = self._client()
        if client.status == "running":
            with suppress(Exception):  # it may be lost at this moment
                what(client)

    # ---- the cluster -----------------------------------------------------------------------

    def _client(self) -> Any:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def _connect(self) -> Any:
        from distributed import Client
        from distributed.utils import silence_logging_cmgr

        # What it logs of a lost scheduler, with tracebacks, our errors say in three lines.
        self._open.enter_context(silence_logging_cmgr(logging.CRITICAL))
        try:
            if self._address is not None:
                _require_greeting(self._address)
            address = self._address or self._start()
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="bpeline")
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkerLost(
                f"no Dask scheduler answers at {self._address}",
                "the address of one that runs, as `dask scheduler` prints it",
                "start one with `dask scheduler`, or type --engine dask for this machine alone",
            ) from error
        self._open.callback(_close, client)
        if self._address is not None:
            try:
                _require_same_program(client, self._address)
            except WorkerRefused as error:
                if client.status != "running":
                    raise self._gone("the scheduler has gone") from error
                raise
        return client

    def _start(self) -> Any:
        """A cluster of this machine's processes, bound to the loopback interface."""
        import dask
        from distributed import LocalCluster

        python = required_python(
            "a cluster's workers are processes", "type --engine local to use threads"
        )
        self._open.enter_context(spawning_by(python))
        # Until it is closed: workers that were lost are started again.
        self._open.enter_context(settings.starting_nothing_from_here())
        try:
            with dask.config.set(_SETTINGS):
                cluster = LocalCluster(
                    n_workers=self._own_workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    memory_limit=0,  # chunks are bounded; Dask knows nothing to put on disk
                    silence_logs=logging.CRITICAL,
                )
        except (OSError, RuntimeError, TimeoutError) as error:
            raise WorkerLost(
                f"the processes of a Dask cluster cannot be started here: {error}",
                'a program that can be imported anew: its calls below `if __name__ == "__main__":`',
                "type --engine local to work in threads",
            ) from error
        self._open.callback(_close, cluster)
        return cluster


def parcels_of(size: int, workers: int) -> int:
    """How many parcels to make of ``size`` bytes.

    Small corpora make a few for each worker, larger ones parcels of `PARCEL_BYTES`; the largest
    never more than `MOST_PARCELS`, which then grow.

    Args:
        size: bytes of all files.
        workers: that share them.
    """
    by_size = -(-size // PARCEL_BYTES)
    return min(MOST_PARCELS, max(by_size, PARCELS_PER_WORKER * workers))


def _require_greeting(address: str) -> None:
    """See that what listens begins as a Dask scheduler does: with the size of its first message.

    Dask's client would wait for ever for one that is silent, and believe any size. What speaks TLS
    is left to it.

    Raises:
        OSError: nobody listens, or somebody else.
    """
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme not in {"", "tcp"} or not port.isdigit():
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as greeted:
        heard = b""
        end = time.monotonic() + CONNECT_SECONDS
        while len(heard) < _SIZE_BYTES:
            greeted.settimeout(max(0.01, end - time.monotonic()))
            part = greeted.recv(_SIZE_BYTES - len(heard))
            if not part:
                raise OSError("it hangs up")
            heard += part
    if int.from_bytes(heard, "little") > _LONGEST_GREETING:
        raise OSError("it speaks another protocol")


def _require_same_program(client: Any, address: str) -> None:
    """The scheduler reads handles too, before it passes them on."""
    try:
        found = client.run_on_scheduler(program_digest)
    except Exception as error:
        raise other_program(f"the scheduler at {address}", str(error)) from error
    if found != program_digest():
        raise other_program(f"the scheduler at {address}")


def _close(service: Any) -> None:
    """Close a client or a cluster, which may be what was lost."""
    with suppress(OSError, TimeoutError, RuntimeError):
        service.close(timeout=_CLOSE_SECONDS)


def _nothing() -> None:
    """Nothing needs to be compiled."""
