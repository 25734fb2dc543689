"""Answers to SQL statements, as rows or as a Parquet file."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.closed_duckdb import library, log_of, raise_if_interrupted
from bpeline.registry.opening import open_registry
from bpeline.registry.querying.contents import Contents, Part
from bpeline.registry.querying.statements import ACCEPTED, NEXT_STEP, first_line, read_statement
from bpeline.registry.querying.words_file import held_by, open_file
from bpeline.registry.workspace import damaged, lock
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, StorageError

if TYPE_CHECKING:
    from bpeline.registry.querying.statements import Statement
    from bpeline.registry.workspace import Workspace

_ROWS_AT_A_TIME = 4096
_ROWS_IN_GROUP = 1 << 17


class Answer:
    """The answer to a statement; valid while its connection is open."""

    def __init__(self, connection: Any, text: str) -> None:
        self._connection = connection
        self._text = text

    def rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return distinct column names, and an iterator over the rows.

        Raises:
            InvalidOption: DuckDB rejects the statement; also while rows are read.
            StorageError: not enough memory or disk; also while rows are read.
        """
        with _told():
            self._connection.execute(self._text)
            names = _told_apart([str(column[0]) for column in self._connection.description])
        return names, self._fetched()

    def _fetched(self) -> Iterator[tuple[Any, ...]]:
        while True:
            with _told():
                rows = self._connection.fetchmany(_ROWS_AT_A_TIME)
            if not rows:
                return
            yield from rows

    def write_parquet(self, path: Path) -> int:
        """Write the rows to a Parquet file, replacing it, and return their number."""
        from pyarrow import parquet

        if not path.parent.is_dir():
            raise InvalidOption(
                f"there is no directory {path.parent}",
                "expected a file in an existing directory",
                f"type `mkdir -p {shlex.quote(str(path.parent))}`, or choose another file",
            )
        count = 0
        with DURABLE.writing_aside(path) as temporary:
            with _told():
                reader = self._connection.sql(self._text).to_arrow_reader(_ROWS_IN_GROUP)
                schema = reader.schema
            for at, name in enumerate(_told_apart(schema.names)):
                schema = schema.set(at, schema.field(at).with_name(name))
            with parquet.ParquetWriter(temporary, schema, compression="zstd") as file:
                while True:
                    with _told():
                        batch = next(reader, None)
                    if batch is None:
                        break
                    count += batch.num_rows
                    file.write_batch(type(batch).from_arrays(batch.columns, schema=schema))
        return count


@contextmanager
def querying(
    statement: str,
    workspace: Workspace | Path | str | None = None,
    on_adding: Callable[[str], None] = lambda _: None,
) -> Iterator[Answer]:
    """Run one SELECT over the versions of a workspace and their words.

    Example:
        >>> with querying("FROM versions") as answer:       # doctest: +SKIP
        ...     columns, rows = answer.rows()

    Args:
        statement: DuckDB SQL; docs/querying.md describes the tables.
        workspace: see :func:`registry.load_tokenizer`.
        on_adding: called with what is first added to ``words.duckdb``, which takes a while.

    Raises:
        InvalidOption: not one SELECT, or an unknown table or column.
        UnknownVersion: an unknown version, or one whose words are not here.
        StorageError: there is no workspace, or data cannot be read or stored.
    """
    parsed = read_statement(statement)
    contents = Contents(open_registry(workspace, make=False))
    with reading(contents, parsed, on_adding) as connection:
        yield Answer(connection, parsed.text)


@contextmanager
def _told() -> Iterator[None]:
    duckdb = library()
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise_if_interrupted(error)
        raise StorageError(
            f"DuckDB cannot finish: {first_line(error)}",
            "expected a statement that fits into memory and temporary disk space",
            "select fewer rows or columns, or set TMPDIR to a larger disk",
        ) from error
    except duckdb.Error as error:
        raise_if_interrupted(error)
        raise InvalidOption(
            f"DuckDB rejects the statement: {first_line(error)}", ACCEPTED, NEXT_STEP
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise


def _told_apart(names: list[str]) -> list[str]:
    """Make names unique with a number: count, count_1."""
    unique: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in unique:
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique


@contextmanager
def reading(
    contents: Contents, statement: Statement, on_adding: Callable[[str], None]
) -> Iterator[Any]:
    """Yield a connection on which a statement finds all its data, and nothing else.

    Args:
        statement: the only one that will run.
        on_adding: called with what is added to the file, before it is computed.
    """
    with ExitStack() as stack:
        spill = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bpeline-")))
        path = contents.registry.workspace.words_database
        needed = contents.needed(statement.mentions)
        with_runs = "runs" in statement.tables
        connection = open_file(path, spill)
        if connection is None or not _suffices(connection, contents, needed, with_runs):
            if connection is not None:
                connection.close()
            connection = _made(contents, needed, spill, on_adding)
        stack.callback(connection.close)
        yield connection


def _suffices(connection: Any, contents: Contents, needed: set[Part], with_runs: bool) -> bool:
    stored = held_by(connection)
    return (
        stored is not None
        and stored.versions == contents.fingerprint
        and {(part.kind, part.key) for part in needed} <= stored.parts.keys()
        and (not with_runs or stored.runs == contents.fingerprint_of_runs)
    )


def _made(
    contents: Contents, needed: set[Part], spill: Path, on_adding: Callable[[str], None]
) -> Any:
    """Build a file with all needed parts and return a connection to it."""
    # Imported late: tokenizers and evaluation take most of a second.
    from bpeline.registry.querying.words_making import make

    workspace = contents.registry.workspace
    path, aside = workspace.words_database, workspace.words_database_aside
    writable = DURABLE.is_changeable(path) and os.access(workspace.root, os.W_OK)
    if not (writable and workspace.manifest.exists()):
        # A read-only workspace: use a temporary file.
        path = aside = spill / path.name
        make(contents, needed, workspace.words_database, aside, spill, on_adding)
        return _opened(path, spill)
    DURABLE.make_directories(aside.parent)
    with lock.holding(aside.parent / "lock", f"making {path.name}", wait=True):
        connection = open_file(path, spill)  # another process may have built it
        if connection is not None:
            if _suffices(connection, contents, needed, with_runs=True):
                return connection
            connection.close()
        for leftover in (aside, log_of(aside)):  # of a killed process
            leftover.unlink(missing_ok=True)
        try:
            make(contents, needed, path, aside, spill, on_adding)
            DURABLE.publish(aside, path)
        finally:
            for leftover in (aside, log_of(aside)):
                leftover.unlink(missing_ok=True)
        return _opened(path, spill)


def _opened(path: Path, spill: Path) -> Any:
    connection = open_file(path, spill)
    if connection is None:
        raise damaged(path)
    return connection
