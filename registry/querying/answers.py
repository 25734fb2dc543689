"""Answers to SQL statements, as rows or as a Parquet file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.closed_duckdb import library, raise_if_interrupted
from bpeline.registry.opening import open_registry
from bpeline.registry.querying.contents import Contents
from bpeline.registry.querying.statements import ACCEPTED, NEXT_STEP, first_line, read_statement
from bpeline.registry.querying.words_database import reading
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, StorageError

if TYPE_CHECKING:
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
