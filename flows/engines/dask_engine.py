"""The Dask engine: a running cluster by its address, or processes of this machine.

Dask places parcels, retries them and reports lost workers. It is sent handles instead of data.
Results are fetched one by one and released, so a lost worker loses no finished work.
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

from bpeline.flows.engines.errands import Errand, admit_here, errand, other_program, run_parcel
from bpeline.flows.running import Stopped, progress, settings
from bpeline.tokenizer_core.another_python import required_python, spawning_by
from bpeline.tokenizer_core.errors import WorkerLost, WorkerRefused

R = TypeVar("R")
Item = TypeVar("Item")

CONNECT_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # without a single worker
PARCEL_BYTES = 256 << 20  # about a second of counting, a thousand times the cost of a Dask task
MOST_PARCELS = 4096  # a number that a scheduler handles easily
PARCELS_PER_WORKER = 8  # so that all workers end at about the same time
_RETRIES = 2  # of a parcel, for short network failures
_TURNS = 4  # attempts to distribute parcels if some workers cannot run them
_TICK_SECONDS = 0.02
_LOOK_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_SIZE_BYTES = 8
_LONGEST_GREETING = 1 << 20  # bytes; it is a few hundred

# By default Dask's workers return memory at once, which ours then request again, and poll their
# profiler and event loop: an idle cluster of two workers uses 8 % of a processor for that.
_SETTINGS: dict[str, Any] = {
    "distributed.nanny.pre-spawn-environ": {},
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


class DaskEngine:
    """Maps steps over the workers of a cluster; see `flows.engines.engine.Threads`.

    Args:
        address: of a scheduler; None starts a cluster on this machine when first needed, reachable
            from this machine only.
        patience: seconds to wait without a single worker.
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

    def parcels(self, size: int, by_one_thread: bool = False) -> int:
        # Each worker is a process, so workers do not wait for each other.
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
        # One task run for all parcels: thousands would overload Prefect's server.
        whole: list[R] = type(task)(on_the_cluster, name=task.name)()
        return whole

    def _map(
        self,
        asked: Errand,
        work: Callable[..., R],
        items: Sequence[Item],
        named: Callable[[Item], str],
        shared: dict[str, Any],
    ) -> list[R]:
        results: dict[int, R] = {}
        for turn in range(_TURNS):
            missing = [number for number in range(len(items)) if number not in results]
            if not missing:
                break
            able = self._able(asked)
            client = self._client()
            keys = {f"{work.__name__}-{asked.token}-{turn}-{number}": number for number in missing}
            futures = client.map(
                run_parcel,
                [items[number] for number in missing],
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
                        results[keys[key]] = result
                        for name, amount in heard.items():
                            progress.current().step_advanced(name, amount)
                except WorkerRefused:
                    continue  # it joined later: `_able` leaves it out of the next turn
                finally:
                    with suppress(Exception):  # the scheduler may be gone
                        client.cancel(futures, force=True)
        if len(results) < len(items):
            raise self._gone("the workers that can run the parcels keep dying")
        return [results[number] for number in range(len(items))]

    @contextmanager
    def _losses(self, named: Callable[[Item], str], parcels: Mapping[str, Item]) -> Iterator[None]:
        """Convert Dask's errors about lost workers and schedulers."""
        try:
            yield
        except KilledWorker as error:
            raise WorkerLost(
                f"{error.allowed_failures + 1} workers died one after the other at "
                f"{named(parcels[error.task])}",
                "expected workers with enough memory for one chunk and its words",
                "check the workers' logs and memory, and that text; or lower --table-memory. "
                "Finished counts are kept",
            ) from error
        except CancelledError as error:
            raise self._gone("the scheduler is gone") from error
        except Stopped as error:
            raise self._gone(f"a worker lost access to {self._meeting_place}") from error
        except RuntimeError as error:
            if "deserializ" not in str(error):
                raise
            raise other_program(f"the scheduler at {self._address}", str(error)) from error

    def _able(self, asked: Errand) -> list[str] | None:
        """Prepare all workers; return those that are able, or None if all are.

        With None, workers that join later are prepared before their first parcel.
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
                missing = "worker" if client.status == "running" else "scheduler"
                raise self._gone(f"there is no {missing}") from error
            able = [address for address, answer in answers.items() if answer is None]
            refused = {
                address: answer
                for address, answer in answers.items()
                if not isinstance(answer, OSError | None)  # an OSError: it died meanwhile
            }
            if not (able or refused):
                if time.monotonic() > end:
                    raise self._gone("workers die while they start")
                time.sleep(_TICK_SECONDS)
        for address, why in refused.items():
            refusal = other_program(f"the worker {address}", str(why))  # it cannot import bpeline
            if isinstance(why, WorkerRefused):
                refusal = why
            if not able:
                raise refusal
            if address not in self._left_out:
                progress.current().note(f"left out: {refusal.happened}")
                self._left_out.add(address)
        return able if refused else None

    def _arriving(self, futures: list[Any], able: list[str] | None) -> Iterator[Any]:
        """Yield key and result of each future; end when no able worker is left."""
        arriving = as_completed(futures, loop=self._client().loop)
        present, seen = self._workers(), time.monotonic()
        looked, future = seen, None
        while future is not None or not arriving.is_empty():
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                before, present, looked = present, self._workers(), now
                for lost in sorted(before - present):
                    progress.current().note(
                        f"the worker at {lost} is gone; other workers run its parcels"
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
                if future.status == "error":  # raised by the work itself
                    raise
                continue  # its worker died: Dask runs it again
            future.release()
            yield future.key, result
            future = None

    def _workers(self) -> set[str]:
        """Return the addresses of the current workers."""
        try:
            return set(self._client().nthreads())
        except (OSError, TimeoutError) as error:
            raise self._gone("the scheduler does not answer") from error

    def _gone(self, happened: str) -> WorkerLost:
        where = "on this machine" if self._address is None else f"at {self._address}"
        return WorkerLost(
            f"the Dask cluster {where} was lost: {happened}",
            "expected a scheduler that answers, and at least one worker; finished work is kept",
            "start the cluster and type the same command again, or use --engine local",
        )

    def _client(self) -> Any:
        if self._connected is None:
            self._connected = self._connect()
        if self._connected.status == "closed":
            raise self._gone("the scheduler is gone")
        return self._connected

    def _connect(self) -> Any:
        # Dask logs tracebacks of a lost scheduler, which our errors report in three lines.
        self._open.enter_context(silence_logging_cmgr(logging.CRITICAL))
        try:
            if self._address is not None:
                _require_greeting(self._address)
            address = self._address or self._start()
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="bpeline")
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkerLost(
                f"no Dask scheduler answers at {self._address}",
                "expected the address of a running scheduler, as `dask scheduler` prints it",
                "start one with `dask scheduler`, or type --engine dask to use this machine alone",
            ) from error
        self._open.callback(_close, client)
        return client

    def _start(self) -> Any:
        """Start a cluster of processes on this machine, bound to the loopback interface."""
        python = required_python(
            "a cluster's workers are processes", "type --engine local to use threads"
        )
        self._open.enter_context(spawning_by(python))
        # While the cluster is open, because Dask restarts lost workers.
        self._open.enter_context(settings.starting_nothing_from_here())
        try:
            with dask.config.set(_SETTINGS):
                cluster = LocalCluster(
                    n_workers=self._own_workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    memory_limit=0,  # chunks are bounded, and Dask has no data to spill to disk
                    silence_logs=logging.CRITICAL,
                    preload=["bpeline.flows.engines.errands"],
                )
        except (OSError, RuntimeError, TimeoutError) as error:
            raise WorkerLost(
                f"the processes of a Dask cluster cannot be started: {error}",
                'expected an importable program, with its calls below `if __name__ == "__main__":`',
                "type --engine local to use threads",
            ) from error
        self._open.callback(_close, cluster)
        return cluster


def parcels_of(size: int, workers: int) -> int:
    """Return the number of parcels for ``size`` bytes."""
    by_size = -(-size // PARCEL_BYTES)
    return min(MOST_PARCELS, max(by_size, PARCELS_PER_WORKER * workers))


def _require_greeting(address: str) -> None:
    """Check that a Dask scheduler answers: it first sends the size of its greeting.

    Dask's client would wait forever for a silent peer and accept any size. TLS is not checked.
    """
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme != "tcp":
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
        greeting = connection.recv(_SIZE_BYTES)
    if len(greeting) < _SIZE_BYTES or int.from_bytes(greeting, "little") > _LONGEST_GREETING:
        raise OSError("it speaks another protocol")


def _close(service: Any) -> None:
    """Close a client or a cluster, which may be lost already."""
    with suppress(OSError, TimeoutError, RuntimeError):
        service.close(timeout=_CLOSE_SECONDS)
