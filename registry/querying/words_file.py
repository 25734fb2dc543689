"""Open ``words.duckdb`` read-only, without access to other files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.registry.closed_duckdb import connect, library, log_of, raise_if_interrupted, settle
from bpeline.registry.querying.layout import FORMAT
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.machine import machine_memory

_LEAST_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True)
class Held:
    """The contents of a file.

    Attributes:
        parts: (kind, key) → number.
        versions, runs: fingerprints of the data in its tables.
    """

    parts: dict[tuple[str, str], int]
    versions: str
    runs: str


def open_file(path: Path, spill: Path) -> Any | None:
    """Return a read-only connection; None if there is no DuckDB file.

    Raises:
        StorageError: another program has it open for writing.
    """
    log = log_of(path)
    if log.exists():
        raise _written_by_others(path)
    if not path.exists():
        return None
    # Attached instead of opened, so that the process may have the file open already.
    connection = connect(None, settings(spill), files=True)
    duckdb = library()
    try:
        connection.execute(f"ATTACH {quoted(path)} AS words (READ_ONLY)")
        connection.execute("USE words")
        connection.execute("SET enable_external_access = false")
        settle(connection)
    except duckdb.Error as error:
        connection.close()
        raise_if_interrupted(error)
        if isinstance(error, duckdb.IOException) and "lock" in str(error):
            raise _written_by_others(path) from error
        return None
    return connection


def held_by(connection: Any) -> Held | None:
    """Return the contents of an open file; None if it has another format."""
    try:
        rows = connection.execute("SELECT format, versions, runs FROM stored.state").fetchall()
        if len(rows) != 1 or rows[0][0] != FORMAT:
            return None
        parts = connection.execute("SELECT kind, key, part FROM stored.parts").fetchall()
    except library().Error as error:
        raise_if_interrupted(error)
        return None
    return Held({(kind, key): part for kind, key, part in parts}, rows[0][1], rows[0][2])


def held_in(path: Path, spill: Path) -> Held | None:
    """Return the contents of a file; None if it is missing or has another format."""
    connection = open_file(path, spill)
    if connection is None:
        return None
    try:
        return held_by(connection)
    finally:
        connection.close()


def quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def settings(spill: Path) -> dict[str, str | bool | int | float | list[str]]:
    """Return the settings of a connection; ``spill`` must not be shared."""
    memory = max(_LEAST_MEMORY, machine_memory() // 2)
    return {
        "memory_limit": f"{memory}B",
        "temp_directory": str(spill / "spill"),  # sharing it would corrupt it
        "arrow_large_buffer_size": True,
    }


def _written_by_others(path: Path) -> StorageError:
    return StorageError(
        f"another program has opened {path} for writing",
        "expected read-only access: the file is generated, and changes to it would be lost",
        f"end that program, remove {path.name}.wal if it is there, and open the file with "
        f"`duckdb -readonly {shlex.quote(str(path))}`",
    )
