"""A Dask cluster as an engine: a running one by its address, or processes of this machine.

Dask places parcels, tries them again and tells who died. It is given handles, never data; results
are fetched one by one and let go, so that a worker that dies later takes no finished work with it.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import dask
from distributed import Client, KilledWorker, LocalCluster, as_completed
from distributed.utils import silence_logging_cmgr

from bpeline.flows.engines.errands import (
    Errand,
    admit_here,
    errand,
    other_program,
    run_parcel,
)
from bpeline.flows.running import Stopped, progress, settings
from bpeline.tokenizer_core.another_python import required_python, spawning_by
from bpeline.tokenizer_core.errors import WorkerLost, WorkerRefused

R = TypeVar("R")
Item = TypeVar("Item")

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # without a single worker
PARCEL_BYTES = 256 << 20  # about a second of counting, a thousand times what placing a task costs
MOST_PARCELS = 4096  # what a scheduler holds without effort
PARCELS_PER_WORKER = 8  # so that all workers end at about the same time
_RETRIES = 2  # of a parcel: a network may be gone for a moment
_TURNS = 4  # how often parcels are handed out, where some workers cannot do them
_TICK_SECONDS = 0.02
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
    """

    def __init__(
        self,
        address: str | None,
        workers: int,
        meeting_place: Path,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._address, self._own_workers = address, workers
        self._meeting_place, self._patience = meeting_place, patience
        self._open = ExitStack()
        self._connected: Any = None
        self._left_out: set[str] = set()

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
            with errand(self._meeting_place, prepare) as asked:
                return self._map(asked, plain, items, named, shared)

        if plain is work:
            return on_the_cluster()
        # One task run for all parcels: thousands would unsettle Prefect's server.
        whole: list[R] = type(task)(on_the_cluster, name=task.name)()
        return whole

    # ---- parcels ---------------------------------------------------------------------------

    def _map(
        self,
        asked: Errand,
        work: Callable[..., R],
        items: Sequence[Item],
        named: Callable[[Item], str],
        shared: dict[str, Any],
    ) -> list[R]:
        found: dict[int, R] = {}
        for turn in range(_TURNS):
            left = [number for number in range(len(items)) if number not in found]
            if not left:
                break
            able = self._able(asked)
            client = self._client()
            keys = {f"{work.__name__}-{asked.token}-{turn}-{number}": number for number in left}
            futures = client.map(
                run_parcel,
                [items[number] for number in left],
                key=[*keys],
                errand=asked,
                work=work,
                shared=shared,
                pure=False,
                retries=_RETRIES,
                workers=able,
            )
            parcels = {key: items[number] for key, number in keys.items()}
            with self._losses(named, parcels):
                try:
                    for key, (result, heard) in self._arriving(futures, able):
                        found[keys[key]] = result
                        for name, amount in heard.items():
                            progress.current().step_advanced(name, amount)
                except WorkerRefused:
                    continue  # by one that joined later: `_able` leaves it out of the next turn
                finally:
                    with suppress(Exception):  # the scheduler may be lost at this moment
                        client.cancel(futures, force=True)
        if len(found) < len(items):
            raise self._gone("those of its workers that can do it die again and again")
        return [found[number] for number in range(len(items))]

    @contextmanager
    def _losses(self, named: Callable[[Item], str], parcels: Mapping[str, Item]) -> Iterator[None]:
        """What Dask raises of lost workers and schedulers, as errors of ours.

        Args:
            named: what people are told of a parcel.
            parcels: by their keys.
        """
        try:
            yield
        except KilledWorker as error:
            raise WorkerLost(
                f"{error.allowed_failures + 1} workers died one after the other at "
                f"{named(parcels[error.task])}",
                "workers with enough memory for one chunk and its words",
                "look at the workers' logs and memory, and at that text; or lower --table-memory. "
                "What was finished is kept",
            ) from error
        except CancelledError as error:
            raise self._gone("the scheduler has gone") from error
        except Stopped as error:
            raise self._gone(f"a worker lost sight of {self._meeting_place}") from error
        except RuntimeError as error:
            if "deserializ" not in str(error):
                raise
            raise other_program(f"the scheduler at {self._address}", str(error)) from error

    def _able(self, asked: Errand) -> list[str] | None:
        """All workers prepared; those that can do it, where some cannot: these are left out.

        Where all can, None: whoever joins later is prepared before its first parcel.
        """
        able: list[str] = []
        refused: dict[str, BaseException] = {}
        end = time.monotonic() + self._patience
        while not (able or refused):
            client = self._client()
            try:
                client.wait_for_workers(1, timeout=self._patience)
                answers = client.run(admit_here, asked, on_error="return")
            except (OSError, TimeoutError) as error:
                who = "worker" if client.status == "running" else "scheduler"
                raise self._gone(f"there is no {who}") from error
            able = [address for address, answer in answers.items() if answer is None]
            refused = {
                address: answer
                for address, answer in answers.items()
                if not isinstance(answer, OSError | None)  # that is: it died meanwhile
            }
            if not (able or refused):
                if time.monotonic() > end:
                    raise self._gone("workers die while they start")
                time.sleep(_TICK_SECONDS)
        for address, why in refused.items():
            refusal = other_program(f"the worker {address}", str(why))  # it cannot import us
            if isinstance(why, WorkerRefused):
                refusal = why
            if not able:
                raise refusal
            if address not in self._left_out:
                progress.current().note(f"left out: {refusal.happened}")
                self._left_out.add(address)
        return able if refused else None

    def _arriving(self, futures: list[Any], able: list[str] | None) -> Iterator[Any]:
        """Key and result of each, when it is there; ends where nobody is left who could do more."""
        arriving = as_completed(futures, loop=self._client().loop)
        present, seen = self._workers(), time.monotonic()
        looked, future = seen, None
        while future is not None or not arriving.is_empty():
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                before, present, looked = present, self._workers(), now
                for lost in sorted(before - present):
                    progress.current().note(
                        f"the worker at {lost} is gone; its parcels are done elsewhere"
                    )
                if able is not None and present.isdisjoint(able):
                    return
                seen = now if present else seen
                if now - seen > self._patience:
                    raise self._gone(f"there has been no worker for {self._patience:.0f} seconds")
            if future is None and arriving.has_ready():
                future = next(arriving)
            if future is None:
                time.sleep(_TICK_SECONDS)
                continue
            try:
                result = future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                if future.status == "error":  # the work's own
                    raise
                continue  # the worker that had it died: it is made again
            future.release()
            yield future.key, result
            future = None

    def _workers(self) -> set[str]:
        """The addresses of the workers there are now."""
        try:
            return set(self._client().nthreads())
        except (OSError, TimeoutError) as error:
            raise self._gone("the scheduler does not answer") from error

    def _gone(self, happened: str) -> WorkerLost:
        where = "on this machine" if self._address is None else f"at {self._address}"
        return WorkerLost(
            f"the Dask cluster {where} was lost: {happened}",
            "a scheduler that answers and at least one worker; what was finished is kept",
            "start the cluster and type the same command again, or use --engine local",
        )

    # ---- the cluster -----------------------------------------------------------------------

    def _client(self) -> Any:
        if self._connected is None:
            self._connected = self._connect()
        if self._connected.status == "closed":
            raise self._gone("the scheduler has gone")
        return self._connected

    def _connect(self) -> Any:
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
        return client

    def _start(self) -> Any:
        """A cluster of this machine's processes, bound to the loopback interface."""
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
                    preload=["bpeline.flows.engines.errands"],
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
    if scheme != "tcp":
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as greeted:
        heard = greeted.recv(_SIZE_BYTES)
    if len(heard) < _SIZE_BYTES or int.from_bytes(heard, "little") > _LONGEST_GREETING:
        raise OSError("it speaks another protocol")


def _close(service: Any) -> None:
    """Close a client or a cluster, which may be what was lost."""
    with suppress(OSError, TimeoutError, RuntimeError):
        service.close(timeout=_CLOSE_SECONDS)
