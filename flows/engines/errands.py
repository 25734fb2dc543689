"""What runs in the workers of a cluster, and what each must prove before it may.

An errand is one map over a cluster. As long as it is wanted there is a small file with its token:
a worker that does not see it does not see our files, and stops when it is gone.
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
_SECONDS_TO_APPEAR = 5.0  # network file systems remember for some seconds that a file is not there
_LOOK_SECONDS = 0.1

_admitted: set[str] = set()  # tokens of errands that this process may do
_admitting = threading.Lock()


@functools.cache
def program_digest() -> str:
    """Digest of all that results depend on beside the text: our sources, libraries, Unicode."""
    root = Path(__file__).parents[2]
    sources = {
        str(path.relative_to(root)): digest_of_bytes(path.read_bytes())
        for room in _ROOMS
        for path in sorted((root / room).rglob("*.py"))
    }
    libraries = {name: version(name) for name in _DECIDE_COUNTS}
    return digest_of([sources, libraries, unicode_classes_digest()])


def other_program(who: str, reason: str = "") -> WorkerRefused:
    """The error of somebody who would count otherwise, or cannot at all."""
    how = f"cannot be used: {reason}" if reason else "runs another version"
    return WorkerRefused(
        f"{who} {how} (of bpeline, its libraries or Unicode tables)",
        "the same program on all machines: others would count otherwise without a word",
        "`pip install 'bpeline[cluster]'` in the same versions everywhere, and start workers anew",
    )


@dataclass(frozen=True, slots=True)
class Errand:
    """One map over a cluster, as its workers see it.

    Attributes:
        path: of the file that is there as long as the results are wanted.
        token: what it holds.
        program: `program_digest` of who asks.
        prepare: compiles what is needed, and raises a BpelineError where parcels cannot be read.
    """

    path: Path
    token: str
    program: str
    prepare: Callable[[], object]

    def is_over(self) -> bool:
        """Whether nobody waits for the results any more."""
        return not self.path.exists()

    def admit(self, where: str) -> None:
        """Prepare this process, once; ``where`` it runs is told.

        Raises:
            WorkerRefused: it runs another program, does not see the asker's files, or may not read
                what it has to.
        """
        if self.token in _admitted:
            return
        with _admitting:
            if program_digest() != self.program:
                raise other_program(where)
            if self._token_here() != self.token:
                raise WorkerRefused(
                    f"{where} does not see {self.path.parent}",
                    "workers that share the workspace and the corpus under the same paths",
                    "name a directory on a shared file system, with --workspace (or -o)",
                )
            try:
                self.prepare()
            except BpelineError as error:
                raise WorkerRefused(
                    f"{where} cannot do it: {error.happened}", error.accepted, error.next_step
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
    """Make an errand; it is over when the block is left."""
    token = secrets.token_hex(8)
    path = meeting_place / f".tmp-errand-{token}"  # swept, should nobody be left to remove it
    DURABLE.write(path, token.encode())
    try:
        yield Errand(path, token, program_digest(), prepare)
    finally:
        path.unlink(missing_ok=True)


class Tally(progress.Progress):
    """Adds up what a step says of its progress, to be told where somebody listens."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}

    def step_advanced(self, name: str, amount: int) -> None:
        self.amounts[name] = self.amounts.get(name, 0) + amount


async def admit_here(errand: Errand, dask_worker: Any) -> None:
    """Prepare a worker, which answers its scheduler meanwhile; errors as `Errand.admit`."""
    await asyncio.to_thread(errand.admit, _place(dask_worker.address))


def run_parcel(
    item: Any, errand: Errand, work: Callable[..., Any], shared: dict[str, Any]
) -> tuple[Any, dict[str, int]]:
    """Do one parcel in a worker; what the work returned, and its progress by name.

    Raises:
        WorkerRefused: see `Errand.admit`.
        BpelineError: of the work; it names the worker.
        Stopped: nobody waits for it any more.
    """
    where = _place(get_worker().address)
    errand.admit(where)
    heard = Tally()
    try:
        with progress.listening(heard), stopped_by(errand.is_over):
            return work(item, **shared), heard.amounts
    except BpelineError as error:
        error.happened = f"{error.happened} (in {where})"
        parts = (error.happened, error.accepted, error.next_step)
        error.args = ("\n".join(filter(None, parts)),)
        raise


def dask_setup(worker: object) -> None:
    """In each worker of our own: Ctrl-C reaches all processes of a terminal, and we end these."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _place(address: str) -> str:
    return f"the worker {address} on {os.uname().nodename}"
