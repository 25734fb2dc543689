"""The answer to a statement: columns and rows, read once, or written as Parquet. Prints nothing."""

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
    """What a statement answers, while its connection is open.

    Args:
        connection: on which the statement can run.
        text: the statement.
    """

    def __init__(self, connection: Any, text: str) -> None:
        self._connection = connection
        self._text = text

    def rows(self) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """The names of the columns, each another one, and the rows, which can be read once.

        Raises:
            InvalidOption: DuckDB refuses the statement; also while rows are read.
            StorageError: it needs more memory or disk than there is; likewise.
        """
        with _told():
            self._connection.execute(self._text)
            names = _told_apart([str(one[0]) for one in self._connection.description])
        return names, self._fetched()

    def _fetched(self) -> Iterator[tuple[Any, ...]]:
        while True:
            with _told():
                rows = self._connection.fetchmany(_ROWS_AT_A_TIME)
            if not rows:
                return
            yield from rows

    def write_parquet(self, path: Path) -> int:
        """Write the rows as a Parquet file; one that is there is replaced when all is written.

        Returns:
            How many rows there are.

        Raises:
            InvalidOption, StorageError: as `rows`; or there is no such directory.
            DiskFull: no space left.
        """
        from pyarrow import parquet

        if not path.parent.is_dir():
            raise InvalidOption(
                f"there is no directory {path.parent}",
                "a file in a directory that exists",
                f"type `mkdir -p {shlex.quote(str(path.parent))}`, or name another file",
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
    """Answer one SELECT over what a workspace knows of its versions and their words.

    Example:
        >>> with querying("FROM versions") as answer:       # doctest: +SKIP
        ...     columns, rows = answer.rows()

    Args:
        statement: in DuckDB's SQL; docs/querying.md describes the tables.
        workspace: see :func:`registry.load_tokenizer`.
        on_adding: told what is added to ``words.duckdb`` first, which takes a while.

    Raises:
        InvalidOption: not one SELECT, or it names what there is not.
        UnknownVersion: a version that there is not, or whose words are not known here.
        StorageError: there is no workspace; or what is asked for cannot be read or stored.
    """
    read = read_statement(statement)
    contents = Contents(open_registry(workspace, make=False))
    with reading(contents, read, on_adding) as connection:
        yield Answer(connection, read.text)


@contextmanager
def _told() -> Iterator[None]:
    """DuckDB's errors as ours."""
    duckdb = library()
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise_if_interrupted(error)
        raise StorageError(
            f"DuckDB cannot finish: {first_line(error)}",
            "statements for which memory and the disk for temporary files suffice",
            "ask for fewer rows or columns, or set TMPDIR to a larger disk",
        ) from error
    except duckdb.Error as error:
        raise_if_interrupted(error)
        raise InvalidOption(
            f"DuckDB refuses the statement: {first_line(error)}", ACCEPTED, NEXT_STEP
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise


def _told_apart(names: list[str]) -> list[str]:
    """Names with a number behind those that stand there already: count, count_1."""
    found: list[str] = []
    for name in names:
        chosen, number = name, 0
        while chosen in found:
            number += 1
            chosen = f"{name}_{number}"
        found.append(chosen)
    return found
