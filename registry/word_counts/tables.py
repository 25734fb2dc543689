"""A word-count table: one DuckDB file, written once and only read afterwards.

Anybody may query a finished table with any DuckDB client (1.4 or newer):
``word_counts(word BLOB, count BIGINT, first_position BIGINT)``, in order of sight. A table is
made by one statement, which needs no more memory than it is given. DuckDB is not trusted with what
it stores: no keys, indexes or updates, and no write-ahead log beside a finished file.
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
    raise_if_interrupted,
    settle,
)
from bpeline.registry.word_counts.arrow_columns import batch_of, filled, reader_of
from bpeline.registry.workspace import damaged
from bpeline.tokenizer_core.counting import COUNT_LIMIT, WordCounts
from bpeline.tokenizer_core.errors import BpelineError, DiskFull, InvalidOption, StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

_ROWS_IN_BATCH = 1 << 18
_IN_PASSING = "512MiB"  # for DuckDB, where rows only pass through

_Settings = dict[str, str | bool | int | float | list[str]]

# What is added up comes part by part, each word of it at its place in the corpus. Sums are HUGEINT
# until they are cast, and the cast refuses what int64 cannot hold.
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
    """Add counts up into a table, one part of them in memory at a time.

    Args:
        path: a file that does not exist yet; nothing but the finished file is left.
        parts: at least one: counts whose first positions are those in the corpus.
        spill: an empty directory of DuckDB's own.
        threads: to work with.
        memory_limit: bytes; beyond it, it spills.

    Raises:
        InvalidOption: a sum above 2⁶³ − 1.
        DiskFull: no space left.
        StorageError: DuckDB cannot finish.
        BpelineError: what reading the parts raises.
    """
    limits: _Settings = {
        "threads": threads,
        "memory_limit": f"{memory_limit}B",
        "temp_directory": str(spill),  # its own: processes that share one corrupt each other's
        "preserve_insertion_order": False,
    }
    failed: list[BpelineError] = []

    def batches() -> Iterator[Any]:
        try:
            yield from map(batch_of, parts)
        except BpelineError as error:  # of which DuckDB would tell nothing but that there was one
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
    """Write a table ``sources`` for people to query, one row for each source.

    Args:
        path: a file that does not exist yet.
        rows: at least one, all with the same columns and types.

    Raises:
        DiskFull: no space left.
        StorageError: DuckDB cannot finish.
    """
    kinds = {str: "VARCHAR", int: "HUGEINT", float: "DOUBLE"}  # Σ count · length may exceed int64
    columns = ", ".join(f'"{name}" {kinds[type(value)]}' for name, value in rows[0].items())
    marks = ", ".join("?" * len(rows[0]))
    with _creating(path, {"threads": 1}) as connection:
        connection.execute(f"CREATE TABLE sources ({columns})")
        for row in rows:
            connection.execute(f"INSERT INTO sources VALUES ({marks})", list(row.values()))


def read_table(path: Path, pattern: SplitPattern, *, threads: int) -> WordCounts:
    """All rows in stored order.

    Raises:
        CorruptFile: DuckDB refuses the file, or its parts contradict each other.
        StorageError: DuckDB runs out of memory.
    """
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
            "the table is untouched",
            "run the same command again, with a higher memory limit",
        ) from error
    except (duckdb.Error, RuntimeError, ValueError, IndexError) as error:
        raise_if_interrupted(error)
        raise damaged(path) from error


@contextmanager
def _creating(path: Path, limits: _Settings) -> Iterator[Any]:
    """A new database to be filled; it is closed for good."""
    log = log_of(path)
    try:
        with _building(path):
            connection = connect(path, {**limits, **READ_SINCE})
            try:
                # Choosing a compression takes as long as adding the counts up.
                connection.execute("PRAGMA force_compression = 'uncompressed'")
                settle(connection)
                yield connection
                connection.execute("CHECKPOINT")
            finally:
                connection.close()
        if log.exists():
            raise StorageError(
                f"DuckDB left {log.name} behind",
                "a finished table has no write-ahead log",
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


def log_of(path: Path) -> Path:
    """Where DuckDB keeps the write-ahead log of a database."""
    return path.with_name(f"{path.name}.wal")


def lost(doing: str) -> StorageError:
    """The complaint about a table that does not hold what it was given."""
    return StorageError(
        f"DuckDB lost counts while {doing}",
        "a table's total equals the sum of its parts' totals",
        "run the same command again; if it happens again, report it",
    )


@contextmanager
def _building(path: Path) -> Iterator[None]:
    """Turn DuckDB's errors into ours."""
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
                "tables made earlier are untouched",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"DuckDB could not combine the word counts: {reason}",
            "shards and tables made earlier are untouched",
            "run the same command again, with a higher memory limit if it ran out of memory",
        ) from error
    except RuntimeError as error:
        raise_if_interrupted(error)
        raise
