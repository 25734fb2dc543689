"""What surrounds a job that may be killed or broken: its registry, its disk, what is said of it.

Knows no job. Each opens its workspace anew, as a new process would.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from faulty_disk import CountingDisk, CrashingDisk, FailingDisk, running_on
from workspace_state import state_of
from wrong_clock import wrong_clock

from bpeline.registry import environment

NOBODY = "http://127.0.0.1:9"  # a tracking server that refuses at once

Job = Callable[..., dict[str, Any]]
StateOf = Callable[[str], dict[str, Any]]


def disturbed(
    *, registers: bool = True, of: str = "workspace", state: StateOf = state_of
) -> Callable[[Callable[..., None]], Job]:
    """Let a function be run as a job on a disk that counts its operations, dies or fails.

    Args:
        registers: whether MLflow answers, a SQLite file in the workspace; a caller may say.
        of: the argument that ``state`` is asked about.
        state: what is said of the place afterwards.
    """

    def mark(work: Callable[..., None]) -> Job:
        @wraps(work)
        def job(
            *,
            point: int | None = None,
            late: bool = False,
            error: int | None = None,
            lasting: bool = False,
            largest_file: int | None = None,
            memory: int | None = None,
            clock: int | None = None,
            looks: bool = True,
            registers: bool = registers,
            **named: Any,
        ) -> dict[str, Any]:
            """Do the work.

            Args:
                point, late: of the operation at which the process is killed, before or after it.
                error: the ``errno`` with which that operation fails instead.
                lasting: whether all later operations fail too.
                largest_file: bytes that no file may exceed: the system refuses to write on.
                memory: bytes of address space that there are beside those in use when it begins.
                clock: the seed of a clock of the day that is wrong.
                looks: whether to say what there is afterwards; what is damaged, or worked in by
                    others, cannot be looked at.
                registers: whether MLflow answers.
                named: what the work itself is given.

            Returns:
                ``operations``: what was done, numbered; ``state``; ``seconds`` of the work.
            """
            workspace = str(named["workspace"])
            connect(workspace, registers=registers)
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
            let_a_minute_pass(workspace)
            begin = time.monotonic()
            with (
                _disk(point, late, error, lasting) as operations,
                nullcontext() if memory is None else _little_memory(memory),
                nullcontext() if clock is None else wrong_clock(clock),
            ):
                work(**named)
            seconds = time.monotonic() - begin
            said = state(str(named[of])) if looks else {}
            return {"operations": operations, "state": said, "seconds": seconds}

        return job

    return mark


@contextmanager
def _disk(point: int | None, late: bool, error: int | None, lasting: bool) -> Iterator[list[str]]:
    """Run on a disk that counts, and dies or fails at one point; yields what was done."""
    disk = CountingDisk()
    if point is not None and error is not None:
        disk = FailingDisk(point, error, lasting=lasting)
    elif point is not None:
        disk = CrashingDisk(point, late=late)
    shown: list[str] = []
    with running_on(disk):
        yield shown
    shown += map(str, disk.operations)


@contextmanager
def _little_memory(more: int) -> Iterator[None]:
    """Let this process have so many bytes of address space more than it has, and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def connect(workspace: str, *, registers: bool = True) -> None:
    """Work in a workspace with its own MLflow, or with one that does not answer."""
    os.environ.update(MLFLOW_HTTP_REQUEST_MAX_RETRIES="0", MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR="0")
    environment._configured = None
    address = {} if registers else {"tracking_uri": NOBODY}
    environment.configure(workspace=workspace, **address)


def let_a_minute_pass(workspace: str) -> None:
    """What was written aside lately may be somebody's download; a minute later it is a leftover.

    Of several at work in the workspace another may sweep or rename anything meanwhile: what is
    gone is passed over, files and directories alike.
    """
    a_while_ago = time.time() - 120
    for directory, names, files in os.walk(workspace):
        for name in names + files:
            if name.startswith(".tmp-"):
                with suppress(FileNotFoundError):
                    os.utime(os.path.join(directory, name), (a_while_ago, a_while_ago))
