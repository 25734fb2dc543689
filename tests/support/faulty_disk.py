"""Disks that count, die, fail or remember: what the durable writer is run on to see it survive.

Every operation of `Disk` and every commit of a SQLite database (our catalogue's and MLflow's) gets
a number. A test names a number and says what happens there; that is also its reproduction.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core.durable_files import DURABLE, Content, Disk

FULL = (errno.ENOSPC, errno.EDQUOT)

# Threads whose commits come when they come: they have no place in an order.
UNORDERED_THREADS = ("prepare to publish", "heartbeat")


@dataclass(frozen=True, slots=True)
class Operation:
    """One durable operation: its number from 1 on, its kind, the name of what it touched."""

    number: int
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} {self.name}"


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    """A disk of ``size``, such as ``1536k``; skips the test where none can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root mounts a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


class CountingDisk(Disk):
    """A real disk whose operations are numbered and listed.

    Attributes:
        operations: what was done, or was about to be done when the process died.
    """

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._guard = threading.Lock()

    def make_directory(self, path: Path) -> None:
        self.perform("make directory", path, lambda: Disk.make_directory(self, path))

    def create(self, path: Path, content: Content) -> None:
        self.perform("create", path, lambda: Disk.create(self, path, content))

    def sync(self, path: Path) -> None:
        self.perform("sync", path, lambda: Disk.sync(self, path))

    def replace(self, source: Path, target: Path) -> None:
        self.perform("replace", target, lambda: Disk.replace(self, source, target))

    def remove(self, path: Path) -> None:
        self.perform("remove", path, lambda: Disk.remove(self, path))

    def perform(self, kind: str, path: Path, operate: Callable[[], None]) -> None:
        """Do one operation under its number."""
        with self._guard:
            # What is written aside has a random name: the name behind it is what it is for.
            name = path.name.split("-", 2)[2] if path.name.startswith(".tmp-") else path.name
            operation = Operation(len(self.operations) + 1, kind, name)
            self.operations.append(operation)
        self.before(operation, path)
        operate()
        self.after(operation, path)

    def before(self, operation: Operation, path: Path) -> None:
        """Called when an operation is about to be done."""

    def after(self, operation: Operation, path: Path) -> None:
        """Called when an operation is done."""


class CrashingDisk(CountingDisk):
    """A disk on which the process is killed (signal 9) at one operation.

    Args:
        at: the number of the operation.
        late: whether it is done before the process dies.
    """

    def __init__(self, at: int, *, late: bool) -> None:
        super().__init__()
        self._at, self._late = at, late

    def before(self, operation: Operation, path: Path) -> None:
        if operation.number == self._at and not self._late:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, operation: Operation, path: Path) -> None:
        if operation.number == self._at and self._late:
            os.kill(os.getpid(), signal.SIGKILL)


class FailingDisk(CountingDisk):
    """A disk on which one operation fails with an error of the system.

    Args:
        at: the number of the operation.
        error: its ``errno``; on a full disk a file that is created holds half of its content.
        lasting: whether all later operations fail too.
    """

    def __init__(self, at: int, error: int, *, lasting: bool = False) -> None:
        super().__init__()
        self._at, self._error, self._lasting = at, error, lasting

    def before(self, operation: Operation, path: Path) -> None:
        number = operation.number
        if number == self._at or (self._lasting and number > self._at):
            if operation.kind == "commit":
                raise sqlite3.OperationalError(_OF_SQLITE[self._error])
            if operation.kind == "create" and self._error in FULL:
                path.write_bytes(b"half of what was to be written")
            raise OSError(self._error, os.strerror(self._error), str(path))


_OF_SQLITE = {
    errno.ENOSPC: "database or disk is full",
    errno.EDQUOT: "database or disk is full",
    errno.EIO: "disk I/O error",
    errno.EMFILE: "unable to open database file",
    errno.EACCES: "unable to open database file",
    errno.EROFS: "attempt to write a readonly database",
}


@dataclass(frozen=True, slots=True)
class Done:
    """An operation with all that is needed to imagine that it was lost."""

    kind: str
    path: Path
    content: bytes = b""
    source: Path | None = None


@dataclass(slots=True)
class RecordingDisk(Disk):
    """A disk that remembers what was done to it, for the states a power loss may leave.

    Attributes:
        done: in order.
    """

    done: list[Done] = field(default_factory=list)

    def make_directory(self, path: Path) -> None:
        Disk.make_directory(self, path)
        self.done.append(Done("make directory", path))

    def create(self, path: Path, content: Content) -> None:
        Disk.create(self, path, content)
        self.done.append(Done("create", path, bytes(content)))

    def sync(self, path: Path) -> None:
        if path.is_file() and not any(one.path == path for one in self.done):
            # Written by somebody who opens files himself; seen here for the first time.
            self.done.append(Done("create", path, path.read_bytes()))
        Disk.sync(self, path)
        self.done.append(Done("sync", path))

    def replace(self, source: Path, target: Path) -> None:
        Disk.replace(self, source, target)
        self.done.append(Done("replace", target, source=source))

    def remove(self, path: Path) -> None:
        Disk.remove(self, path)
        self.done.append(Done("remove", path))


@contextmanager
def running_on(disk: CountingDisk) -> Iterator[None]:
    """Let this process's durable operations, and its databases' commits, go to a disk."""
    from sqlalchemy.engine.default import DefaultDialect

    commit = DefaultDialect.do_commit

    def counted(self: Any, connection: Any) -> None:
        if threading.current_thread().name in UNORDERED_THREADS:
            commit(self, connection)
            return
        database = Path(connection.execute("PRAGMA database_list").fetchall()[0][2])
        disk.perform("commit", database, lambda: commit(self, connection))

    DefaultDialect.do_commit = counted  # type: ignore[method-assign]
    try:
        with DURABLE.on(disk):
            yield
    finally:
        DefaultDialect.do_commit = commit  # type: ignore[method-assign]
