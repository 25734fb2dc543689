"""The catalogue's tables: a row is the value that its functions take and return.

Written for SQLAlchemy 2.0 and 2.1, SQLite and PostgreSQL. Times are UTC in ISO 8601; a text that
is not known is empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

from bpeline.registry.catalogue.values import ChunkRecord, Metric, Registration
from bpeline.tokenizer_core.redaction import without_secrets

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


class LargeNumber(TypeDecorator[int]):
    """A whole number that may exceed BIGINT: an inode, the sum of int64 counts."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: int | None, _dialect: Any) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, _dialect: Any) -> int | None:
        return None if value is None else int(value)


class Chunks(TypeDecorator[tuple[ChunkRecord, ...]]):
    """The chunks of a file."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Any) -> Any:
        return [[one.digest, one.begin, one.end, one.ordinal] for one in value]

    def process_result_value(self, value: Any, _dialect: Any) -> Any:
        return tuple(ChunkRecord(*one) for one in value)


def as_figures(points: Mapping[tuple[str, int], float]) -> str:
    """`Version.figures` of values by their keys and steps."""
    figures: dict[str, list[tuple[int, float]]] = {}
    for (key, step), value in sorted(points.items()):
        figures.setdefault(key, []).append((step, value))
    return json.dumps(figures)


def _text(most: int) -> Any:
    """A column of text, ordered by its bytes on every database."""
    return String(most).with_variant(String(most, collation="C"), "postgresql")


Key = Annotated[int, mapped_column(primary_key=True, autoincrement=True)]
Digest = Annotated[str, mapped_column(_text(64))]
Name = Annotated[str, mapped_column(_text(64))]
Time = Annotated[str, mapped_column(_text(40))]  # UTC, ISO 8601: sorts as text


class Base(MappedAsDataclass, DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )

    def as_values(self) -> dict[str, Any]:
        """What people and programs are shown: without keys of the database's own."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.compare}


class SchemaVersion(Base):
    """Which releases can read the tables."""

    __tablename__ = "schema_version"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    applied_at: Mapped[Time]


class Identity(Base):
    """What tells this catalogue from all others."""

    __tablename__ = "identity"
    id: Mapped[Name] = mapped_column(primary_key=True)


# `values.FileReading`, of which there may be a hundred thousand: rows without a session's tracking.
file_readings = Table(
    "file_readings",
    Base.metadata,
    Column("id", Integer, primary_key=True),
    Column("path", FilePath, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("ctime_ns", BigInteger, nullable=False),
    Column("inode", LargeNumber, nullable=False),
    Column("chunk_bytes", BigInteger, nullable=False),
    Column("reading_digest", _text(64), nullable=False),
    Column("chunks", Chunks, nullable=False),
    UniqueConstraint("path", "chunk_bytes", "reading_digest"),
)


class CountTable(Base):
    """A word-count table that was made.

    Attributes:
        key: its name in the word-count store.
        counts_digest: digest of the word counts in it.
        corpus_digest: digest of the corpus it counts.
        words: distinct words.
        total: occurrences of all words together.
        run_id: the run that made it.
        created_at: when.
    """

    __tablename__ = "count_tables"
    key: Mapped[Digest] = mapped_column(primary_key=True)
    counts_digest: Mapped[Digest]
    corpus_digest: Mapped[Digest]
    words: Mapped[int] = mapped_column(BigInteger)
    total: Mapped[int] = mapped_column(LargeNumber)
    run_id: Mapped[Name] = mapped_column(default="")
    created_at: Mapped[Time] = mapped_column(default="")


RunState = Literal[
    "running", "interrupted", "finished", "failed", "unpublished", "refused", "dismissed"
]


SWEEP = "sweep"  # the member of a run's configuration that says it is one


class Run(Base):
    """One run of the pipeline.

    Attributes:
        id: 12 hexadecimal digits.
        name: the tokenizer's name.
        config: what was asked for, as JSON values.
        state: ``interrupted`` when it was running in a process that is known to be dead;
            ``refused`` when what was asked for could not be begun; ``dismissed`` when somebody
            said that it is not to be continued.
        pid, host, birth: the process it runs or ran in, see `Process`.
        started_at: when it was first started.
        heartbeat_at: when it last said that it lives.
        finished_at: when it ended in whatever way; empty while running.
        corpus_digest: known after reading.
        counts_digest: known after counting.
        step: the last step reached.
        error: why it failed or could not be published.
        workspace: `Workspace.id` of the workspace it works in.
        left_out_rule: by which text of the evaluation set is left out.
    """

    __tablename__ = "trainings"
    # The order of runs; clocks go backwards.
    number: Mapped[Key] = mapped_column(init=False, repr=False, compare=False)
    id: Mapped[Name] = mapped_column(unique=True)
    name: Mapped[Name]
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[RunState] = mapped_column(_text(64))
    pid: Mapped[int] = mapped_column(BigInteger)
    host: Mapped[str] = mapped_column(String(255))
    birth: Mapped[str] = mapped_column(String(100), repr=False, compare=False)
    started_at: Mapped[Time]
    heartbeat_at: Mapped[Time]
    finished_at: Mapped[Time] = mapped_column(default="")
    corpus_digest: Mapped[Digest] = mapped_column(default="")
    counts_digest: Mapped[Digest] = mapped_column(default="")
    step: Mapped[str] = mapped_column(Sentence, default="")
    error: Mapped[str] = mapped_column(Remark, default="")
    workspace: Mapped[Name] = mapped_column(default="")
    left_out_rule: Mapped[int] = mapped_column(default=1)

    @property
    def is_sweep(self) -> bool:
        """Whether it measures many trainings and registers none; it cannot be continued."""
        return SWEEP in self.config


class Version(Base):
    """Where a tokenizer comes from, under one name, and what was measured of it.

    Attributes:
        name: the tokenizer's name.
        digest: digest of its behaviour; unique under a name.
        run_id: the run that made it first.
        corpus_digest: the corpus it was trained on.
        counts_digest: the word counts it was trained on.
        vocab_size: number of ids.
        pattern: the split pattern's name or regex.
        created_at: when it was finished.
        trained: grows from each finished training to the next that makes it, whatever clocks
            say; 0 where no training here made it.
        measured_on: digest of the evaluation set that its metrics are of; empty for texts of its
            own.
        registered: under which number each MLflow had it when it was last seen there, by the
            MLflow's identity. MLflow says what it is now.
        figures: what was measured, as JSON: for each key, (step, value) pairs.
    """

    __tablename__ = "lineage"
    # The arbiter: whatever races or repeats, a digest is remembered once under a name.
    __table_args__ = (UniqueConstraint("name", "digest"),)
    id: Mapped[Key] = mapped_column(init=False, repr=False, compare=False)
    name: Mapped[Name]
    digest: Mapped[Digest] = mapped_column(index=True)
    # No foreign key: an outbox may be published into another catalogue.
    run_id: Mapped[Name] = mapped_column(default="")
    corpus_digest: Mapped[Digest] = mapped_column(default="")
    counts_digest: Mapped[Digest] = mapped_column(default="")
    vocab_size: Mapped[int] = mapped_column(default=0)
    pattern: Mapped[str] = mapped_column(Sentence, default="")
    created_at: Mapped[Time] = mapped_column(default="")
    trained: Mapped[int] = mapped_column(BigInteger, default=0)
    measured_on: Mapped[Digest] = mapped_column(default="")
    registered: Mapped[dict[str, int]] = mapped_column(JSON, default_factory=dict)
    # Not a column of JSON, which refuses infinity; read by few of those who read a version.
    figures: Mapped[str] = mapped_column(Text, default="{}", repr=False)

    @property
    def registrations(self) -> list[Registration]:
        """The same as `registered`."""
        return [
            Registration(store, self.name, number, self.digest)
            for store, number in self.registered.items()
        ]

    @property
    def metrics(self) -> list[Metric]:
        """What was measured, by key and step."""
        figures = json.loads(self.figures).items()
        return [Metric(key, step, value) for key, curve in figures for step, value in curve]

    @property
    def last_values(self) -> dict[str, float]:
        """What was measured, of every curve its last point."""
        return {one.key: one.value for one in self.metrics}


MoveKind = Literal["publish", "promote", "rollback", "seen", "refusal", "remove"]


class AliasMove(Base):
    """An alias was pointed elsewhere, or was asked to.

    Attributes:
        name: the tokenizer's name.
        alias: the alias.
        from_number: where it pointed before; None for nowhere.
        to_number: where it points since; None for nowhere.
        by: who moved it.
        reason: why.
        at: when.
        kind: ``publish``: to a new version; ``promote``; ``rollback``: the last move undone;
            ``seen``: somebody moved it in MLflow itself; ``refusal``: rules kept it where it is;
            ``remove``: it was taken away.
        store: identity of the MLflow whose numbers these are.
        from_digest, to_digest: of the tokenizers that had these numbers; empty for nowhere, and in
            the history of earlier releases.
    """

    __tablename__ = "alias_moves"
    id: Mapped[Key] = mapped_column(init=False, repr=False, compare=False)
    name: Mapped[Name]
    alias: Mapped[Name]
    from_number: Mapped[int | None]
    to_number: Mapped[int | None]
    by: Mapped[str] = mapped_column(Remark, default="")
    reason: Mapped[str] = mapped_column(Remark, default="")
    at: Mapped[Time] = mapped_column(default="")
    kind: Mapped[MoveKind] = mapped_column(_text(64), default="promote")
    store: Mapped[Name] = mapped_column(default="")
    from_digest: Mapped[Digest] = mapped_column(default="")
    to_digest: Mapped[Digest] = mapped_column(default="")


class NamedSet(Base):
    """The evaluation set that a name has or had.

    Attributes:
        name: the tokenizers'.
        number: 1 for its first set; the greatest is the one it has now.
        digest: which set.
        by, reason: who set it, and why.
        at: since when.
    """

    __tablename__ = "evaluation_sets"
    name: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[Digest]
    by: Mapped[str] = mapped_column(Remark, default="")
    reason: Mapped[str] = mapped_column(Remark, default="")
    at: Mapped[Time] = mapped_column(default="")
