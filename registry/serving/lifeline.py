"""End services together with the process that started them.

A service inherits one end of a pipe; the other end closes when its parent is gone. Prefect runs
have sessions of their own, so descendants are ended one by one.
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
_FAMILY_SECONDS = 5.5  # for runs to report that they crashed
_OWN_SECONDS = 1.5
_KILL_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_SET_CHILD_SUBREAPER = 36


def parent_variable(descriptor: int) -> dict[str, str]:
    """Return the environment variable with a service's parent and its pipe end."""
    parent = this_process()
    return {_PARENT_VARIABLE: f"{descriptor} {parent.pid} {parent.host} {parent.birth}"}


def end_with_parent() -> None:
    """End this service and its descendants within ten seconds after its parent ends."""
    descriptor, _, _ = os.environ.pop(_PARENT_VARIABLE, "").partition(" ")
    if descriptor:
        os.set_inheritable(int(descriptor), False)
        threading.Thread(target=_end_after, args=(int(descriptor),), daemon=True).start()


def _end_after(descriptor: int) -> None:
    os.read(descriptor, 1)  # nothing is ever written: returns when the other end closes
    end_family(os.getpid(), _FAMILY_SECONDS, itself=False)
    end_family(os.getpid(), _OWN_SECONDS)


def end_family(
    pid: int, seconds: float, *, itself: bool = True, besides: Collection[int] = ()
) -> None:
    """Send SIGTERM to a process and its descendants; after ``seconds``, kill the rest.

    Args:
        itself: False ends only the descendants.
        besides: ids of descendants to leave running.
    """
    processes: dict[int, Process] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline + _KILL_SECONDS:
        family = [member for member in descendants_of(pid) if member not in besides]
        for member in (*family, pid) if itself else family:
            if member not in processes:
                processes[member] = process_of(member)
                _send(member, signal.SIGTERM)
        alive = [member for member, process in processes.items() if not process.is_dead()]
        if not alive:
            return
        if time.monotonic() > deadline:
            for member in alive:  # the parent process last
                _send(member, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


@contextmanager
def ending_orphans(seconds: float) -> Iterator[None]:
    """End the descendants of this process that were started while the block ran.

    On Linux, the children of a killed service become children of this process.
    """
    before = descendants_of(os.getpid())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        end_family(os.getpid(), seconds, itself=False, besides=before)


def left_behind(root: Path) -> list[int]:
    """Return the ids of services whose parent is gone; empty without /proc."""
    pids = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError, ValueError):
            fields = (entry.partition("=") for entry in os.fsdecode(file.read_bytes()).split("\0"))
            environment = {name: value for name, _, value in fields}
            if environment.get("BPELINE_HOME") == str(root) and _PARENT_VARIABLE in environment:
                _, pid, host, *birth = environment[_PARENT_VARIABLE].split(" ")
                if Process(int(pid), host, "".join(birth)).is_dead():
                    pids.append(int(file.parent.name))
    return sorted(pids)
