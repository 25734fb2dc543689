"""What workers are told beside their parcels, and what they must be: the same program, near the
same files. Knows no Dask; these are the functions that run in its workers.

An errand is one map over a cluster. As long as it is wanted there is a small file with its token,
which every worker reads before each parcel: so a worker that does not see our files is found out
at once, and one that still works when nobody waits any more stops.
"""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bpeline.flows.running import progress, stopped_by
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.cache_directory import opened
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import WorkerRefused
from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_directory
from bpeline.tokenizer_core.splitting import unicode_classes_digest

_ROOMS = ("tokenizer_core", "registry", "flows")
_DECIDE_COUNTS = ("regex", "numpy", "numba", "duckdb", "pyarrow")
_SECONDS_TO_APPEAR = 5.0  # network file systems remember for some seconds that a file is not there
_LOOK_SECONDS = 0.1


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
    """

    path: Path
    token: str
    program: str

    def is_set(self) -> bool:
        """Whether nobody waits for the results any more."""
        return not self.path.exists()

    def call_off(self) -> None:
        """Let those that are at work stop at the next occasion."""
        self.path.unlink(missing_ok=True)

    def admit(self) -> None:
        """Refuse to work in a process that would count otherwise or elsewhere.

        Raises:
            WorkerRefused: this process runs another program, or does not see the asker's files.
        """
        here = f"process {os.getpid()} on {os.uname().nodename}"
        if program_digest() != self.program:
            raise other_program(f"the worker in {here}")
        if self._token_here() != self.token:
            raise WorkerRefused(
                f"the worker in {here} does not see {self.path.parent}",
                "workers on machines that share the workspace and the corpus under the same paths",
                "name a directory on a shared file system, with --workspace (or -o)",
            )

    def _token_here(self) -> str:
        end = time.monotonic() + _SECONDS_TO_APPEAR
        while True:
            with suppress(OSError):
                return read_file(self.path).decode()
            if time.monotonic() > end:
                return ""
            time.sleep(_LOOK_SECONDS)


@contextmanager
def errand(meeting_place: Path) -> Iterator[Errand]:
    """Make an errand; it is over when the block is left."""
    token = secrets.token_hex(8)
    path = meeting_place / f".tmp-errand-{token}"  # swept, should nobody be left to remove it
    DURABLE.write(path, token.encode())
    asked = Errand(path, token, program_digest())
    try:
        yield asked
    finally:
        asked.call_off()


class Tally(progress.Progress):
    """Adds up what a step says of its progress, to be told where somebody listens."""

    def __init__(self) -> None:
        self.amounts: dict[str, int] = {}

    def step_advanced(self, name: str, amount: int) -> None:
        self.amounts[name] = self.amounts.get(name, 0) + amount


def run_parcel(
    item: Any, errand: Errand, work: Callable[..., Any], shared: dict[str, Any]
) -> tuple[Any, dict[str, int]]:
    """Do one parcel in a worker.

    Returns:
        What the work returned, and its progress by name.

    Raises:
        WorkerRefused: see `Errand.admit`.
        Stopped: nobody waits for it any more.
    """
    errand.admit()
    heard = Tally()
    with progress.listening(heard), stopped_by(errand.is_set):
        return work(item, **shared), heard.amounts


def warm_up(errand: Errand, prepare: Callable[[], object]) -> None:
    """Let a worker prove itself and compile what it needs; one worker of a machine at a time.

    Those that wait load what the first one compiled.

    Raises:
        WorkerRefused: see `Errand.admit`.
    """
    errand.admit()
    directory = cache_directory()
    if directory is None:
        prepare()
        return
    with opened(directory) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        prepare()


def leave_interrupts_to_the_asker() -> None:
    """Ctrl-C reaches all processes of a terminal; workers of our own are ended by us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
