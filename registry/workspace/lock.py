"""The lock of a workspace: one writer at a time, released by the kernel however the writer ends.

Knows one lock file; what is protected by it is the caller's affair. The lock is `flock` on an open
file, so it cannot outlive its holder as a file with a process id in it would; the file's content
only tells others who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bpeline.registry.workspace.processes import Process, this_process
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.errors import StorageError, WorkspaceLocked

_LONGEST_CONTENT = 4096
_LONGEST_PURPOSE = 500
_PATIENCE_SECONDS = 2.0  # for those who hold the lock for a moment and leave no name: the sweep


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a workspace, as written in its lock file.

    Attributes:
        process: the holder.
        since: UTC, ISO 8601.
        purpose: what it said it was doing last.
    """

    process: Process
    since: str
    purpose: str


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock while it is held."""

    descriptor: int
    since: str

    def doing(self, purpose: str) -> None:
        """Tell those who find the workspace locked what is going on now."""
        record = canonical_json(
            {
                **asdict(this_process()),
                "since": self.since,
                "purpose": purpose[:_LONGEST_PURPOSE],
            }
        )
        # In place, not aside: the lock is on this very file. A torn record costs a message, and a
        # full disk, on which `gc` has to work, holds none.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, record, 0)


@contextmanager
def holding(lock_file: Path, purpose: str) -> Iterator[HeldLock]:
    """Hold the lock and say why.

    Raises:
        WorkspaceLocked: somebody else holds it: who, where, since when, doing what.
    """
    descriptor = take(lock_file)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while descriptor is None:
        holder = read_holder(lock_file)
        if holder is not None or time.monotonic() > deadline:
            raise _locked(lock_file.parent, holder)
        time.sleep(0.02)
        descriptor = take(lock_file)
    try:
        held = HeldLock(descriptor, datetime.now(UTC).isoformat(timespec="seconds"))
        held.doing(purpose)
        yield held
    finally:
        release(descriptor)


def take(lock_file: Path, *, wait: bool = False) -> int | None:
    """Take the lock without a name; the descriptor to `release`, or None when it is held.

    Raises:
        StorageError: the workspace cannot be written.
    """
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise
        raise StorageError(
            f"the workspace {lock_file.parent} cannot be written: {error.strerror}",
            "a workspace is a directory that the current user owns, on a disk that can be written",
            "set BPELINE_HOME to such a directory",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return None
        raise
    os.ftruncate(descriptor, 0)  # a holder that was killed left its name
    with _guard:
        _held.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    with _guard:
        _held.discard(descriptor)
    os.close(descriptor)


def is_held(lock_file: Path) -> bool:
    """Whether somebody holds the lock at this moment."""
    try:
        with lock_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in {errno.EWOULDBLOCK, errno.EACCES} and lock_file.exists()
    return False


def read_holder(lock_file: Path) -> LockHolder | None:
    """Who is written in the lock file and not known to be dead."""
    try:
        with lock_file.open("rb") as file:
            record = json.loads(file.read(_LONGEST_CONTENT))
        process = Process(int(record["pid"]), str(record["host"]), str(record["birth"]))
        holder = LockHolder(process, str(record["since"]), str(record["purpose"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if process.is_dead() else holder


def _locked(root: Path, holder: LockHolder | None) -> WorkspaceLocked:
    if holder is None:
        return WorkspaceLocked(
            f"another process works in {root} and has not yet said who it is",
            "one run at a time writes to a workspace",
            "try again in a moment, or set BPELINE_HOME to another workspace",
        )
    return WorkspaceLocked(
        f"process {holder.process.pid} on {holder.process.host} has worked in {root} "
        f"since {holder.since}: {holder.purpose}",
        "one run at a time writes to a workspace",
        "wait for it, stop it, or set BPELINE_HOME to another workspace",
    )


# A forked child shares the open file and would keep the lock alive after us: it closes its copy.
_guard = threading.Lock()
_held: set[int] = set()


def _forget_in_child() -> None:
    global _guard
    _guard = threading.Lock()
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
