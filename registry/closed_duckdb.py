"""DuckDB connections that cannot load extensions or download anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

Settings = Mapping[str, str | bool | int | float | list[str]]
_CLOSED: Settings = {  # no downloads, no extensions, no reads of Python variables
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}
# For the files we write: DuckDB 1.4.0 and later can read them, its command line included.
READ_SINCE: Settings = {"storage_compatibility_version": "v1.4.0"}
_connections: WeakSet[Any] = WeakSet()
_INTERRUPTED = re.compile(r"[Ii]nterrupted|KeyboardInterrupt|(?:Terminated|TerminationSignal): *$")


def library() -> Any:
    """Import the module `duckdb`; importing it is slow."""
    import duckdb

    return duckdb


def connect(
    path: Path | None, settings: Settings, *, read_only: bool = False, files: bool = False
) -> Any:
    """Open a database; call `settle` before running SQL from a user.

    Args:
        path: None for a database in memory.
        files: whether SQL may access other files.
    """
    config = {**_CLOSED, **settings, "enable_external_access": files}
    connection = library().connect(path or ":memory:", read_only=read_only, config=config)
    _connections.add(connection)
    return connection


def log_of(path: Path) -> Path:
    """Return the path of the write-ahead log of a DuckDB database."""
    return path.with_name(f"{path.name}.wal")


def interrupt_queries() -> None:
    """Make running queries fail; some of them do not react to Ctrl-C."""
    for connection in list(_connections):
        with suppress(library().Error):  # already closed
            connection.interrupt()


def settle(connection: Any) -> None:
    """Apply the settings of every connection, then lock them."""
    # The progress bar would go to standard output. In a notebook without ipywidgets it is off
    # already, and DuckDB rejects the SET.
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()[0]:
        connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")


def raise_if_interrupted(error: Exception) -> None:
    """Raise KeyboardInterrupt if Ctrl-C caused this DuckDB error."""
    if _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from error
