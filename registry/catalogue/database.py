"""Transactions on the catalogue's database: how they begin, repeat, and fail with errors of ours.

Which tables there are is in `models`, what is asked and stored in `catalogue`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from bpeline.registry.catalogue import schema
from bpeline.registry.catalogue.models import Identity
from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    BpelineError,
    CorruptFile,
    DiskFull,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
    StorageError,
)
from bpeline.tokenizer_core.redaction import tell_secrets_of, without_secrets
from bpeline.tokenizer_core.urls import sqlite_url

T = TypeVar("T")

_ATTEMPTS = 8
_LONGEST_PAUSE = 0.5
_PATIENCE_SECONDS = 30.0  # with a server that answered before: it is being restarted
_LOCK_SECONDS = 30  # how long a writer waits for the one before it
_BUSY_MILLISECONDS = _LOCK_SECONDS * 1000
# What BEGIN IMMEDIATE is on SQLite: writers of a PostgreSQL catalogue take turns, by an advisory
# lock of this number. READ COMMITTED, so that every statement behind the lock sees what the writer
# before has left; SERIALIZABLE has writers that meet do their work again and again.
TURN_TO_WRITE = 0x6270656C696E65
TURN_TO_MOVE = TURN_TO_WRITE + 1
# A server that has vanished is noticed within a minute; libpq's own defaults take hours.
_PATIENT_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "bpeline",
}

# SQLSTATE: PostgreSQL's codes, the same in every language its messages are in.
_LOST_RACE = {"40001", "40P01"}  # serialization failure, deadlock
_LOCKED = {"55P03"}
_FULL = {"53100"}
_GONE = ("08", "57P")  # no connection; shut down, starting up


class Database:
    """Transactions on one catalogue.

    Every transaction has a connection of its own: nothing is shared with threads or forked
    children, and nothing is left broken by a server that was restarted.

    Args:
        url: ``sqlite:////abs/catalogue.sqlite`` or ``postgresql+psycopg://…``.
        make: whether to make the tables where there are none.

    Attributes:
        id: of the catalogue; empty where there are no tables.
        place: its URL as people may see it: without a password.

    Raises:
        InvalidOption: not a URL, or no driver for it.
        CorruptFile: the file is not a database.
        StorageError: the schema of a newer bpeline, or of release 0.1.
        RegistryUnreachable: the database server does not answer.
    """

    def __init__(self, url: str, *, make: bool = True) -> None:
        tell_secrets_of(url)
        try:
            address = make_url(url)
            self._server = address.get_backend_name() != "sqlite"
            if address.drivername == "postgresql":
                address = address.set(drivername="postgresql+psycopg")
            self.place = without_secrets(address.render_as_string(hide_password=True))
            self._file = Path(str(address.database))
            self._engine = _postgresql(address) if self._server else _sqlite(address, self._file)
        except (ArgumentError, ImportError) as error:
            raise InvalidOption(
                f"the catalogue's URL cannot be used: {error}",
                "accepted are sqlite:////absolute/path and postgresql+psycopg://user@host/name",
                "mend the URL; for PostgreSQL install the driver: pip install 'bpeline[postgres]'",
            ) from error
        self._reached = False
        # SQLite reads one state of the file in a transaction; PostgreSQL has to be asked for that.
        one_state = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._readers = self._engine.execution_options(
            reading=True, **(one_state if self._server else {})
        )
        self.id = self._prepare(make)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view; nothing may be written."""
        try:
            with self._begun(self._readers) as session:
                yield session
        except DatabaseError as error:
            raise self._translated(error) from error

    def writing(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` in one transaction and commit; repeat it when others were faster.

        Args:
            work: may be called several times, so its only effects are in the session.
        """
        DURABLE.require_changeable(self._file)
        for attempt in range(_ATTEMPTS):
            committing = False
            try:
                with self._begun(self._engine) as session:
                    answer = work(session)
                    session.flush()
                    committing = True  # from here on, a lost reply tells nothing
                    session.commit()
                    return answer
            except (IntegrityError, OperationalError) as error:
                repeatable = isinstance(error, IntegrityError) or _lost_race(error.orig)
                repeatable |= self._server and _is_gone(error.orig) and not committing
                if not repeatable or attempt == _ATTEMPTS - 1:
                    raise self._translated(error) from error
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))
            except DatabaseError as error:
                raise self._translated(error) from error
        raise AssertionError("unreachable")

    def _begun(self, engine: Engine) -> Session:
        """A session whose transaction has begun; a server that answered before is waited for."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            session = Session(engine, expire_on_commit=False)
            try:
                session.connection()
                self._reached = True
                return session
            except OperationalError as error:
                session.close()
                restarted = self._server and self._reached and _is_gone(error.orig)
                if not (restarted or _lost_race(error.orig)) or time.monotonic() > deadline:
                    raise self._translated(error) from error
                time.sleep(random.uniform(0.1, _LONGEST_PAUSE))
            except BaseException:
                session.close()
                raise

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold the right to move aliases, against all who use this database.

        It is released however we end.

        Raises:
            WorkspaceLocked: somebody else holds it for longer than a move takes.
        """
        if not self._server:
            with lock.holding(Path(f"{self._file}.moves"), "moving an alias", wait=True):
                yield
            return
        turn = f"SELECT pg_try_advisory_xact_lock({TURN_TO_MOVE})"
        try:
            # A reader's transaction: others may write rows meanwhile, and so may we.
            with self._readers.connect() as connection:
                lock.wait_for(
                    lambda: connection.exec_driver_sql(turn).scalar() or None,
                    lambda: "another process",
                    f"the right to move aliases in {self.place}",
                )
                yield
        except OperationalError as error:
            raise self._translated(error) from error

    def _prepare(self, make: bool) -> str:
        """Make the tables, or bring those of release 0.2 up to date; the catalogue's identity."""
        if not self._server and not self._file.exists():
            if not make:
                return ""  # connecting would make an empty file
            # Let the umask decide who may write it: SQLite gives its own files 0644.
            DURABLE.require_changeable(self._file)
            with suppress(OSError):  # SQLite says what is wrong there
                DURABLE.disk.create(self._file, b"")
        with self.reading() as session:
            number = schema.number_of(session, self.place)
        if number is None and not make:
            return ""
        if number != schema.NUMBER:
            self.writing(lambda session: schema.prepare(session, self.place))
        with self.reading() as session:
            return session.scalar(select(Identity.id)) or ""

    def _translated(self, error: DatabaseError) -> BpelineError:
        return _as_ours(error.orig, self.place, self._server)


def _sqlite(address: Any, file: Path) -> Engine:
    if not DURABLE.is_changeable(file):  # nor does reading take back what a killed process left
        address = make_url(sqlite_url(file, "ro"))
    engine = create_engine(address, poolclass=NullPool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin below, not in the driver
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    # No write-ahead log: the SQLite that many Pythons carry can corrupt it when it is reset
    # (mended in 3.51.3), and this catalogue writes a few rows a minute.
    cursor.execute("PRAGMA journal_mode=DELETE")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that will write takes its lock at once: one that begins by reading could not
    # be made to wait later, only refused.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _postgresql(address: Any) -> Engine:
    if address.drivername != "postgresql+psycopg":
        raise ArgumentError(f"there is no catalogue on {address.drivername}")
    settings = {key: one for key, one in _PATIENT_CONNECTION.items() if key not in address.query}
    engine = create_engine(
        address, poolclass=NullPool, connect_args=settings, isolation_level="READ COMMITTED"
    )
    event.listen(engine, "begin", _begin_postgresql)
    return engine


def _begin_postgresql(connection: Connection) -> None:
    if not connection.get_execution_options().get("reading", False):
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = {_BUSY_MILLISECONDS}; "
            f"SELECT pg_advisory_xact_lock({TURN_TO_WRITE})"
        )


def _lost_race(reason: Any) -> bool:
    """Whether the same transaction may succeed when it is begun again at once."""
    return _code(reason) in _LOST_RACE or "database is locked" in str(reason)


def _is_gone(reason: Any) -> bool:
    """Whether a server did not answer, or ended the connection; never so for a file."""
    code = _code(reason)
    if code is None:  # libpq could not connect, or the connection broke
        return hasattr(reason, "sqlstate") and type(reason).__name__ == "OperationalError"
    return code.startswith(_GONE)


def _as_ours(reason: Any, place: str, server: bool) -> BpelineError:
    """A driver's error as one of ours.

    Args:
        reason: the driver's own error.
        place: the database's URL without its password.
        server: whether it is one, rather than a file.
    """
    said = " ".join(str(reason).split())
    if _code(reason) in _FULL or "disk is full" in said:
        return DiskFull(
            f"no space left while writing the catalogue {place}",
            "the catalogue keeps its earlier content",
            "free some space and run the same command again",
        )
    if not server and ("not a database" in said or "malformed" in said):
        return CorruptFile(
            f"the catalogue {place} is damaged: {said}",
            "a SQLite database that bpeline made",
            "restore it, or move it away and start anew: versions in MLflow are not affected",
        )
    if _code(reason) in _LOCKED or _lost_race(reason):
        return StorageError(
            f"the catalogue {place} stays locked by others",
            f"others may hold it for up to {_LOCK_SECONDS} s",
            "stop the program that holds it (a database browser?) and try again",
        )
    if server and _is_gone(reason):
        return RegistryUnreachable(
            f"the catalogue {place} does not answer: {said}",
            "a PostgreSQL server that accepts this user",
            "start it, or mend BPELINE_CATALOGUE_URL, and run the same command again",
        )
    return (RegistryError if server else StorageError)(
        f"the catalogue {place} refuses: {said}",
        "a database that this user may read and write",
        "grant this user the rights of an owner, or mend BPELINE_CATALOGUE_URL"
        if server
        else "see whether its file and folder can be read and written by this user",
    )


def _code(reason: Any) -> str | None:
    return getattr(reason, "sqlstate", None)
