"""A word-count table: one DuckDB file, built by one weighted GROUP BY and only read afterwards.

The only file that imports duckdb. Anybody may query a finished table with any DuckDB client (2.0 or
newer): ``word_counts(word BLOB, count BIGINT, first_position BIGINT)``, ordered by word. DuckDB is
not trusted with what it stores: no keys, indexes or updates, no write-ahead log beside a finished
file, and the digest of what is read goes back to the caller, who knows what it must be.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from registry.sealed_records import damaged
from tokenizer_core.digests import digest_of_bytes
from tokenizer_core.errors import DiskFull, InvalidOption, StorageError
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.word_counts import COUNT_LIMIT, WordCounts

_ROWS_IN_BATCH = 1 << 18

_Settings = dict[str, str | bool | int | float | list[str]]
_CLOSED: _Settings = {  # nothing is fetched, nothing is loaded, nothing of Python's is looked at
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}

# Half to even, exactly as NumPy's rint: x - floor(x) is exact in binary floating point.
_ROUNDED = """floor(x)::BIGINT + CASE
    WHEN x - floor(x) > 0.5 OR (x - floor(x) = 0.5 AND floor(x)::BIGINT % 2 = 1) THEN 1
    ELSE 0 END"""

# Sums are HUGEINT until they are cast, and the cast refuses what int64 cannot hold. A shard that
# stands at several places of the corpus is read once and joined with each of them. Parts of equal
# weight are added before they are multiplied: rounding does not see how a source was cut.
_SUMS = """
    SELECT shard.word, input.weight, sum(shard.count)::BIGINT AS count,
        min(shard.first_position + input.position_base) AS first_position
    FROM read_parquet($files, filename = true) AS shard
    JOIN inputs AS input ON shard.filename = input.file
    GROUP BY shard.word, input.weight"""
_UNWEIGHTED = f"""
    CREATE TABLE word_counts AS
    SELECT word, count, first_position FROM ({_SUMS}) ORDER BY word"""
# The usual corpus has no weights and no chunk twice: a list of bases then replaces the join, which
# costs a third of everything.
_EACH_ONCE = """
    CREATE TABLE word_counts AS
    SELECT word, sum(count)::BIGINT AS count,
        min(first_position + list_extract($bases::BIGINT[], (file_index + 1)::BIGINT))
            AS first_position
    FROM read_parquet($files) GROUP BY word ORDER BY word"""
_WEIGHTED = f"""
    CREATE TABLE word_counts AS
    WITH products AS (SELECT word, first_position, count, weight, count::DOUBLE * weight AS x
                      FROM ({_SUMS})),
    rounded AS (SELECT word, first_position,
                       CASE WHEN weight = 1 THEN count ELSE {_ROUNDED} END AS count
                FROM products)
    SELECT word, sum(count)::BIGINT AS count, min(first_position) AS first_position
    FROM rounded WHERE count > 0 GROUP BY word ORDER BY word"""
_INPUTS = """
    CREATE TEMP TABLE inputs AS
    SELECT unnest($files::VARCHAR[]) AS file, unnest($weights::DOUBLE[]) AS weight,
        unnest($bases::BIGINT[]) AS position_base"""
_SIZES = "SELECT count(*), coalesce(sum(octet_length(word)), 0)::BIGINT FROM word_counts"
_ROWS = "SELECT word, count, first_position FROM word_counts"  # in the order they were inserted


@dataclass(frozen=True, slots=True)
class TablePart:
    """A Parquet file of word counts at its place in the corpus.

    Attributes:
        file: columns word, count, first_position.
        weight: factor for its counts.
        position_base: added to its first positions.
    """

    file: Path
    weight: float
    position_base: int


def build_table(
    path: Path,
    parts: Sequence[TablePart],
    *,
    readable: Path,
    spill: Path,
    threads: int,
    memory_limit: str,
) -> None:
    """Build a table; nothing but the finished file is left.

    Args:
        path: a file that does not exist yet.
        parts: at least one; several may name the same file.
        readable: the only directory DuckDB may read from, with all parts in it.
        spill: an empty directory of DuckDB's own.
        threads: to work with.
        memory_limit: such as ``2GB``; beyond it, it spills.

    Raises:
        InvalidOption: a sum above 2⁶³ − 1.
        DiskFull: no space left.
        StorageError: DuckDB cannot finish.
    """
    import duckdb

    config: _Settings = {
        **_CLOSED,
        "threads": threads,
        "memory_limit": memory_limit,
        "temp_directory": str(spill),  # its own: processes that share one corrupt each other's
        "preserve_insertion_order": False,
    }
    files = [str(part.file) for part in parts]
    inputs = {
        "files": files,
        "weights": [float(part.weight) for part in parts],
        "bases": [int(part.position_base) for part in parts],
    }
    each_once = [_escaped(file) for file in sorted(set(files))]
    plain = all(part.weight == 1 for part in parts)
    base_of = {str(part.file): int(part.position_base) for part in parts}
    log = log_of(path)
    try:
        with _building(path):
            connection = duckdb.connect(path, config=config)
            try:
                # DuckDB looks at a name before it reads it as a pattern, and again afterwards
                readables = ", ".join(_quoted(name) for name in (readable, _escaped(readable)))
                connection.execute(f"SET allowed_directories = [{readables}]")
                connection.execute("SET enable_external_access = false")
                # Choosing a compression takes as long as adding the counts up.
                connection.execute("PRAGMA force_compression = 'uncompressed'")
                connection.execute("SET lock_configuration = true")
                if plain and len(each_once) == len(files):
                    bases = [base_of[file] for file in sorted(files)]
                    connection.execute(_EACH_ONCE, {"files": each_once, "bases": bases})
                else:
                    connection.execute(_INPUTS, inputs)
                    connection.execute(_UNWEIGHTED if plain else _WEIGHTED, {"files": each_once})
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


def read_table(
    path: Path, pattern: SplitPattern, *, threads: int, memory_limit: str
) -> tuple[WordCounts, str]:
    """All rows in stored order, and the digest of their columns.

    Raises:
        CorruptFile: DuckDB refuses the file, or its parts contradict each other.
    """
    import duckdb

    config: _Settings = {
        **_CLOSED,
        "threads": threads,
        "memory_limit": memory_limit,
        "enable_external_access": False,
        "arrow_large_buffer_size": True,  # int64 offsets: words may exceed 2 GB
        "lock_configuration": True,
    }
    try:
        connection = duckdb.connect(path, read_only=True, config=config)
        try:
            rows, size = connection.execute(_SIZES).fetchall()[0]
            columns = _Columns(rows, size)
            for batch in connection.sql(_ROWS).to_arrow_reader(_ROWS_IN_BATCH):
                columns.append(batch)
        finally:
            connection.close()
    except (duckdb.Error, ValueError, IndexError) as error:
        raise damaged(path) from error
    return columns.finished(path, pattern)


class _Columns:
    """Arrays of their final size, filled from batches: each byte is copied once."""

    def __init__(self, rows: int, size: int) -> None:
        self._word_bytes: NDArray[np.uint8] = np.empty(size, np.uint8)
        self._offsets: NDArray[np.int64] = np.zeros(rows + 1, np.int64)
        self._counts: NDArray[np.int64] = np.empty(rows, np.int64)
        self._positions: NDArray[np.int64] = np.empty(rows, np.int64)
        self._filled = 0

    def append(self, batch: Any) -> None:
        begin, end = self._filled, self._filled + batch.num_rows
        words, counts, positions = batch.columns
        self._counts[begin:end] = counts.to_numpy()
        self._positions[begin:end] = positions.to_numpy()
        _, offsets_buffer, data = words.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[words.offset :][: batch.num_rows + 1]
        first = int(self._offsets[begin])
        self._offsets[begin + 1 : end + 1] = offsets[1:] + (first - offsets[0])
        if offsets[-1] > offsets[0]:
            content = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
            self._word_bytes[first : first + len(content)] = content
        self._filled = end

    def finished(self, path: Path, pattern: SplitPattern) -> tuple[WordCounts, str]:
        if self._filled != len(self._counts) or self._offsets[-1] != len(self._word_bytes):
            raise damaged(path)
        columns = (self._word_bytes, self._offsets, self._counts, self._positions)
        return WordCounts(*columns, pattern), digest_of_bytes(*columns)


def _escaped(path: Path | str) -> str:
    """A path that DuckDB, which takes file names for patterns, reads as itself."""
    return glob.escape(str(path))


def _quoted(text: Path | str) -> str:
    """A string in SQL, for the statements that take no parameters."""
    return "'" + str(text).replace("'", "''") + "'"


def log_of(path: Path) -> Path:
    """Where DuckDB keeps the write-ahead log of a database."""
    return path.with_name(f"{path.name}.wal")


def raise_if_interrupted(error: RuntimeError) -> None:
    """DuckDB answers Ctrl-C with an error of its own; for us it is what it was."""
    if "interrupted" in str(error).lower():
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
