"""MLflow's database where that is a SQLite file: made whole, and brought up to date whole.

MLflow makes and migrates its tables in many transactions, and never opens a file again in which
that was cut short. So a new one is made beside its place and renamed into it; an old one is
upgraded as a copy, and written back by SQLite in one transaction. A kill at any moment leaves
nothing or a whole one, and perhaps a temporary file that the next call removes.

Where functions take ``open_client``, it opens MLflow's client at a URI, which makes missing tables.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import CorruptFile, DiskFull, StorageError
from bpeline.tokenizer_core.urls import sqlite_url

OUT_OF_DATE = "another MLflow made it"
# What MLflow says of a database that has other tables, opened to be read alone.
_OUTDATED = ("out-of-date database schema", "readonly database")
_ADDS_DEFAULT = "INSERT INTO experiments"  # a row that MLflow adds when it is missing
_BUSY_SECONDS = 20.0  # for somebody's transaction, as long as MLflow itself waits
_FULL = ("disk is full", "No space left", "quota exceeded")

OpenClient = Callable[[str], object]


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


def why_unusable(path: Path, open_client: OpenClient) -> str:
    """Why a database cannot be used as it is; empty where it can. Reads."""
    try:
        open_client(sqlite_url(path, "ro"))
    except Exception as error:
        reason = " ".join(str(error).split())
        if _ADDS_DEFAULT in reason:
            return ""
        return OUT_OF_DATE if any(sign in reason for sign in _OUTDATED) else reason[:200]
    return ""


def prepare(path: Path, open_client: OpenClient, *, ui_is_served: bool) -> None:
    """Make a database where there is none, and bring an old one up to date.

    Raises:
        StorageError: it cannot be; nothing was changed.
        DiskFull: likewise.
        WorkspaceLocked: another process makes it and does not finish.
    """
    if not is_there(path):
        make(path, open_client)
    elif _is_outdated(path, open_client):
        if ui_is_served:
            raise StorageError(
                f"{path} has to be brought up to date, and `bpeline serve --mlflow-only` serves it",
                "a database that nobody has open meanwhile",
                "stop `bpeline serve`, then type the same command again",
            )
        _upgrade(path, open_client)


def make(path: Path, open_client: OpenClient) -> None:
    """Make a database where there is none; another process that does is waited for."""
    with _locked(path), _told_of(path):
        if is_there(path):
            return
        made = path.with_name(f".tmp-{secrets.token_hex(6)}-made-{path.name}")
        try:
            made.touch()  # as the umask says; SQLite would let no group write
            _create(made, open_client)
            DURABLE.disk.sync(made)
            for ending in ("-journal", "-wal", "-shm"):  # SQLite would write it into the new one
                if (stale := Path(f"{path}{ending}")).exists():
                    DURABLE.replace(stale, Path(f"{path}.lost{ending}"))
            DURABLE.replace(made, path)
            DURABLE.sync(path.parent)
        finally:
            made.unlink(missing_ok=True)


def _create(path: Path, open_client: OpenClient) -> None:
    try:
        open_client(f"sqlite:///{path}")
    except Exception as error:
        if _ADDS_DEFAULT not in str(error):
            raise
        raise StorageError(
            f"MLflow cannot make its database in the directory {os.getcwd()!r}: it writes this "
            "name into a statement of SQL",
            "a current directory without quotes and colons, for the first publication alone",
            "type the same command in another one, with BPELINE_HOME set to the workspace",
        ) from error


def _is_outdated(path: Path, open_client: OpenClient) -> bool:
    """Whether MLflow would change the tables if it opened the database to write."""
    with _told_of(path), closing(_connect(path)) as held:
        held.execute("SELECT 1 FROM sqlite_master")  # takes back what a killed process left
    reason = why_unusable(path, open_client)
    if reason and reason != OUT_OF_DATE:
        raise StorageError(
            f"MLflow's database {path} cannot be used: {reason}",
            "a database that MLflow made, of this or an earlier release",
            "type `bpeline doctor`; restore it from a copy, or set MLFLOW_TRACKING_URI",
        )
    return bool(reason)


def _upgrade(path: Path, open_client: OpenClient) -> None:
    """Upgrade a copy by `mlflow db upgrade`, and write it back.

    The former content stays beside it. Another process that writes meanwhile waits, as for any
    transaction.
    """
    kept = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    # In a directory, which takes along the journal of a command that outlives this process.
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}-upgraded-{path.name}")
    copy = aside / path.name
    with _locked(path), _told_of(path), closing(_connect(path)) as held:
        if not _is_outdated(path, open_client):  # another process was faster
            return
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
            if _is_outdated(copy, open_client):
                raise _not_upgraded(path, "tables are missing")
            with DURABLE.writing_aside(kept) as former:
                _copy(held, former)
            with closing(sqlite3.connect(copy)) as upgraded:
                upgraded.backup(held)  # in one transaction
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    warnings.warn(f"{path} was brought up to date; the former content is {kept.name}", stacklevel=2)


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
    """Raise our errors for what SQLite and the disk say of a database."""
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
                "stop it, such as `bpeline serve --mlflow-only`, then type the same command again",
            ) from error
        raise StorageError(
            f"MLflow's database {path} cannot be made ready: {error}",
            "a file that MLflow made, in a directory that the current user may write to",
            f"look at the disk of {path.parent}, then run the same command again",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    DURABLE.require_changeable(path)
    address = f"file:{quote(os.fsencode(path))}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
