"""The lock of a workspace: one writer at a time, released by the kernel however the writer ends.

Knows one lock file; what is protected by it is the caller's affair. The lock is `flock` on an open
file, so it cannot outlive its holder as a file with a process id in it would; the file's content
only tells others who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeVar

from bpeline.registry.workspace.processes import Process, this_process
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError, WorkspaceLocked

_LONGEST_CONTENT = 4096
_LONGEST_PURPOSE = 500
_TERMINAL_SECONDS, _UNATTENDED_SECONDS = 60.0, 600.0  # longest wait for a lock
_QUIET_SECONDS = 0.5  # a wait that lasts longer is reported
_PROC = Path("/proc")

Turn = TypeVar("Turn")


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
def holding(lock_file: Path, purpose: str = "", *, wait: bool = False) -> Iterator[HeldLock]:
    """Hold a lock while the block runs, after waiting for it as `wait_for` does.

    Args:
        lock_file: created if missing.
        purpose: written into the file, with this process, for those who find it locked. Empty for
            locks that are released within moments.
        wait: wait for every holder. By default, a holder with a purpose is an error at once.

    Raises:
        WorkspaceLocked: another process holds the lock.
        StorageError: the lock cannot be opened.
    """

    def attempt() -> int | None:
        descriptor = take(lock_file)
        if descriptor is None and not wait and (holder := read_holder(lock_file)) is not None:
            raise _locked(lock_file.parent, holder)
        return descriptor

    descriptor = wait_for(attempt, lambda: _holder_name(lock_file), str(lock_file))
    try:
        held = HeldLock(descriptor, datetime.now(UTC).isoformat(timespec="seconds"))
        if purpose:
            held.doing(purpose)
        yield held
    finally:
        release(descriptor)


def wait_for(attempt: Callable[[], Turn | None], holder: Callable[[], str], lock: str) -> Turn:
    """Call ``attempt`` until it returns the lock: for 60 s at a terminal, 10 minutes elsewhere.

    A warning names the holder before a second has passed.

    Raises:
        WorkspaceLocked: the lock was not released in this time.
    """
    patience = _TERMINAL_SECONDS if os.isatty(2) else _UNATTENDED_SECONDS
    began, reported = time.monotonic(), False
    while (turn := attempt()) is None:
        waited = time.monotonic() - began
        if waited > patience:
            raise WorkspaceLocked(
                f"{holder()} has held {lock} for {patience:.0f} seconds",
                f"expected a lock that is released within {patience:.0f} seconds",
                "run the same command again when that process has ended; nothing is lost",
            )
        if waited > _QUIET_SECONDS and not reported:
            reported = True
            warnings.warn(
                f"waiting up to {patience:.0f} seconds for {holder()}, which holds {lock}",
                stacklevel=2,
            )
        time.sleep(random.uniform(0.02, 0.1))
    return turn


def take(lock_file: Path) -> int | None:
    """Take the lock without a name; the descriptor to `release`, or None when it is held.

    `flock` needs only reading, so the file can be read only by those who may write its directory.

    Raises:
        StorageError: the workspace cannot be written.
    """
    DURABLE.require_changeable(lock_file)
    try:
        group_writes = lock_file.parent.stat().st_mode & stat.S_IWGRP
        mode = 0o660 if group_writes else 0o600
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM, errno.ELOOP}:
            raise
        raise StorageError(
            f"the workspace {lock_file.parent} cannot be written: {error.strerror}",
            "a workspace is a directory that the current user owns, on a disk that can be written",
            "set BPELINE_HOME to such a directory",
        ) from error
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
            with suppress(OSError):  # a disk without modes
                os.fchmod(descriptor, mode)  # made by an earlier release, or under another umask
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    """Whether another process is known to hold the lock at this moment."""
    try:
        with _opened(lock_file) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no such file, or one that this user may not read: nothing is known
        return False
    return False


def _opened(lock_file: Path) -> BinaryIO:
    return os.fdopen(os.open(lock_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def read_holder(lock_file: Path) -> LockHolder | None:
    """Who is written in the lock file and not known to be dead."""
    try:
        with _opened(lock_file) as file:
            record = parse_json(file.read(_LONGEST_CONTENT))
        process = Process(int(record["pid"]), str(record["host"]), str(record["birth"]))
        holder = LockHolder(process, str(record["since"]), str(record["purpose"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if process.is_dead() else holder


def _holder_name(lock_file: Path) -> str:
    """The process that holds a lock, as far as its record or the system tells."""
    if (holder := read_holder(lock_file)) is not None:
        process = holder.process
        return f"process {process.pid} on {process.host} ({holder.purpose}, since {holder.since})"
    with suppress(OSError, IndexError):
        status = lock_file.stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        for line in (_PROC / "locks").read_text().splitlines():
            # "1: FLOCK  ADVISORY  WRITE 812 fd:01:5308 0 EOF"
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == f"{device}:{status.st_ino}":
                user = (_PROC / fields[4]).stat().st_uid  # fails for one outside the container
                return f"process {fields[4]} of user {user}"
    return "another user's process"


def _locked(root: Path, holder: LockHolder) -> WorkspaceLocked:
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
