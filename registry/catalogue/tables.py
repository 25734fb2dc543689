"""The catalogue's tables and transactions: the one door to SQLAlchemy.

Says how rows lie and how a transaction begins, repeats and fails; what is asked and stored is in
`registry.catalogue.catalogue`, which takes the words of its queries from here. Written for
SQLAlchemy 2.0 and 2.1, SQLite and PostgreSQL.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    Engine,
    Executable,
    ForeignKey,
    MetaData,
    NullPool,
    Select,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    and_,
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

from bpeline.registry.catalogue.database_errors import (
    is_gone,
    lost_race,
    other_schema,
    translated,
)
from bpeline.registry.catalogue.dialects import (
    begin_postgresql,
    begin_sqlite,
    connection_settings,
    prepare_sqlite,
    try_to_move,
)
from bpeline.registry.workspace import lock
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption
from bpeline.tokenizer_core.redaction import tell_secrets_of, without_secrets
from bpeline.tokenizer_core.urls import sqlite_url

__all__ = [
    "AliasMoveRow", "CountTableRow", "Database", "DeletionRow", "EvaluationSetRow",
    "FileReadingRow", "MetricRow", "RegistrationRow", "RunRow", "Session", "VersionRow", "and_",
    "as_record", "delete", "func", "given", "insert", "select", "update",
]  # fmt: skip

T = TypeVar("T")
_ESCAPED = "escaped="


class Sentence(TypeDecorator[str]):
    """Text from anywhere: what no database keeps, NUL and halves of surrogate pairs, escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Any) -> str | None:
        if value is None:
            return None
        return value.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


class Remark(Sentence):
    """What somebody or some program says, which may quote an address: without secrets."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return super().process_bind_param(
            None if value is None else without_secrets(value), dialect
        )


class FilePath(TypeDecorator[str]):
    """A path or URL; one that is not UTF-8 is kept escaped, behind what no other begins with."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        postgresql = dialect.name == "postgresql"
        return dialect.type_descriptor(Text(collation="C") if postgresql else Text())

    def process_bind_param(self, value: str | None, _dialect: Any) -> str | None:
        if value is None or value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:  # surrogates, by which Python writes what is not UTF-8
            return _ESCAPED + quote_from_bytes(value.encode(errors="surrogatepass"))
        return value

    def process_result_value(self, value: str | None, _dialect: Any) -> str | None:
        if value is None or not value.startswith(_ESCAPED):
            return value
        raw = unquote_to_bytes(value.removeprefix(_ESCAPED))
        return raw.decode(errors="surrogatepass")


def characters(most: int) -> Any:
    """A column of text, ordered by its bytes on every database."""
    return String(most).with_variant(String(most, collation="C"), "postgresql")


Key = Annotated[int, mapped_column(primary_key=True, autoincrement=True)]
Digest = Annotated[str, mapped_column(characters(64))]
Name = Annotated[str, mapped_column(characters(64))]
Time = Annotated[str, mapped_column(characters(40))]  # UTC, ISO 8601: sorts as text


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


class IdentityRow(Base):
    __tablename__ = "identity"
    id: Mapped[Name] = mapped_column(primary_key=True)


class FileReadingRow(Base):
    __tablename__ = "file_readings"
    __table_args__ = (UniqueConstraint("path", "chunk_bytes", "reading_digest"),)
    id: Mapped[Key]
    path: Mapped[str] = mapped_column(FilePath())
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
    step: Mapped[str] = mapped_column(Sentence)
    error: Mapped[str] = mapped_column(Remark)
    workspace: Mapped[Name] = mapped_column(server_default="")
    # Unused: bpeline 0.2 reads it.
    steps: Mapped[dict[str, list[float]]] = mapped_column(JSON, server_default="{}")

    @property
    def left_out_rule(self) -> int:
        """It lies in ``config``, which has none in runs of before."""
        return int(self.config.get("left_out_rule", 1))


class VersionRow(Base):
    __tablename__ = "versions"
    # The arbiters: whatever races or repeats, a digest is remembered once under a name.
    __table_args__ = (UniqueConstraint("name", "digest"), UniqueConstraint("name", "number"))
    id: Mapped[Key]
    name: Mapped[Name]
    ordinal: Mapped[int] = mapped_column("number")  # what people see is MLflow's number
    digest: Mapped[Digest] = mapped_column(index=True)
    run_id: Mapped[Name]  # no foreign key: an outbox may be published into another catalogue
    corpus_digest: Mapped[Digest]
    counts_digest: Mapped[Digest]
    vocab_size: Mapped[int]
    pattern: Mapped[str] = mapped_column(Sentence)
    created_at: Mapped[Time]
    # Grows from each finished training to the next that makes it, whatever clocks say.
    trained: Mapped[int] = mapped_column(BigInteger, server_default="0")
    measured_on: Mapped[Digest] = mapped_column(server_default="")  # an evaluation set


class RegistrationRow(Base):
    __tablename__ = "registrations"
    store: Mapped[Name] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[Digest] = mapped_column(index=True)
    mlflow_run_id: Mapped[Name]
    registered_at: Mapped[Time]


class AliasMoveRow(Base):
    __tablename__ = "alias_history"
    id: Mapped[Key]
    name: Mapped[Name]
    alias: Mapped[Name]
    from_number: Mapped[int | None]
    to_number: Mapped[int | None]
    by: Mapped[str] = mapped_column(Remark)
    reason: Mapped[str] = mapped_column(Remark)
    at: Mapped[Time]
    kind: Mapped[Name] = mapped_column(server_default="promote")
    store: Mapped[Name] = mapped_column(server_default="")
    from_digest: Mapped[Digest] = mapped_column(server_default="")
    to_digest: Mapped[Digest] = mapped_column(server_default="")


class EvaluationSetRow(Base):
    __tablename__ = "evaluation_sets"
    name: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[Digest]
    by: Mapped[str] = mapped_column(Remark)
    reason: Mapped[str] = mapped_column(Remark)
    at: Mapped[Time]


class DeletionRow(Base):
    __tablename__ = "deletions"
    store: Mapped[Name] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[Digest]
    by: Mapped[str] = mapped_column(Remark)
    reason: Mapped[str] = mapped_column(Remark)
    at: Mapped[Time]
    done_at: Mapped[Time]
    workspace: Mapped[Name]


class MetricRow(Base):
    __tablename__ = "metrics"
    __table_args__ = (UniqueConstraint("version_id", "key", "step"),)
    id: Mapped[Key]
    version_id: Mapped[int] = mapped_column(ForeignKey("versions.id"))
    key: Mapped[str] = mapped_column(characters(250))
    step: Mapped[int] = mapped_column(BigInteger)
    value: Mapped[float | None]  # null: not a number


def as_record(kind: type[T], row: Base) -> T:
    """A row as a frozen value, each of whose fields is called as a column is."""
    return kind(**{one.name: getattr(row, one.name) for one in fields(cast(Any, kind))})


def given(**asked: Any) -> dict[str, Any]:
    """Of what is asked for by column, that which is not None."""
    return {column: value for column, value in asked.items() if value is not None}


def _digests_of_moves(connection: Connection) -> None:
    for column in ("from_digest", "to_digest"):
        connection.execute(
            text(f"ALTER TABLE alias_history ADD COLUMN {column} VARCHAR(64) DEFAULT '' NOT NULL")
        )


def _give_identity(connection: Connection) -> None:
    connection.execute(insert(IdentityRow).values(id=secrets.token_hex(8)))


# How the schema of a number is made of the one before it; the first of them is release 0.2's.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {7: _digests_of_moves}
SCHEMA = max(MIGRATIONS)
_OLDEST = min(MIGRATIONS) - 1

_ATTEMPTS = 8
_LONGEST_PAUSE = 0.5
_PATIENCE_SECONDS = 30.0  # with a server that answered before: it is being restarted
_ACCEPTED = "accepted are sqlite:////absolute/path and postgresql+psycopg://user@host/name"


class Database:
    """Transactions on one catalogue.

    Every transaction has a connection of its own: nothing is shared with threads or forked
    children, and nothing is left broken by a server that was restarted.

    Args:
        url: ``sqlite:////abs/catalogue.sqlite`` or ``postgresql+psycopg://…``.
        make: whether to make the tables where there are none.

    Attributes:
        id: of the catalogue; empty where there are no tables.

    Raises:
        InvalidOption: not a URL, or no driver for it.
        CorruptFile: the file is not a database.
        StorageError: the schema of a newer bpeline, or of release 0.1.
        RegistryUnreachable: the database server does not answer.
    """

    def __init__(self, url: str, *, make: bool = True) -> None:
        tell_secrets_of(url)
        try:
            self._address = make_url(url)
            self._server = self._address.get_backend_name() != "sqlite"
            if self._address.drivername == "postgresql":
                self._address = self._address.set(drivername="postgresql+psycopg")
            self.place = without_secrets(self._address.render_as_string(hide_password=True))
            self._engine = self._postgresql() if self._server else self._sqlite()
        except (ArgumentError, ImportError) as error:
            raise InvalidOption(
                f"the catalogue's URL cannot be used: {error}",
                _ACCEPTED,
                "mend the URL; for PostgreSQL install the driver: pip install 'bpeline[postgres]'",
            ) from error
        self._reached = False
        # SQLite reads one state of the file in a transaction; PostgreSQL has to be asked for that.
        one_state = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._readers = self._engine.execution_options(
            reading=True, **(one_state if self._server else {})
        )
        self.id = self._migrate(make)

    def close(self) -> None:
        self._engine.dispose()

    def found(self, kind: type[T], query: Select[Any]) -> list[T]:
        """What a query selects, as the frozen values that stand for its rows."""
        with self.reading() as session:
            return [as_record(kind, row) for row in session.scalars(query)]

    def execute(self, statement: Executable) -> None:
        """Run one statement that writes."""
        self.writing(lambda session: session.execute(statement))

    def _sqlite(self) -> Engine:
        address, file = self._address, Path(str(self._address.database))
        if not DURABLE.is_changeable(
            file
        ):  # nor is what a killed process left taken back by reading
            address = make_url(sqlite_url(file, "ro"))
        engine = create_engine(address, poolclass=NullPool)
        event.listen(engine, "connect", prepare_sqlite)
        event.listen(engine, "begin", begin_sqlite)
        return engine

    def _postgresql(self) -> Engine:
        if self._address.drivername != "postgresql+psycopg":
            raise ArgumentError(f"there is no catalogue on {self._address.drivername}")
        engine = create_engine(
            self._address,
            poolclass=NullPool,
            connect_args=connection_settings(self._address.query),
            isolation_level="READ COMMITTED",
        )
        event.listen(engine, "begin", begin_postgresql)
        return engine

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
        DURABLE.require_changeable(Path(str(self._address.database)))
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
                repeatable = isinstance(error, IntegrityError) or lost_race(error.orig)
                repeatable |= self._server and is_gone(error.orig) and not committing
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
                restarted = self._server and self._reached and is_gone(error.orig)
                if not (restarted or lost_race(error.orig)) or time.monotonic() > deadline:
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
            path = Path(f"{self._address.database}.moves")
            with lock.holding(path, "moving an alias", wait=True):
                yield
            return
        try:
            # A reader's transaction: others may write rows meanwhile, and so may we.
            with self._readers.connect() as connection:
                lock.wait_for(
                    lambda: try_to_move(connection) or None,
                    lambda: "another process",
                    f"the right to move aliases in {self.place}",
                )
                yield
        except OperationalError as error:
            raise self._translated(error) from error

    def _migrate(self, make: bool) -> str:
        if not make and not self._server and not Path(str(self._address.database)).exists():
            return ""  # connecting would make an empty file
        if not self._server and not Path(str(self._address.database)).exists():
            _make_file(Path(str(self._address.database)))

        def known(connection: Connection) -> int | None:
            if not inspect(connection).has_table(SchemaVersionRow.__tablename__):
                return None
            return connection.scalar(select(func.max(SchemaVersionRow.number))) or 0

        def apply(session: Session) -> None:
            connection = session.connection()
            number = known(connection)
            if number is None:
                Base.metadata.create_all(connection)
                _give_identity(connection)
            for new, migration in MIGRATIONS.items():
                if number is not None and new > number:
                    migration(connection)
            if number != SCHEMA:  # another process may have been here meanwhile
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                connection.execute(insert(SchemaVersionRow).values(number=SCHEMA, applied_at=now))

        with self.reading() as session:
            number = known(session.connection())
        if number is not None and not _OLDEST <= number <= SCHEMA:
            raise other_schema(self.place, number, SCHEMA)
        if number is None and not make:
            return ""
        if number != SCHEMA:
            self.writing(apply)
        with self.reading() as session:
            return session.scalar(select(IdentityRow.id)) or ""

    def _translated(self, error: DatabaseError) -> BpelineError:
        return translated(error.orig, self.place, self._server)


def _make_file(path: Path) -> None:
    """Let the umask decide who may write a new database: SQLite gives its own files 0644."""
    DURABLE.require_changeable(path)
    with suppress(OSError):  # SQLite says what is wrong there
        DURABLE.disk.create(path, b"")
