"""Word-count tables: immutable DuckDB files.

``word_counts(word BLOB, count BIGINT, first_position BIGINT)``, in order of first occurrence,
can be queried with any DuckDB client (1.4 or newer). A table is created by one statement within a
memory limit, without keys, indexes, updates or a write-ahead log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bpeline.registry.closed_duckdb import (
    READ_SINCE,
    connect,
    library,
    log_of,
    raise_if_interrupted,
    settle,
)
from bpeline.registry.word_counts.arrow_columns import batch_of, filled, reader_of
from bpeline.registry.workspace import damaged
from bpeline.tokenizer_core.counting import COUNT_LIMIT, WordCounts
from bpeline.tokenizer_core.errors import BpelineError, DiskFull, InvalidOption, StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

_ROWS_IN_BATCH = 1 << 18
_IN_PASSING = "512MiB"  # DuckDB's memory where rows are only streamed

_Settings = dict[str, str | bool | int | float | list[str]]

# Sums are HUGEINT; the cast fails if a sum exceeds int64.
_ADDED_UP = """
    CREATE TABLE word_counts AS
    SELECT word, sum(count)::BIGINT AS count, min(first_position) AS first_position
    FROM rows GROUP BY word ORDER BY first_position, word"""
_SIZES = "SELECT count(*), coalesce(sum(octet_length(word)), 0)::BIGINT FROM word_counts"
_ROWS = "SELECT word, count, first_position FROM word_counts"  # in the order they were inserted


def write_sum(
    path: Path,
    parts: Iterable[WordCounts],
    *,
    spill: Path,
    threads: int,
    memory_limit: int,
) -> None:
    """Add up word counts into a new table, with one part in memory at a time.

    Args:
        path: a file that does not exist yet.
        parts: at least one part; first positions are byte offsets in the corpus.
        spill: an empty directory used only by DuckDB.
        memory_limit: bytes; DuckDB spills beyond it.
    """
    limits: _Settings = {
        "threads": threads,
        "memory_limit": f"{memory_limit}B",
        "temp_directory": str(spill),  # not shared: processes would corrupt each other's files
        "preserve_insertion_order": False,
    }
    failed: list[BpelineError] = []

    def batches() -> Iterator[Any]:
        try:
            yield from map(batch_of, parts)
        except BpelineError as error:  # DuckDB would replace it with a generic error
            failed.append(error)
            raise

    try:
        with _creating(path, limits) as connection:
            connection.register("rows", reader_of(batches()))
            connection.execute(_ADDED_UP)
            connection.unregister("rows")
    except StorageError:
        if failed:
            raise failed[0] from None
        raise


def write_statistics(path: Path, rows: Sequence[Mapping[str, str | int | float]]) -> None:
    """Write a new DuckDB file with the table ``sources``, one row for each source."""
    kinds = {str: "VARCHAR", int: "HUGEINT", float: "DOUBLE"}  # Σ count · length may exceed int64
    columns = ", ".join(f'"{name}" {kinds[type(value)]}' for name, value in rows[0].items())
    marks = ", ".join("?" * len(rows[0]))
    with _creating(path, {"threads": 1}) as connection:
        connection.execute(f"CREATE TABLE sources ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO sources VALUES ({marks})", list(row.values()))


def read_table(path: Path, pattern: SplitPattern, *, threads: int) -> WordCounts:
    """Read all rows of a table, in stored order."""
    duckdb = library()
    limits: _Settings = {"threads": threads, "memory_limit": _IN_PASSING}
    try:
        with _reading(path, limits) as connection:
            rows, size = connection.execute(_SIZES).fetchall()[0]
            batches = connection.sql(_ROWS).to_arrow_reader(_ROWS_IN_BATCH)
            return filled(batches, rows, size, pattern)
    except duckdb.OutOfMemoryException as error:
        raise StorageError(
            f"DuckDB ran out of memory while reading {path}",
            "the table is unchanged",
            "run the same command again, with a higher memory limit",
        ) from error
    except (duckdb.Error, RuntimeError, ValueError, IndexError) as error:
        raise_if_interrupted(error)
        raise damaged(path) from error


@contextmanager
def _creating(path: Path, limits: _Settings) -> Iterator[Any]:
    """Open a new database to be filled, and close it without a write-ahead log."""
    log = log_of(path)
    try:
        with _building(path):
            connection = connect(path, {**limits, **READ_SINCE})
            try:
                # Compression would take as long as adding up the counts.
                connection.execute("PRAGMA force_compression = 'uncompressed'")
                settle(connection)
                yield connection
                connection.execute("CHECKPOINT")
            finally:
                connection.close()
        if log.exists():
            raise StorageError(
                f"DuckDB left the write-ahead log {log.name}",
                "expected none for a finished table",
                "run the same command again",
            )
    finally:
        log.unlink(missing_ok=True)


@contextmanager
def _reading(path: Path, limits: _Settings) -> Iterator[Any]:
    duckdb = library()
    # int64 offsets: words may exceed 2 GB
    settings: _Settings = {**limits, "arrow_large_buffer_size": True}
    connection = connect(path, settings, read_only=True)
    try:
        settle(connection)
        yield connection
    except (duckdb.Error, RuntimeError) as error:
        raise_if_interrupted(error)
        raise
    finally:
        connection.close()


def lost(doing: str) -> StorageError:
    """Return the error for a table that does not contain the counts written to it."""
    return StorageError(
        f"DuckDB lost counts while {doing}",
        "expected the table's total to equal the sum of its parts' totals",
        "run the same command again; if it happens again, report it",
    )


@contextmanager
def _building(path: Path) -> Iterator[None]:
    """Convert DuckDB's errors to bpeline errors."""
    duckdb = library()
    try:
        yield
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise InvalidOption(
            f"a word's counts add up to more than {COUNT_LIMIT}",
            "counts are 64-bit integers",
            "use smaller weights: only their proportions matter",
        ) from error
    except duckdb.Error as error:
        raise_if_interrupted(error)
        reason = str(error).splitlines()[0]
        if "No space left" in reason or "max_temp_directory_size" in reason:
            raise DiskFull(
                f"no space left while combining word counts into {path}",
                "existing tables are unchanged",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"DuckDB could not combine the word counts: {reason}",
            "existing shards and tables are unchanged",
            "run the same command again, with a higher memory limit if it ran out of memory",
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise
