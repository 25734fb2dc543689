"""The catalogue's tables as SQLAlchemy models.

For SQLAlchemy 2.0 and 2.1, SQLite and PostgreSQL. Times are UTC in ISO 8601; unknown text is empty.
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
    """Any text; escapes NUL and lone surrogates, which databases cannot store."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Any) -> str | None:
        if value is None:
            return None
        return value.replace("\0", r"\x00").encode("utf-8", "backslashreplace").decode()


class Remark(Sentence):
    """Text of a user or program that may quote an address; secrets are removed."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return super().process_bind_param(
            None if value is None else without_secrets(value), dialect
        )


class FilePath(TypeDecorator[str]):
    """A path or URL; escaped after a unique prefix if it is not UTF-8."""

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
        except UnicodeEncodeError:  # surrogates: Python's form of bytes that are not UTF-8
            return _ESCAPED + quote_from_bytes(value.encode(errors="surrogatepass"))
        return value

    def process_result_value(self, value: str | None, _dialect: Any) -> str | None:
        if value is None or not value.startswith(_ESCAPED):
            return value
        raw = unquote_to_bytes(value.removeprefix(_ESCAPED))
        return raw.decode(errors="surrogatepass")


class LargeNumber(TypeDecorator[int]):
    """An integer that may exceed BIGINT: an inode, a sum of int64 counts."""

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
        return [[chunk.digest, chunk.begin, chunk.end, chunk.ordinal] for chunk in value]

    def process_result_value(self, value: Any, _dialect: Any) -> Any:
        return tuple(ChunkRecord(*chunk) for chunk in value)


def as_figures(points: Mapping[tuple[str, int], float]) -> str:
    """Return `Version.figures` for values by key and step."""
    figures: dict[str, list[tuple[int, float]]] = {}
    for (key, step), value in sorted(points.items()):
        figures.setdefault(key, []).append((step, value))
    return json.dumps(figures)


def _text(most: int) -> Any:
    """A text column, ordered by bytes on every database."""
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
        """Return the columns as shown to users, without internal keys."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.compare}


class SchemaVersion(Base):
    """The schema numbers that were applied."""

    __tablename__ = "schema_version"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    applied_at: Mapped[Time]


class Identity(Base):
    """The identity of this catalogue."""

    __tablename__ = "identity"
    id: Mapped[Name] = mapped_column(primary_key=True)


# Rows of `values.FileReading`: a plain table, because there may be 100,000 of them.
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
    """A word-count table: its key in the store and its numbers of words."""

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


SWEEP = "sweep"  # key in the configuration of a run that is a sweep


class Run(Base):
    """One run of the pipeline.

    Attributes:
        id: 12 hexadecimal digits.
        config: the request, as JSON values.
        state: ``interrupted`` if its process died; ``refused`` if the request could not start;
            ``dismissed`` if the user will not continue it.
        pid, host, birth: the process of the run, see `Process`.
        finished_at: when it ended in any way; empty while running.
        corpus_digest, counts_digest: empty until known.
        error: why it failed or could not be published.
        workspace: the `Workspace.id` of its workspace.
        left_out_rule: the rule by which text of the evaluation set is left out.
    """

    __tablename__ = "trainings"
    # Orders the runs, because clocks can go backwards.
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
        return SWEEP in self.config


class Version(Base):
    """The lineage and metrics of a tokenizer under one name.

    Attributes:
        digest: of its behaviour; unique per name.
        run_id: the run that made it first.
        trained: place in the order of finished trainings, independent of clocks; 0 if not trained
            here.
        measured_on: digest of the evaluation set of its metrics; empty if they are of its own text.
        registered: MLflow identity → number there, when last seen; MLflow has the current state.
        figures: metrics as JSON: key → list of (step, value).
    """

    __tablename__ = "lineage"
    # Guarantees one row per name and digest when publications race or repeat.
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
    # Text, because a JSON column rejects infinity; parsed only when needed.
    figures: Mapped[str] = mapped_column(Text, default="{}", repr=False)

    @property
    def registrations(self) -> list[Registration]:
        return [
            Registration(store, self.name, number, self.digest)
            for store, number in self.registered.items()
        ]

    @property
    def metrics(self) -> list[Metric]:
        figures = json.loads(self.figures).items()
        return [Metric(key, step, value) for key, curve in figures for step, value in curve]

    @property
    def last_values(self) -> dict[str, float]:
        """The metrics; of a curve its last value."""
        return {metric.key: metric.value for metric in self.metrics}


MoveKind = Literal["publish", "promote", "rollback", "seen", "refusal", "remove"]


class AliasMove(Base):
    """A move of an alias, or a refused one.

    Attributes:
        from_number, to_number: versions before and after; None for no version.
        kind: ``publish``: to a new version; ``promote``; ``rollback``: undoes the last move;
            ``seen``: made in MLflow itself; ``refusal``: refused by rules; ``remove``: the alias
            was removed.
        store: identity of the MLflow with these numbers.
        from_digest, to_digest: of these versions; empty for none, and in old histories.
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
    """An evaluation set of a name; the one with the largest number is current."""

    __tablename__ = "evaluation_sets"
    name: Mapped[Name] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    digest: Mapped[Digest]
    by: Mapped[str] = mapped_column(Remark, default="")
    reason: Mapped[str] = mapped_column(Remark, default="")
    at: Mapped[Time] = mapped_column(default="")
