"""MLflow's database where that is a SQLite file: made whole, and brought up to date whole.

MLflow makes and migrates its tables in many transactions, and never opens a file again in which
that was cut short. So a new one is made beside its place and renamed into it; an old one is
upgraded as a copy, and written back by SQLite in one transaction.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, StorageError
from bpeline.tokenizer_core.urls import sqlite_url

_BUSY_SECONDS = 20.0  # for somebody's transaction, as long as MLflow itself waits
_FULL = ("disk is full", "No space left", "quota exceeded")


def database_of(uri: str) -> Path | None:
    """The file a tracking URI names; None where it names no SQLite file."""
    backend, found, rest = uri.partition(":///")
    path = rest.partition("?")[0]
    if not found or backend.partition("+")[0] != "sqlite" or not path:
        return None
    return None if path.startswith((":memory:", "file:")) else Path(path)


def is_there(path: Path) -> bool:
    """Whether there is a file with something in it."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def make(path: Path, create: Callable[[str], object]) -> None:
    """Make a database where there is none; another process that does is waited for.

    Killed at any moment, it leaves nothing or a whole one, and perhaps a temporary file that the
    next call removes.

    Args:
        path: of the file.
        create: gives the SQLite file at a URI MLflow's tables.

    Raises:
        StorageError: it cannot be made.
        DiskFull: nothing was made.
        WorkspaceLocked: another process makes it and does not finish.
    """
    with _locked(path), _told_of(path):
        if is_there(path):
            return
        made = path.with_name(f".tmp-{secrets.token_hex(6)}-made-{path.name}")
        try:
            create(f"sqlite:///{made}")
            DURABLE.disk.sync(made)
            for ending in ("-journal", "-wal", "-shm"):  # SQLite would write it into the new one
                if (stale := Path(f"{path}{ending}")).exists():
                    DURABLE.replace(stale, Path(f"{path}.lost{ending}"))
            DURABLE.replace(made, path)
            DURABLE.sync(path.parent)
        finally:
            made.unlink(missing_ok=True)


def recover(path: Path) -> None:
    """Take back what a killed process left unfinished in a database, as SQLite itself does.

    Raises:
        StorageError: it cannot be read.
    """
    with _told_of(path), closing(connect(path, "rw")) as held:
        held.execute("SELECT 1 FROM sqlite_master").fetchone()


def upgrade(path: Path, is_outdated: Callable[[Path], bool]) -> str:
    """Bring an old database up to date by `mlflow db upgrade`, run on a copy of it.

    Killed at any moment, it leaves the old tables or the new ones. The former content stays
    beside it. Whoever wants to write meanwhile waits, as for any transaction.

    Args:
        path: of the file.
        is_outdated: whether a database is.

    Returns:
        What people should know of it; empty where another process was faster.

    Raises:
        CorruptFile: it cannot be brought up to date; it is as it was.
        StorageError: others have it open; likewise.
        DiskFull: likewise.
    """
    kept = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    # In a directory, which takes along the journal of a command that outlives this process.
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}-upgraded-{path.name}")
    copy = aside / path.name
    with _locked(path), _told_of(path), closing(connect(path, "rw")) as held:
        if not is_outdated(path):
            return ""
        if held.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            raise StorageError(
                f"an older MLflow made {path}, and somebody switched it to a write-ahead log",
                "a database as MLflow makes it",
                f"stop what uses it, then type `mlflow db upgrade sqlite:///{path}`",
            )
        try:
            held.execute("PRAGMA locking_mode = EXCLUSIVE")  # held beyond the transaction
            held.execute("BEGIN EXCLUSIVE")
            held.execute("COMMIT")
            DURABLE.make_directories(aside)
            _copy(held, copy)
            _upgrade_copy(path, copy)
            if is_outdated(copy):
                raise _not_upgraded(path, "tables are missing")
            with DURABLE.writing_aside(kept) as former:
                _copy(held, former)
            with closing(sqlite3.connect(copy)) as upgraded:
                upgraded.backup(held)  # in one transaction
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return f"{path} was brought up to date; the former content is {kept.name}"


def _copy(source: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def _upgrade_copy(path: Path, copy: Path) -> None:
    python = required_python("MLflow's own command upgrades it", "type `mlflow db upgrade`")
    done = subprocess.run(
        [python, "-m", "mlflow", "db", "upgrade", sqlite_url(copy, "rw")],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise _not_upgraded(path, " ".join(done.stderr.split())[-200:])


def _not_upgraded(path: Path, reason: str) -> CorruptFile:
    return CorruptFile(
        f"MLflow {version('mlflow')} cannot bring {path} up to date: {reason}",
        "it is as it was; accepted are databases of this MLflow or of an older one",
        "install the MLflow that made it, or set MLFLOW_TRACKING_URI to another",
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a database that is made or upgraded; what a killed one left is removed."""
    DURABLE.make_directories(path.parent)
    with lock.holding(path.with_name(f"{path.name}.lock"), f"making {path.name} ready", wait=True):
        for leftover in path.parent.iterdir():
            if not is_temporary(leftover) or path.name not in leftover.name:
                continue
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                DURABLE.remove(leftover)
        yield


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if any(sign in str(error) for sign in _FULL):
            raise DiskFull(
                f"no space left while MLflow's database {path} was made ready",
                "what was there is as it was",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        if "locked" in str(error):
            raise StorageError(
                f"another program is writing to MLflow's database {path}",
                "a database that nobody uses while it is made ready",
                "stop it, such as `bpeline ui`, then type the same command again",
            ) from error
        raise StorageError(
            f"MLflow's database {path} cannot be made ready: {error}",
            "a file that MLflow made, in a directory that the current user may write to",
            f"look at the disk of {path.parent}, then run the same command again",
        ) from error


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a database: with the mode "ro" only to read, with "rw" without making one."""
    if mode != "ro":
        DURABLE.require_changeable(path)
    address = f"file:{urllib.parse.quote(os.fsencode(path.absolute()))}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
