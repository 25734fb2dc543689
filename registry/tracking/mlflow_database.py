"""MLflow's database where that is a SQLite file: what state it is in, and how it is made ready.

MLflow's migrations are not atomic: where one is cut short, MLflow never opens that file again. So
a database is made in memory and an old one migrated as a copy; the file's name only ever stands for
a whole one. Knows SQLite, and the names of MLflow's tables and revisions; refuses to know MLflow's
code: what migrates is given.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import secrets
import shutil
import sqlite3
import time
import urllib.parse
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path

from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    DiskFull,
    StorageError,
)

Migrate = Callable[[sqlite3.Connection], None]

PATIENCE_SECONDS = 120.0  # for others who make it; that takes some seconds
READER_SECONDS = 2.0  # for others who have a store open: whoever looks closes it soon
_BUSY_SECONDS = 20.0  # for somebody's transaction, as long as MLflow itself waits
_MODE = 0o666  # the umask decides who else reads and writes it
_PROC = Path("/proc")
_BESIDE = ("-journal", "-wal", "-shm")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

_FIRST_TABLES = {"experiments", "runs", "tags", "metrics", "params"}  # before any migration
_NEEDED_TABLES = _FIRST_TABLES | {
    *("alembic_version", "experiment_tags", "latest_metrics", "inputs", "datasets"),
    *("logged_models", "logged_model_tags", "logged_model_params", "registered_models"),
    *("registered_model_tags", "registered_model_aliases", "model_versions", "model_version_tags"),
}
_CONTENT = ("runs", "registered_models", "model_versions", "logged_models", "trace_info")
_UNFINISHED = "_alembic_tmp_"  # begins the name of the copy of a table that is being changed
_REVISION = re.compile(r"^(revision|down_revision)\b[^=\n]*=(.*)$", re.MULTILINE)


class DatabaseState(Enum):
    """What there is where a database is to be."""

    ABSENT = "absent"
    EMPTY = "empty"
    HALF_MADE = "half-made"
    OUTDATED = "made by an older MLflow"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"  # a process died writing; whoever opens it next takes that back
    UNKNOWN = "of an unknown revision"
    FOREIGN = "not MLflow's"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class FoundDatabase:
    """What was found at a path.

    Attributes:
        state: what kind of thing.
        revision: of its tables; empty where none is told.
        versions: registered in it.
        in_use: whether it holds runs, models or versions; such a file is never replaced.
        remark: what is wrong with one that is foreign or unreadable.
    """

    state: DatabaseState
    revision: str = ""
    versions: int = 0
    in_use: bool = False
    remark: str = ""


def database_of(uri: str) -> Path | None:
    """The file a tracking URI names; None where it names no SQLite file."""
    backend, found, rest = uri.partition(":///")
    path = rest.partition("?")[0]
    if not found or backend.partition("+")[0] != "sqlite" or not path:
        return None
    return None if path.startswith((":memory:", "file:")) else Path(path)


def is_complete(path: Path) -> bool:
    """Whether there is a database that this MLflow can read; none is made."""
    return look_at(path, recover=True).state is DatabaseState.COMPLETE


def look_at(path: Path, *, recover: bool = False) -> FoundDatabase:
    """Read what state a database is in; a few milliseconds, and MLflow is not imported.

    Args:
        path: of the file.
        recover: whether SQLite may take back what a killed process left half-written, as it does
            for everybody who opens the file.
    """
    try:
        if not path.exists():
            return FoundDatabase(DatabaseState.ABSENT)
        with closing(connect(path, "ro")) as connection:
            return _examined(connection)
    except (sqlite3.Error, OSError) as error:
        if getattr(error, "sqlite_errorname", "") not in {
            *("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY"),
        }:
            return FoundDatabase(DatabaseState.UNREADABLE, remark=str(error))
    if not recover:
        return FoundDatabase(DatabaseState.INTERRUPTED)
    try:
        with closing(connect(path, "rw")) as connection:
            return _examined(connection)
    except sqlite3.Error as error:
        return FoundDatabase(DatabaseState.UNREADABLE, remark=str(error))


def make_ready(path: Path, migrate: Migrate, *, expected: bool = False) -> str:
    """See to it that there is a complete database; where there is one, look and do nothing.

    Killed at any moment, it leaves what was there before or a complete database, and perhaps
    temporary files that the next call removes. Writers of other machines are not seen, nor, where
    there is no /proc, idle ones of this machine: what they write while an old database is being
    migrated goes to the file that is kept.

    Args:
        path: of the file.
        migrate: gives an empty database MLflow's tables, or brings an old one up to date.
        expected: whether a store was here before: then none is made, nor an empty one replaced.

    Returns:
        What people should know of it; mostly nothing.

    Raises:
        StorageError: the store that is expected is lost, another MLflow's, or in use; it is as
            it was.
        CorruptFile: it cannot be read or brought up to date; likewise.
        DiskFull: nothing was made or changed.
        WorkspaceLocked: another process makes it and does not finish.
    """
    path = Path(os.path.realpath(path))
    found = look_at(path, recover=True)
    if found.state is DatabaseState.COMPLETE:
        return ""
    _require_ours(path, found, expected)
    try:
        DURABLE.make_directories(path.parent)
        with lock.holding(_lock_file(path), f"making {path.name}", wait=True):
            for leftover in path.parent.iterdir():
                if is_temporary(leftover) and path.name in leftover.name:
                    DURABLE.remove(leftover)
            return _made_ready(path, migrate, expected)
    except OSError as error:
        raise _cannot_write(path, error) from error


def wait_for_maker(path: Path) -> None:
    """Wait while another process makes the database, for a caller whose own process cannot say so.

    Raises:
        WorkspaceLocked: it does not finish.
    """
    lock_file = _lock_file(Path(os.path.realpath(path)))
    if lock.is_held(lock_file):
        with lock.holding(lock_file, wait=True):
            pass


def _lock_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _made_ready(path: Path, migrate: Migrate, expected: bool) -> str:
    remark, began = "", time.monotonic()
    while True:
        found = look_at(path, recover=True)
        if found.state is DatabaseState.COMPLETE:
            return remark
        _require_ours(path, found, expected)
        if found.state is DatabaseState.ABSENT:
            _make(path, migrate)
        elif users := _who_has_open(path):
            # Without content it is perhaps an MLflow that makes it the usual way.
            longest = READER_SECONDS if found.in_use else PATIENCE_SECONDS
            if time.monotonic() > began + longest:
                raise _open_elsewhere(path, users)
            time.sleep(0.1)
        elif found.in_use or found.state is DatabaseState.OUTDATED:
            try:
                remark = _upgrade(path, found, migrate)
            except CorruptFile:
                if found.in_use or expected:
                    raise
                remark = _set_aside(path)
        else:
            remark = _set_aside(path)


def _make(path: Path, migrate: Migrate) -> None:
    """Make one in memory, and put it in place unless somebody else has."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            migrate(connection)
        except Exception as error:
            raise _cannot_migrate(path, error) from error
        _require_complete(connection, path)
        content = connection.serialize()
    for suffix in _BESIDE:  # of a database that is gone: SQLite would write it into ours
        stale = path.with_name(path.name + suffix)
        if stale.exists() and not path.exists():
            DURABLE.replace(stale, _free_name(path, f"lost{suffix}"))
    made = path.with_name(f".tmp-{secrets.token_hex(6)}-made-{path.name}")
    try:
        with DURABLE.writing_aside(made) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
            try:
                while content:
                    content = content[os.write(descriptor, content) :]
            finally:
                os.close(descriptor)
        _put_in_place(made, path)
    finally:
        DURABLE.remove(made)


def _put_in_place(made: Path, path: Path) -> None:
    try:
        os.link(made, path)
    except (FileExistsError, FileNotFoundError):
        return  # somebody's was faster, or a sweep took ours away: look again
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not path.exists():  # the lock keeps others of ours away; this disk knows no links
            DURABLE.replace(made, path)
    DURABLE.sync(path.parent)


def _upgrade(path: Path, found: FoundDatabase, migrate: Migrate) -> str:
    """Migrate a copy and put it in place; the old file stays under a name that says what it is."""
    kept = path.with_name(f"{path.name}.before-{found.revision or 'any-revision'}")
    if kept.exists() and not kept.samefile(path):
        kept = _free_name(path, f"before-{found.revision}")
    try:
        with (
            closing(connect(path, "rw")) as guard,
            closing(connect(path, "ro")) as source,
            DURABLE.writing_aside(path) as temporary,
        ):
            # A log beside the old file would be taken for one of the new file.
            (mode,) = guard.execute("PRAGMA journal_mode").fetchone()
            guard.execute("PRAGMA journal_mode = DELETE")
            guard.execute("BEGIN IMMEDIATE")  # until the new one is there, nobody writes
            with closing(sqlite3.connect(temporary)) as copy:
                source.backup(copy)
                shutil.copymode(path, temporary)
                copy.execute("PRAGMA journal_mode = MEMORY")
                copy.execute("PRAGMA synchronous = OFF")  # it is synced as a whole
                _drop_unfinished(copy)
                migrate(copy)
                _require_complete(copy, path)
                copy.execute(f"PRAGMA journal_mode = {mode}")
            _keep(path, kept)
    except StorageError:
        raise
    except Exception as error:
        if "disk is full" in str(error):
            raise _cannot_write(path, OSError(errno.ENOSPC, str(error))) from error
        if "database is locked" in str(error):
            raise _open_elsewhere(path, _who_has_open(path)) from error
        raise _cannot_migrate(path, error) from error
    return (
        f"{path} was brought up to date from revision {found.revision or '(none)'}; "
        f"the old file is {kept.name}"
    )


def _drop_unfinished(copy: sqlite3.Connection) -> None:
    """Remove what a killed migration was filling while the table it is to replace is there."""
    tables = _tables(copy)
    for name in tables:
        if name.startswith(_UNFINISHED) and name.removeprefix(_UNFINISHED) in tables:
            copy.execute(f'DROP TABLE "{name}"')
    copy.commit()


def _keep(path: Path, kept: Path) -> None:
    try:
        os.link(path, kept)
    except FileExistsError:
        return  # an attempt that was killed kept it
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(path, kept)
        DURABLE.disk.sync(kept)


def _set_aside(path: Path) -> str:
    aside = _free_name(path, f"half-made-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    DURABLE.replace(path, aside)
    DURABLE.sync(path.parent)
    return f"{path} was only half made and is made anew; the half-made one is {aside.name}"


def _free_name(path: Path, ending: str) -> Path:
    names = (f"{path.name}.{ending}{again}" for again in ("", *map("-{}".format, range(2, 1000))))
    return next(one for one in map(path.with_name, names) if not one.exists())


# ---- what is found -----------------------------------------------------------------------------


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a database: with the mode "ro" only to read, with "rw" without making one."""
    if mode != "ro":
        DURABLE.require_changeable(path)
    address = f"file:{urllib.parse.quote(os.fsencode(path.absolute()))}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {str(name) for (name,) in rows if not str(name).startswith("sqlite_")}


def _examined(connection: sqlite3.Connection) -> FoundDatabase:
    tables = _tables(connection)
    if not tables:
        return FoundDatabase(DatabaseState.EMPTY)
    row = None
    if "alembic_version" in tables:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = "" if row is None else str(row[0])
    unfinished = {name for name in tables if name.startswith(_UNFINISHED)}
    strange = tables - unfinished - _FIRST_TABLES - {"alembic_version"}
    head, known = _revisions()
    if not revision and strange:
        remark = f"it holds other tables, such as {min(strange)}"
        return FoundDatabase(DatabaseState.FOREIGN, remark=remark)
    if revision and revision not in known:
        return FoundDatabase(DatabaseState.UNKNOWN, revision)
    state = DatabaseState.OUTDATED
    if not revision or unfinished or (revision == head and not tables >= _NEEDED_TABLES):
        state = DatabaseState.HALF_MADE
    elif revision == head:
        state = DatabaseState.COMPLETE
    in_use = any(
        connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]
        for table in _CONTENT
        if table in tables
    )
    versions = 0
    if "model_versions" in tables:
        (versions,) = connection.execute("SELECT count(*) FROM model_versions").fetchone()
    return FoundDatabase(state, revision, versions, in_use)


@cache
def _revisions() -> tuple[str, frozenset[str]]:
    """The newest revision of the installed MLflow, and all it knows: read, not imported."""
    known: set[str] = set()
    followed: set[str] = set()
    for text in _migrations():
        for name, value in _REVISION.findall(text):
            named = re.findall(r"[\"'](\w+)[\"']", value)
            (known if name == "revision" else followed).update(named)
    heads = known - followed
    if len(heads) != 1:
        raise StorageError(
            f"the installed MLflow has {len(heads)} newest revisions of its tables",
            "an MLflow of a version that `bpeline doctor` calls ok",
            "type `bpeline doctor`, and install MLflow again",
        )
    return heads.pop(), frozenset(known)


def made_with() -> str:
    """Names all that the tables of an empty database depend on; MLflow is not imported."""
    libraries = (f"{name} {version(name)}" for name in ("mlflow", "alembic", "sqlalchemy"))
    return digest_of([*libraries, sqlite3.sqlite_version, *_migrations()])


def _migrations() -> list[str]:
    """The source texts of the installed MLflow's migrations."""
    spec = importlib.util.find_spec("mlflow")
    places = spec.submodule_search_locations if spec is not None else None
    return [
        path.read_text(encoding="utf-8")
        for place in places or ()
        for path in sorted((Path(place) / "store/db_migrations/versions").glob("*.py"))
    ]


def _who_has_open(path: Path) -> list[int]:
    """The processes of this machine that have a file open, as far as the system tells."""
    found = path.stat()
    users = []
    for process in _PROC.glob("[0-9]*"):
        try:
            for one in (process / "fd").iterdir():
                # By name first: asking about a file of a dead network disk takes for ever.
                if Path(os.readlink(one)).name == path.name and os.path.samestat(one.stat(), found):
                    users.append(int(process.name))
                    break
        except OSError:
            continue
    return sorted(users)


# ---- the lock, and what is refused -------------------------------------------------------------


def _require_ours(path: Path, found: FoundDatabase, expected: bool) -> None:
    """Refuse what is not to be made, replaced or migrated."""
    if found.state is DatabaseState.UNKNOWN:
        raise StorageError(
            f"{path} is of revision {found.revision}, which MLflow {version('mlflow')} does not "
            "know: a newer MLflow made it, or another program",
            "a database of this MLflow or of an older one",
            "install the MLflow that made it, or set MLFLOW_TRACKING_URI to another",
        )
    if found.state is DatabaseState.FOREIGN:
        raise StorageError(
            f"{path} is not MLflow's: {found.remark}",
            "a database that MLflow made, or a file that does not exist yet",
            "set MLFLOW_TRACKING_URI to another",
        )
    if found.state is DatabaseState.UNREADABLE:
        raise CorruptFile(
            f"{path} cannot be read: {found.remark}",
            "MLflow's database, a SQLite file",
            "restore it from a copy; `bpeline doctor` says whether it can be read",
        )
    if expected and not found.in_use and found.state is not DatabaseState.OUTDATED:
        raise StorageError(
            f"{path} is {found.state.value}, but MLflow's runs and versions were in it",
            "the database that was there",
            "restore it from a copy; `bpeline doctor` says what is found there",
        )


def _require_complete(made: sqlite3.Connection, path: Path) -> None:
    if _examined(made).state is not DatabaseState.COMPLETE:
        raise _cannot_migrate(path, "its migrations ended without all of its tables")


def _cannot_migrate(path: Path, why: object) -> CorruptFile:
    return CorruptFile(
        f"MLflow cannot make {path} ready: {' '.join(str(why).split())[:200]}",
        "it is as it was; accepted are databases that `mlflow db upgrade` can bring up to date",
        "type `bpeline doctor` to see what is found there, or set MLFLOW_TRACKING_URI to another",
    )


def _open_elsewhere(path: Path, users: list[int]) -> StorageError:
    processes = " ".join(map(str, users))
    return StorageError(
        f"{path} has to be made ready for MLflow {version('mlflow')}, and others have it open: "
        f"processes {processes or 'unknown'}",
        "a database that nobody has open meanwhile, such as an `mlflow server`",
        f"stop them (`ps {processes}` says what they are), then run the same command again",
    )


def _cannot_write(path: Path, error: OSError) -> StorageError:
    if error.errno in _FULL:
        return DiskFull(
            f"no space left while MLflow's database {path} was made ready",
            "what was there is as it was",
            f"free some space on the disk of {path.parent} and run the same command again",
        )
    return StorageError(
        f"MLflow's database {path} cannot be made ready: {error.strerror or error}",
        "a directory that the current user may write to",
        f"look at the disk of {path.parent}, then run the same command again",
    )
