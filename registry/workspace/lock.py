"""The workspace lock: one writer at a time, released when its process ends.

It is a `flock` on an open file; the content of the file only names the holder for error messages.
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
    """The holder of a lock, as written in the lock file."""

    process: Process
    since: str
    purpose: str


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock that this process holds."""

    descriptor: int
    since: str

    def doing(self, purpose: str) -> None:
        """Write the current activity into the lock file."""
        record = canonical_json(
            {
                **asdict(this_process()),
                "since": self.since,
                "purpose": purpose[:_LONGEST_PURPOSE],
            }
        )
        # Written in place, because the lock is on this file. Failures only affect messages; `gc`
        # must work on a full disk.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, record, 0)


@contextmanager
def holding(lock_file: Path, purpose: str = "", *, wait: bool = False) -> Iterator[HeldLock]:
    """Hold a lock while the block runs; waits for it, see `wait_for`.

    Args:
        purpose: the activity, written into the file; empty for very short locks.
        wait: wait for any holder. By default, a holder with a purpose raises an error at once.

    Raises:
        WorkspaceLocked: another process holds the lock.
        StorageError: the lock file cannot be opened.
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
    """Call ``attempt`` until it returns the lock; warns after half a second.

    Waits 60 s at a terminal, else 10 minutes, then raises `WorkspaceLocked`.
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
    """Acquire the lock; returns the descriptor for `release`, or None if it is held."""
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
            "expected a directory that the current user owns, on a writable disk",
            "set BPELINE_HOME to such a directory",
        ) from error
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
            with suppress(OSError):  # file systems without modes
                os.fchmod(descriptor, mode)  # created by an earlier release or with another umask
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return None
        raise
    os.ftruncate(descriptor, 0)  # remove the name of a killed holder
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
    except OSError:  # missing or not readable: unknown
        return False
    return False


def _opened(lock_file: Path) -> BinaryIO:
    return os.fdopen(os.open(lock_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def read_holder(lock_file: Path) -> LockHolder | None:
    """Return the holder written in the lock file, unless its process is dead."""
    try:
        with _opened(lock_file) as file:
            record = parse_json(file.read(_LONGEST_CONTENT))
        process = Process(int(record["pid"]), str(record["host"]), str(record["birth"]))
        holder = LockHolder(process, str(record["since"]), str(record["purpose"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if process.is_dead() else holder


def _holder_name(lock_file: Path) -> str:
    """Describe the process that holds a lock, from its record or from /proc."""
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
                user = (_PROC / fields[4]).stat().st_uid  # fails for processes outside a container
                return f"process {fields[4]} of user {user}"
    return "another user's process"


def _locked(root: Path, holder: LockHolder) -> WorkspaceLocked:
    return WorkspaceLocked(
        f"process {holder.process.pid} on {holder.process.host} has been working in {root} "
        f"since {holder.since}: {holder.purpose}",
        "only one run at a time can write to a workspace",
        "wait for it, stop it, or set BPELINE_HOME to another workspace",
    )


# A forked child must close its copy of the file, or the lock would outlive this process.
_guard = threading.Lock()
_held: set[int] = set()


def _forget_in_child() -> None:
    global _guard
    _guard = threading.Lock()
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
