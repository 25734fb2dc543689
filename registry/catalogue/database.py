"""Transactions on the catalogue's database, with retries and our own errors."""

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
_PATIENCE_SECONDS = 30.0  # wait for a server that answered before and may be restarting
_LOCK_SECONDS = 30  # wait for another writer
_BUSY_MILLISECONDS = _LOCK_SECONDS * 1000
# PostgreSQL: an advisory lock serializes writers, like BEGIN IMMEDIATE on SQLite. READ COMMITTED
# lets each statement see the previous writer's changes; SERIALIZABLE would cause many retries.
TURN_TO_WRITE = 0x6270656C696E65
TURN_TO_MOVE = TURN_TO_WRITE + 1
# Notice a vanished server within a minute; libpq's defaults take hours.
_PATIENT_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "bpeline",
}

# SQLSTATE codes, because PostgreSQL's messages are translated.
_LOST_RACE = {"40001", "40P01"}  # serialization failure, deadlock
_LOCKED = {"55P03"}
_FULL = {"53100"}
_GONE = ("08", "57P")  # no connection; shutting down or starting up


class Database:
    """Transactions on one catalogue; errors as of `Catalogue`.

    Each transaction has its own connection: threads and forked children share none, and a restarted
    server leaves none broken.
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
                "expected sqlite:////absolute/path or postgresql+psycopg://user@host/name",
                "correct the URL; PostgreSQL's driver: pip install 'bpeline[postgres]'",
            ) from error
        self._reached = False
        # SQLite transactions read one state anyway.
        one_state = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._readers = self._engine.execution_options(
            reading=True, **(one_state if self._server else {})
        )
        self.id = self._prepare(make)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A read-only transaction with one consistent view."""
        try:
            with self._begun(self._readers) as session:
                yield session
        except DatabaseError as error:
            raise self._translated(error) from error

    def writing(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` in one transaction; retried after conflicts, so it may run twice."""
        DURABLE.require_changeable(self._file)
        for attempt in range(_ATTEMPTS):
            committing = False
            try:
                with self._begun(self._engine) as session:
                    answer = work(session)
                    session.flush()
                    committing = True  # from here on, a lost reply is ambiguous
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
        """A session with an open transaction; waits for a server that restarts."""
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
        """Hold the lock for moving aliases; it is released even if the process dies."""
        if not self._server:
            with lock.holding(Path(f"{self._file}.moves"), "moving an alias", wait=True):
                yield
            return
        turn = f"SELECT pg_try_advisory_xact_lock({TURN_TO_MOVE})"
        try:
            # A reader's transaction does not block writers.
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
        """Create or convert the tables; returns the catalogue's identity."""
        if not self._server and not self._file.exists():
            if not make:
                return ""  # connecting would create an empty file
            # Created here so that the umask applies: SQLite would use mode 0644.
            DURABLE.require_changeable(self._file)
            with suppress(OSError):  # SQLite reports the error
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
    if not DURABLE.is_changeable(file):  # read-only, so no rollback of a killed writer either
        address = make_url(sqlite_url(file, "ro"))
    engine = create_engine(address, poolclass=NullPool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    # No write-ahead log: a reset can corrupt it before SQLite 3.51.3, and few rows are written.
    cursor.execute("PRAGMA journal_mode=DELETE")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # Writers take the lock first: SQLite cannot wait for an upgrade from a read lock.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _postgresql(address: Any) -> Engine:
    if address.drivername != "postgresql+psycopg":
        raise ArgumentError(f"there is no catalogue on {address.drivername}")
    settings = {
        key: value for key, value in _PATIENT_CONNECTION.items() if key not in address.query
    }
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
    """Whether an immediate retry of the transaction may succeed."""
    return _code(reason) in _LOST_RACE or "database is locked" in str(reason)


def _is_gone(reason: Any) -> bool:
    """Whether a server did not answer or closed the connection."""
    code = _code(reason)
    if code is None:  # libpq could not connect, or the connection broke
        return hasattr(reason, "sqlstate") and type(reason).__name__ == "OperationalError"
    return code.startswith(_GONE)


def _as_ours(reason: Any, place: str, server: bool) -> BpelineError:
    message = " ".join(str(reason).split())
    if _code(reason) in _FULL or "disk is full" in message:
        return DiskFull(
            f"no space left while writing the catalogue {place}",
            "the catalogue keeps its earlier content",
            "free some space and run the same command again",
        )
    if not server and ("not a database" in message or "malformed" in message):
        return CorruptFile(
            f"the catalogue {place} is damaged: {message}",
            "expected a SQLite database made by bpeline",
            "restore it, or move it away and start again: versions in MLflow are not affected",
        )
    if _code(reason) in _LOCKED or _lost_race(reason):
        return StorageError(
            f"the catalogue {place} is locked by another program",
            f"expected the lock within {_LOCK_SECONDS} s",
            "stop the program that holds it (a database browser?) and try again",
        )
    if server and _is_gone(reason):
        return RegistryUnreachable(
            f"the catalogue {place} does not answer: {message}",
            "expected a PostgreSQL server that accepts this user",
            "start it, or correct BPELINE_CATALOGUE_URL, and run the same command again",
        )
    return (RegistryError if server else StorageError)(
        f"the catalogue {place} reports an error: {message}",
        "expected a database that this user may read and write",
        "make this user its owner, or correct BPELINE_CATALOGUE_URL"
        if server
        else "check that this user may read and write its file and folder",
    )


def _code(reason: Any) -> str | None:
    return getattr(reason, "sqlstate", None)
