"""Who is working: a process as a value that other processes can ask about later.

Knows nothing of locks, runs or files of ours. A process id alone says little, since ids are used
again; together with the machine's boot and the process's start it names one process for ever.
"""

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
_ENDED = {"Z", "X"}  # killed, but not yet collected by its parent


@dataclass(frozen=True, slots=True)
class Process:
    """One process on one machine.

    Attributes:
        pid: its id there.
        host: the machine's name.
        birth: the machine's boot and the process's start in clock ticks; empty where the system
            does not tell (then only the id is compared).
    """

    pid: int
    host: str
    birth: str = ""

    def is_dead(self) -> bool:
        """Whether this process certainly no longer runs; False when it cannot be known."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # alive, and somebody else's
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
    """The process of this machine that has this id now."""
    return Process(pid, socket.gethostname(), birth_of(pid))


def descendants_of(pid: int) -> list[int]:
    """The ids of a process's children, their children and so on."""
    children: dict[int, list[int]] = {}
    for child, parent in _processes():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def _processes() -> Iterator[tuple[int, int]]:
    """The id of each process of this machine, and its parent's."""
    if not (_PROC / "self").exists():  # macOS
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=False)
        for line in listed.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
    for folder in _PROC.glob("[0-9]*"):
        if status := _status_of(int(folder.name)):
            yield int(folder.name), int(status[_PARENT])


def birth_of(pid: int) -> str:
    """When a process of this machine started, as text to compare; empty when unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{_status_of(pid)[_START_TIME]}"
    except (OSError, IndexError, UnicodeDecodeError):
        return ""


def _status_of(pid: int) -> list[str]:
    """The fields of a process's state; none where the system does not tell."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, UnicodeDecodeError):
        return []
