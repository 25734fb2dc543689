"""A word-count table: one DuckDB file, written once and only read afterwards.

The only file that imports duckdb. Anybody may query a finished table with any DuckDB client (2.0 or
newer): ``word_counts(word BLOB, count BIGINT, first_position BIGINT)``, in order of sight. A table
is written from a sum that is there already, or built from shards, or from sources with weights, by
one GROUP BY, which needs no more memory than it is given. DuckDB is not trusted with what it
stores: no keys, indexes or updates, no write-ahead log beside a finished file, and what it wrote is
read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bpeline.registry.word_counts.arrow_columns import batch_of, filled, holds, reader_of
from bpeline.registry.workspace import damaged
from bpeline.tokenizer_core.counting import COUNT_LIMIT, MILLION, WordCounts
from bpeline.tokenizer_core.errors import DiskFull, InvalidOption, StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

_ROWS_IN_BATCH = 1 << 18
_INTERRUPTED = re.compile(r"[Ii]nterrupted|KeyboardInterrupt|Terminated: *$")

_Settings = dict[str, str | bool | int | float | list[str]]
_CLOSED: _Settings = {  # nothing is fetched, nothing is loaded, nothing of Python's is looked at
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}

# Sums are HUGEINT until they are cast, and the cast refuses what int64 cannot hold.
_UNWEIGHTED = """
    CREATE TABLE word_counts AS
    SELECT word, sum(count)::BIGINT AS count, min(first_position) AS first_position
    FROM rows GROUP BY word ORDER BY 3"""
# Each source's rows bring its weight in millionths; `source_weights.weighted` in whole numbers.
_WEIGHTED = f"""
    CREATE TABLE word_counts AS
    WITH products AS (SELECT word, first_position, count::HUGEINT * weight AS product FROM rows),
    parts AS (SELECT word, first_position, product // {MILLION} AS whole,
                     product % {MILLION} AS rest FROM products),
    rounded AS (SELECT word, first_position, greatest(1, whole + CASE
                    WHEN rest > {MILLION // 2} OR (rest = {MILLION // 2} AND whole % 2 = 1) THEN 1
                    ELSE 0 END) AS count
                FROM parts)
    SELECT word, sum(count)::BIGINT AS count, min(first_position) AS first_position
    FROM rounded GROUP BY word ORDER BY 3"""
_WRITTEN = "CREATE TABLE word_counts AS SELECT word, count, first_position FROM rows"
_SIZES = "SELECT count(*), coalesce(sum(octet_length(word)), 0)::BIGINT FROM word_counts"
_ROWS = "SELECT word, count, first_position FROM word_counts"  # in the order they were inserted


def write_table(path: Path, counts: WordCounts, *, threads: int, memory_limit: int) -> None:
    """Write a table of these rows, in their order; nothing but the finished file is left.

    Args:
        path: a file that does not exist yet.
        counts: what it shall hold.
        threads: to work with.
        memory_limit: bytes for DuckDB.

    Raises:
        DiskFull: no space left.
        StorageError: DuckDB cannot finish, or what it wrote is not what it was given.
    """
    limits: _Settings = {"threads": threads, "memory_limit": f"{memory_limit}B"}
    _create(path, limits, reader_of(iter([batch_of(counts)])), _WRITTEN)
    with _reading(path, limits) as connection:
        if not holds(connection.sql(_ROWS).to_arrow_reader(_ROWS_IN_BATCH), counts):
            raise lost(f"writing {path.name}")


def build_table(
    path: Path, parts: Iterable[WordCounts], *, spill: Path, threads: int, memory_limit: int
) -> None:
    """Build a table from parts, one of them in memory at a time; only the finished file is left.

    Args:
        path: a file that does not exist yet.
        parts: at least one: counts at their place in the corpus.
        spill: an empty directory of DuckDB's own.
        threads: to work with.
        memory_limit: bytes; beyond it, it spills.

    Raises:
        InvalidOption: a sum above 2⁶³ − 1.
        DiskFull: no space left.
        StorageError: DuckDB cannot finish.
    """
    limits = _spilling(spill, threads, memory_limit)
    _create(path, limits, reader_of(batch_of(counts) for counts in parts), _UNWEIGHTED)


def build_weighted_table(
    path: Path,
    sources: Iterable[tuple[WordCounts, int]],
    *,
    spill: Path,
    threads: int,
    memory_limit: int,
) -> None:
    """Build a table from whole sources, each multiplied by its weight.

    Args:
        sources: at least one: each word of a source once, at its place in the corpus; and the
            source's weight in millionths, which is not 0.

    Other arguments and errors as `build_table`.
    """
    limits = _spilling(spill, threads, memory_limit)
    batches = (batch_of(counts, weight=weight) for counts, weight in sources)
    _create(path, limits, reader_of(batches), _WEIGHTED)


def _spilling(spill: Path, threads: int, memory_limit: int) -> _Settings:
    return {
        "threads": threads,
        "memory_limit": f"{memory_limit}B",
        "temp_directory": str(spill),  # its own: processes that share one corrupt each other's
        "preserve_insertion_order": False,
    }


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


def read_table(path: Path, pattern: SplitPattern, *, threads: int, memory_limit: int) -> WordCounts:
    """All rows in stored order.

    Raises:
        CorruptFile: DuckDB refuses the file, or its parts contradict each other.
        StorageError: the memory limit is too low.
    """
    import duckdb

    limits: _Settings = {"threads": threads, "memory_limit": f"{memory_limit}B"}
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


def _create(path: Path, limits: _Settings, rows: Any, statement: str) -> None:
    """Run the statement that makes a database's only table of ``rows``."""
    with _creating(path, limits) as connection:
        connection.register("rows", rows)
        connection.execute(statement)
        connection.unregister("rows")


@contextmanager
def _creating(path: Path, limits: _Settings) -> Iterator[Any]:
    """A new database to be filled; it is closed for good."""
    import duckdb

    log = log_of(path)
    config: _Settings = {**_CLOSED, **limits, "enable_external_access": False}
    try:
        with _building(path):
            connection = duckdb.connect(path, config=config)
            try:
                # Choosing a compression takes as long as adding the counts up.
                connection.execute("PRAGMA force_compression = 'uncompressed'")
                _settle(connection)
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
    import duckdb

    config: _Settings = {
        **_CLOSED,
        **limits,
        "enable_external_access": False,
        "arrow_large_buffer_size": True,  # int64 offsets: words may exceed 2 GB
    }
    connection = duckdb.connect(path, read_only=True, config=config)
    try:
        _settle(connection)
        yield connection
    except (duckdb.Error, RuntimeError) as error:
        raise_if_interrupted(error)
        raise
    finally:
        connection.close()


def _settle(connection: Any) -> None:
    """The settings of every connection, before they are locked."""
    # After two seconds DuckDB would draw a bar into standard output, which is ours.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")


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


def raise_if_interrupted(error: Exception) -> None:
    """DuckDB answers Ctrl-C with an error of its own; for us it is what it was.

    One that comes while DuckDB reads rows of ours is told by the name of Python's exception.
    """
    if _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from error


@contextmanager
def _building(path: Path) -> Iterator[None]:
    """Turn DuckDB's errors into ours."""
    import duckdb

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
