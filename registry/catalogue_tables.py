"""The catalogue's tables and transactions: the one door to SQLAlchemy.

Says how rows lie and how a transaction begins, repeats and fails; what is asked and stored is in
`registry.catalogue`, which takes the words of its queries from here. Written for SQLAlchemy 2.0
and 2.1, SQLite and PostgreSQL.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    MetaData,
    NullPool,
    String,
    Text,
    UniqueConstraint,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tokenizer_core.errors import (
    CorruptFile,
    DiskFull,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
    StorageError,
)

__all__ = [
    "AliasMoveRow", "AliasRow", "CountTableRow", "Database", "FileReadingRow", "MetricRow",
    "RunRow", "Session", "VersionRow", "delete", "func", "select", "update",
]  # fmt: skip

T = TypeVar("T")

Key = Annotated[int, mapped_column(primary_key=True, autoincrement=True)]
Digest = Annotated[str, mapped_column(String(64))]
Name = Annotated[str, mapped_column(String(64))]
Time = Annotated[str, mapped_column(String(40))]  # UTC, ISO 8601: sorts as text


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class SchemaVersionRow(Base):
    __tablename__ = "schema_version"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    applied_at: Mapped[Time]


class FileReadingRow(Base):
    __tablename__ = "file_readings"
    __table_args__ = (UniqueConstraint("path", "chunk_bytes", "reading_digest"),)
    id: Mapped[Key]
    path: Mapped[str] = mapped_column(Text)
    size: Mapped[int] = mapped_column(BigInteger)
    mtime_ns: Mapped[int] = mapped_column(BigInteger)
    ctime_ns: Mapped[int] = mapped_column(BigInteger)
    inode: Mapped[str] = mapped_column(String(20))  # unsigned 64 bits: too large for BIGINT
    chunk_bytes: Mapped[int] = mapped_column(BigInteger)
    reading_digest: Mapped[Digest]
    chunks: Mapped[list[list[Any]]] = mapped_column(JSON)


class CountTableRow(Base):
    __tablename__ = "count_tables"
    key: Mapped[Digest] = mapped_column(primary_key=True)
    counts_digest: Mapped[Digest]
    corpus_digest: Mapped[Digest]
    words: Mapped[int] = mapped_column(BigInteger)
    total: Mapped[str] = mapped_column(String(40))  # the sum of int64 counts may exceed BIGINT
    run_id: Mapped[Name]
    created_at: Mapped[Time]


class RunRow(Base):
    __tablename__ = "runs"
    number: Mapped[Key]  # the order of runs; clocks go backwards
    id: Mapped[Name] = mapped_column(unique=True)
    name: Mapped[Name]
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[Name]
    pid: Mapped[int] = mapped_column(BigInteger)
    host: Mapped[str] = mapped_column(String(255))
    birth: Mapped[str] = mapped_column(String(100))
    started_at: Mapped[Time]
    heartbeat_at: Mapped[Time]
    finished_at: Mapped[Time]
    corpus_digest: Mapped[Digest]
    counts_digest: Mapped[Digest]
    step: Mapped[str] = mapped_column(Text)
    error: Mapped[str] = mapped_column(Text)
    workspace: Mapped[Name] = mapped_column(server_default="")


class VersionRow(Base):
    __tablename__ = "versions"
    # The arbiters: whatever races or repeats, a digest is registered once under a name.
    __table_args__ = (UniqueConstraint("name", "digest"), UniqueConstraint("name", "number"))
    id: Mapped[Key]
    name: Mapped[Name]
    number: Mapped[int]
    digest: Mapped[Digest] = mapped_column(index=True)
    run_id: Mapped[Name]  # no foreign key: an outbox may be published into another catalogue
    corpus_digest: Mapped[Digest]
    counts_digest: Mapped[Digest]
    vocab_size: Mapped[int]
    pattern: Mapped[str] = mapped_column(Text)
    mlflow_run_id: Mapped[Name]
    mlflow_version: Mapped[Name]
    created_at: Mapped[Time]


class AliasRow(Base):
    __tablename__ = "aliases"
    __table_args__ = (
        ForeignKeyConstraint(["name", "number"], ["versions.name", "versions.number"]),
    )
    name: Mapped[Name] = mapped_column(primary_key=True)
    alias: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int]


class AliasMoveRow(Base):
    __tablename__ = "alias_history"
    id: Mapped[Key]
    name: Mapped[Name]
    alias: Mapped[Name]
    from_number: Mapped[int | None]
    to_number: Mapped[int | None]
    by: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[Time]


class MetricRow(Base):
    __tablename__ = "metrics"
    __table_args__ = (UniqueConstraint("version_id", "key", "step"),)
    id: Mapped[Key]
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"))
    key: Mapped[str] = mapped_column(String(250))
    step: Mapped[int] = mapped_column(BigInteger)
    value: Mapped[float | None]  # null: not a number


def m001_first_tables(connection: Connection) -> None:
    Base.metadata.create_all(connection)


def m002_workspace_of_runs(connection: Connection) -> None:
    # Those of before have none: they belong to workspaces without an id, as all were then.
    connection.execute(
        text("ALTER TABLE runs ADD COLUMN workspace VARCHAR(64) DEFAULT '' NOT NULL")
    )


# One function for each schema version, in order. A fresh catalogue gets today's tables and counts
# as having all of them; an older one gets those it has not had.
MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    m001_first_tables,
    m002_workspace_of_runs,
)

_BUSY_MILLISECONDS = 30_000
_ATTEMPTS = 8
_LONGEST_PAUSE = 0.5


class Database:
    """Transactions on one catalogue.

    Args:
        url: ``sqlite:////abs/catalogue.sqlite`` or ``postgresql+psycopg://…``.

    Raises:
        InvalidOption: not a URL, or no driver for it.
        CorruptFile: the file is not a database.
        StorageError: a newer bpeline's schema.
        RegistryUnreachable: the database server does not answer.
    """

    def __init__(self, url: str) -> None:
        try:
            self._address = make_url(url)
            self.place = self._address.render_as_string(hide_password=True)
            sqlite = self._address.get_backend_name() == "sqlite"
            if sqlite:
                # A connection for each transaction: nothing to share with threads or forked
                # children, and 0.2 ms is little beside one fsync.
                self._engine = create_engine(self._address, poolclass=NullPool)
                event.listen(self._engine, "connect", _prepare_sqlite)
                event.listen(self._engine, "begin", _begin_sqlite)
            else:
                self._engine = create_engine(self._address, pool_pre_ping=True)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise InvalidOption(
                f"the catalogue's URL cannot be used: {error}",
                "accepted are sqlite:////absolute/path and postgresql+psycopg://user@host/name",
                "mend the URL; for PostgreSQL install the driver: pip install 'psycopg[binary]'",
            ) from error
        self._readers = self._engine.execution_options(reading=True)
        self._migrate()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view; nothing may be written."""
        try:
            with Session(self._readers) as session:
                yield session
        except DatabaseError as error:
            raise self._translated(error) from error

    def writing(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` in one transaction and commit; repeat it when others were faster.

        Args:
            work: may be called several times, so its only effects are in the session.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with Session(self._engine, expire_on_commit=False) as session, session.begin():
                    return work(session)
            except (IntegrityError, OperationalError) as error:
                repeatable = isinstance(error, IntegrityError) or _says_busy(error)
                if not repeatable or attempt == _ATTEMPTS - 1:
                    raise self._translated(error) from error
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))
            except DatabaseError as error:
                raise self._translated(error) from error
        raise AssertionError("unreachable")

    def _migrate(self) -> None:
        def known(connection: Connection) -> int | None:
            if not inspect(connection).has_table(SchemaVersionRow.__tablename__):
                return None
            return connection.scalar(select(func.max(SchemaVersionRow.number))) or 0

        def apply(session: Session) -> None:
            connection = session.connection()
            number = known(connection)
            if number is None:
                Base.metadata.create_all(connection)
            for migration in MIGRATIONS[number:] if number is not None else ():
                migration(connection)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for new in range((number or 0) + 1, len(MIGRATIONS) + 1):
                connection.execute(insert(SchemaVersionRow).values(number=new, applied_at=now))

        with self.reading() as session:
            number = known(session.connection())
        if number is not None and number > len(MIGRATIONS):
            raise StorageError(
                f"the catalogue {self.place} has the schema version {number}",
                f"this bpeline knows versions up to {len(MIGRATIONS)}",
                "install a newer bpeline, or set BPELINE_CATALOGUE_URL to another catalogue",
            )
        if number != len(MIGRATIONS):
            self.writing(apply)

    def _translated(self, error: DatabaseError) -> Exception:
        reason = str(error.orig)
        if "disk is full" in reason:
            return DiskFull(
                f"no space left while writing the catalogue {self.place}",
                "the catalogue keeps its earlier content",
                "free some space and run the same command again",
            )
        if "not a database" in reason or "malformed" in reason:
            return CorruptFile(
                f"the catalogue {self.place} is damaged: {reason}",
                "a SQLite database that bpeline made",
                "restore it, or move it away and start anew: versions in MLflow are not affected",
            )
        if _says_busy(error):
            return StorageError(
                f"the catalogue {self.place} stays locked by others",
                f"others may hold it for up to {_BUSY_MILLISECONDS // 1000} s",
                "stop the program that holds it (a database browser?) and try again",
            )
        if isinstance(error, OperationalError) and self._address.get_backend_name() != "sqlite":
            return RegistryUnreachable(
                f"the catalogue {self.place} does not answer: {reason}",
                "a PostgreSQL server that accepts this user",
                "start it, or mend BPELINE_CATALOGUE_URL, and try again",
            )
        return RegistryError(
            f"the catalogue {self.place} refuses: {reason}",
            "a database that this user may read and write",
            "see whether its file and folder can be read and written by this user",
        )


def _says_busy(error: DatabaseError) -> bool:
    reason = str(error.orig)
    return "database is locked" in reason or "deadlock" in reason or "serialize" in reason


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin below, not in the driver
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    # No write-ahead log: the SQLite that many Pythons carry can corrupt it when it is reset
    # (mended in 3.51.3), and this catalogue writes a few rows a minute.
    cursor.execute("PRAGMA journal_mode=DELETE")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that will write takes its lock at once: one that begins by reading could not
    # be made to wait later, only refused.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
