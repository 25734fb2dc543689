"""Work on the workers of a cluster, and the checks before a worker may run it.

An errand is one map over a cluster. A small file with its token exists while the results are
needed. Workers must be able to read this file, and stop when it is removed.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from distributed import get_worker

from bpeline.flows.running import progress, stopped_by
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, WorkerRefused
from bpeline.tokenizer_core.splitting import unicode_classes_digest

_ROOMS = ("tokenizer_core", "registry", "flows")
_DECIDE_COUNTS = ("regex", "numpy", "numba", "duckdb", "pyarrow")
_SECONDS_TO_APPEAR = 5.0  # network file systems cache for some seconds that a file is missing
_LOOK_SECONDS = 0.1

_admitted: set[str] = set()  # tokens of errands that this process may run
_admitting = threading.Lock()


@functools.cache
def program_digest() -> str:
    """Digest of the code, libraries and Unicode tables, which all affect counts."""
    root = Path(__file__).parents[2]
    sources = {
        str(path.relative_to(root)): digest_of_bytes(path.read_bytes())
        for room in _ROOMS
        for path in sorted((root / room).rglob("*.py"))
    }
    libraries = {name: version(name) for name in _DECIDE_COUNTS}
    return digest_of([sources, libraries, unicode_classes_digest()])


def other_program(who: str, reason: str = "") -> WorkerRefused:
    """Return the error for a worker that would count differently, or cannot count."""
    how = f"cannot be used: {reason}" if reason else "runs another version"
    return WorkerRefused(
        f"{who} {how} (of bpeline, its libraries or Unicode tables)",
        "expected the same program on all machines: others would silently count differently",
        "type `pip install 'bpeline[cluster]'` in the same versions everywhere, restart workers",
    )


@dataclass(frozen=True, slots=True)
class Errand:
    """One map over a cluster, as its workers see it.

    Attributes:
        path: file that exists while the results are wanted.
        prepare: compiles the kernels; raises a BpelineError if parcels cannot be read.
    """

    path: Path
    token: str
    program: str
    prepare: Callable[[], object]

    def is_over(self) -> bool:
        """Whether the results are no longer wanted."""
        return not self.path.exists()

    def admit(self, where: str) -> None:
        """Prepare this process, once; raise WorkerRefused if it is unsuitable."""
        if self.token in _admitted:
            return
        with _admitting:
            if program_digest() != self.program:
                raise other_program(where)
            if self._token_here() != self.token:
                raise WorkerRefused(
                    f"{where} cannot access {self.path.parent}",
                    "expected workers that share the workspace and the corpus under the same paths",
                    "name a directory on a shared file system, with --workspace (or -o)",
                )
            try:
                self.prepare()
            except BpelineError as error:
                raise WorkerRefused(
                    f"{where} cannot run it: {error.happened}", error.accepted, error.next_step
                ) from error
            _admitted.add(self.token)

    def _token_here(self) -> str:
        end = time.monotonic() + _SECONDS_TO_APPEAR
        while True:
            with suppress(OSError):
                return read_file(self.path).decode()
            if time.monotonic() > end:
                return ""
            time.sleep(_LOOK_SECONDS)


@contextmanager
def errand(meeting_place: Path, prepare: Callable[[], object]) -> Iterator[Errand]:
    """Create an errand that ends with the block."""
    token = secrets.token_hex(8)
    path = meeting_place / f".tmp-errand-{token}"  # cleaned up later if this process dies
    DURABLE.write(path, token.encode())
    try:
        yield Errand(path, token, program_digest(), prepare)
    finally:
        path.unlink(missing_ok=True)


class Tally(progress.Progress):
    """Sums up the progress of a step, to be reported by the client."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}

    def step_advanced(self, name: str, amount: int) -> None:
        self.amounts[name] = self.amounts.get(name, 0) + amount


async def admit_here(errand: Errand, dask_worker: Any) -> None:
    """Prepare a worker without blocking its event loop; errors as in `Errand.admit`."""
    await asyncio.to_thread(errand.admit, _place(dask_worker.address))


def run_parcel(
    item: Any, errand: Errand, work: Callable[..., Any], shared: dict[str, Any]
) -> tuple[Any, dict[str, int]]:
    """Run one parcel in a worker; return its result and its progress by name.

    Raises:
        Stopped: the result is no longer wanted.
    """
    where = _place(get_worker().address)
    errand.admit(where)
    tally = Tally()
    try:
        with progress.listening(tally), stopped_by(errand.is_over):
            return work(item, **shared), tally.amounts
    except BpelineError as error:
        error.happened = f"{error.happened} (in {where})"
        parts = (error.happened, error.accepted, error.next_step)
        error.args = ("\n".join(filter(None, parts)),)
        raise


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C in workers started here; the client ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _place(address: str) -> str:
    return f"the worker {address} on {os.uname().nodename}"
