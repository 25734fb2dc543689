"""Create and upgrade MLflow's SQLite database atomically.

MLflow creates and migrates its tables in many transactions and cannot recover if they are
interrupted. A new database is therefore built aside and renamed; an old one is upgraded as a copy
and written back in one transaction. ``open_client`` opens MLflow's client, which creates tables.
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
# MLflow's messages for a database with another schema that is opened read-only.
_OUTDATED = ("out-of-date database schema", "readonly database")
_ADDS_DEFAULT = "INSERT INTO experiments"  # MLflow adds its default experiment
_BUSY_SECONDS = 20.0  # wait for another transaction, as long as MLflow itself does
_FULL = ("disk is full", "No space left", "quota exceeded")

OpenClient = Callable[[str], object]


def database_of(uri: str) -> Path | None:
    """Return the SQLite file of a tracking URI; None for other URIs."""
    backend, separator, rest = uri.partition(":///")
    path = rest.partition("?")[0]
    if not separator or backend.partition("+")[0] != "sqlite" or not path:
        return None
    return None if path.startswith((":memory:", "file:")) else Path(path)


def is_there(path: Path) -> bool:
    """Whether the file exists and is not empty."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def why_unusable(path: Path, open_client: OpenClient) -> str:
    """Return why a database cannot be used as it is, or an empty text; only reads."""
    try:
        open_client(sqlite_url(path, "ro"))
    except Exception as error:
        reason = " ".join(str(error).split())
        if _ADDS_DEFAULT in reason:
            return ""
        return OUT_OF_DATE if any(sign in reason for sign in _OUTDATED) else reason[:200]
    return ""


def prepare(path: Path, open_client: OpenClient, *, ui_is_served: bool) -> None:
    """Create a missing database or upgrade an old one."""
    if not is_there(path):
        make(path, open_client)
    elif _is_outdated(path, open_client):
        if ui_is_served:
            raise StorageError(
                f"{path} has to be upgraded, but `bpeline serve --mlflow-only` is using it",
                "expected a database that no other process has open",
                "stop `bpeline serve`, then run the same command again",
            )
        _upgrade(path, open_client)


def make(path: Path, open_client: OpenClient) -> None:
    """Create a missing database; waits for another process that is creating it."""
    with _locked(path), _told_of(path):
        if is_there(path):
            return
        aside = path.with_name(f".tmp-{secrets.token_hex(6)}-made-{path.name}")
        try:
            aside.touch()  # with the umask's mode; SQLite's own mode excludes the group
            _create(aside, open_client)
            DURABLE.disk.sync(aside)
            for ending in ("-journal", "-wal", "-shm"):  # SQLite would replay stale journals
                if (stale := Path(f"{path}{ending}")).exists():
                    DURABLE.replace(stale, Path(f"{path}.lost{ending}"))
            DURABLE.replace(aside, path)
            DURABLE.sync(path.parent)
        finally:
            aside.unlink(missing_ok=True)


def _create(path: Path, open_client: OpenClient) -> None:
    try:
        open_client(f"sqlite:///{path}")
    except Exception as error:
        if _ADDS_DEFAULT not in str(error):
            raise
        raise StorageError(
            f"MLflow cannot create its database while the current directory is {os.getcwd()!r}: "
            "it writes this name into SQL",
            "expected a name without quotes and colons, only for the first publication",
            "run the same command in another directory, with BPELINE_HOME set to the workspace",
        ) from error


def _is_outdated(path: Path, open_client: OpenClient) -> bool:
    """Whether MLflow would change the tables if it opened the database for writing."""
    with _told_of(path), closing(_connect(path)) as connection:
        connection.execute(
            "SELECT 1 FROM sqlite_master"
        )  # rolls back the transaction of a killed process
    reason = why_unusable(path, open_client)
    if reason and reason != OUT_OF_DATE:
        raise StorageError(
            f"MLflow's database {path} cannot be used: {reason}",
            "expected a database of this or an earlier MLflow release",
            "type `bpeline doctor`; restore it from a copy, or set MLFLOW_TRACKING_URI",
        )
    return bool(reason)


def _upgrade(path: Path, open_client: OpenClient) -> None:
    """Run `mlflow db upgrade` on a copy and write it back, with a backup."""
    backup = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    # In a directory of its own, so that journals of the upgrade command are removed with it.
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}-upgraded-{path.name}")
    copy = aside / path.name
    with _locked(path), _told_of(path), closing(_connect(path)) as connection:
        if not _is_outdated(path, open_client):  # another process was faster
            return
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            raise StorageError(
                f"{path} is from an older MLflow and was switched to a write-ahead log",
                "expected a database as MLflow creates it",
                f"stop what uses it, then type `mlflow db upgrade sqlite:///{path}`",
            )
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # held beyond the transaction
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            DURABLE.make_directories(aside)
            _copy(connection, copy)
            _upgrade_copy(path, copy)
            if _is_outdated(copy, open_client):
                raise _not_upgraded(path, "tables are missing")
            with DURABLE.writing_aside(backup) as former:
                _copy(connection, former)
            with closing(sqlite3.connect(copy)) as upgraded:
                upgraded.backup(connection)  # in one transaction
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    warnings.warn(f"{path} was upgraded; the old content is kept in {backup.name}", stacklevel=2)


def _copy(source: sqlite3.Connection, target: Path) -> None:
    with closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def _upgrade_copy(path: Path, copy: Path) -> None:
    python = required_python("MLflow's own command upgrades it", "type `mlflow db upgrade`")
    result = subprocess.run(
        [python, "-m", "mlflow", "db", "upgrade", sqlite_url(copy, "rw")],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise _not_upgraded(path, " ".join(result.stderr.split())[-200:])


def _not_upgraded(path: Path, reason: str) -> CorruptFile:
    return CorruptFile(
        f"MLflow {version('mlflow')} cannot upgrade {path}: {reason}",
        "it is unchanged; expected a database of this MLflow or of an older one",
        "install the MLflow that made it, or set MLFLOW_TRACKING_URI to another",
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a database and remove stale temporary files."""
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
    """Convert errors of SQLite and the disk to bpeline errors."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if any(sign in str(error) for sign in _FULL):
            raise DiskFull(
                f"no space left to create or upgrade MLflow's database {path}",
                "existing content is unchanged",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        if "locked" in str(error):
            raise StorageError(
                f"another program is writing to MLflow's database {path}",
                "expected a database that is not in use while it is created or upgraded",
                "stop it, such as `bpeline serve --mlflow-only`, then run the same command again",
            ) from error
        raise StorageError(
            f"MLflow's database {path} cannot be created or upgraded: {error}",
            "expected a file created by MLflow, in a directory that the current user may write to",
            f"check the disk of {path.parent}, then run the same command again",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    DURABLE.require_changeable(path)
    address = f"file:{quote(os.fsencode(path))}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
