"""Services end when the process that started them does, however it ended.

A service inherits one end of a pipe; the other one closes when that process is gone. Runs of
Prefect have sessions of their own, so descendants are ended one by one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bpeline.registry.workspace import Process, descendants_of, process_of, this_process

_PARENT_VARIABLE = "BPELINE_PARENT"
_FAMILY_SECONDS = 5.5  # for runs to say that they crashed
_OWN_SECONDS = 1.5
_KILL_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_SET_CHILD_SUBREAPER = 36


def parent_variable(descriptor: int) -> dict[str, str]:
    """The environment variable that tells a service of its parent, and of its end of the pipe."""
    parent = this_process()
    return {_PARENT_VARIABLE: f"{descriptor} {parent.pid} {parent.host} {parent.birth}"}


def end_with_parent() -> None:
    """End this service with all its descendants soon after the process that started it.

    Descendants are asked first, and ended within ten seconds.
    """
    descriptor, _, _ = os.environ.pop(_PARENT_VARIABLE, "").partition(" ")
    if descriptor:
        os.set_inheritable(int(descriptor), False)
        threading.Thread(target=_end_after, args=(int(descriptor),), daemon=True).start()


def _end_after(descriptor: int) -> None:
    os.read(descriptor, 1)  # nothing is ever written: it returns when the other end is closed
    end_family(os.getpid(), _FAMILY_SECONDS, itself=False)
    end_family(os.getpid(), _OWN_SECONDS)


def end_family(
    pid: int, seconds: float, *, itself: bool = True, besides: Collection[int] = ()
) -> None:
    """Ask a process and its descendants to end, and kill those left after some seconds.

    Args:
        itself: False leaves the process alone.
        besides: ids of descendants to leave alone.
    """
    asked: dict[int, Process] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline + _KILL_SECONDS:
        family = [one for one in descendants_of(pid) if one not in besides]
        for one in (*family, pid) if itself else family:
            if one not in asked:
                asked[one] = process_of(one)
                _send(one, signal.SIGTERM)
        alive = [one for one, process in asked.items() if not process.is_dead()]
        if not alive:
            return
        if time.monotonic() > deadline:
            for one in alive:  # the process itself last
                _send(one, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


@contextmanager
def ending_orphans(seconds: float) -> Iterator[None]:
    """End all processes that descend from this one and began while the block ran.

    On Linux, what a killed service started becomes a child of this process.
    """
    before = descendants_of(os.getpid())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        end_family(os.getpid(), seconds, itself=False, besides=before)


def left_behind(root: Path) -> list[int]:
    """Ids of services of a workspace whose parent is gone; none where /proc is missing."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError, ValueError):
            fields = (one.partition("=") for one in os.fsdecode(file.read_bytes()).split("\0"))
            environment = {name: value for name, _, value in fields}
            if environment.get("BPELINE_HOME") == str(root) and _PARENT_VARIABLE in environment:
                _, pid, host, *birth = environment[_PARENT_VARIABLE].split(" ")
                if Process(int(pid), host, "".join(birth)).is_dead():
                    found.append(int(file.parent.name))
    return sorted(found)
