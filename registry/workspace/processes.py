"""Identify processes across pid reuse, by boot id and start time."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
# Fields of /proc/<pid>/stat, counted after the command's closing parenthesis.
_STATE, _PARENT, _START_TIME = 0, 1, 19
_ENDED = {"Z", "X"}  # ended, but not yet reaped by the parent


@dataclass(frozen=True, slots=True)
class Process:
    """One process on one machine.

    Attributes:
        birth: boot id and start time in clock ticks; empty without /proc (then only the pid is
            compared).
    """

    pid: int
    host: str
    birth: str = ""

    def is_dead(self) -> bool:
        """Whether this process has certainly ended; False if unknown."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # running, as another user
        except (OverflowError, OSError):
            return False
        status = _status_of(self.pid)
        if status and status[_STATE] in _ENDED:
            return True
        birth = birth_of(self.pid)
        return bool(self.birth and birth and birth != self.birth)


def this_process() -> Process:
    return process_of(os.getpid())


def process_of(pid: int) -> Process:
    """Return the process that has this pid now."""
    return Process(pid, socket.gethostname(), birth_of(pid))


def descendants_of(pid: int) -> list[int]:
    """Return the pids of all descendants of a process."""
    children: dict[int, list[int]] = {}
    for child, parent in _processes():
        children.setdefault(parent, []).append(child)
    pids = [pid]
    for parent in pids:
        pids += children.get(parent, [])
    return pids[1:]


def _processes() -> Iterator[tuple[int, int]]:
    """Yield pid and parent pid of all processes."""
    if not (_PROC / "self").exists():  # macOS
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=False)
        for line in listed.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
    for folder in _PROC.glob("[0-9]*"):
        if status := _status_of(int(folder.name)):
            yield int(folder.name), int(status[_PARENT])


def birth_of(pid: int) -> str:
    """Return `Process.birth` of a pid; empty if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{_status_of(pid)[_START_TIME]}"
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def _status_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command; empty if unknown."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return []
