"""The door to DuckDB: connections that load and fetch nothing. Knows no tables of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

Settings = Mapping[str, str | bool | int | float | list[str]]
_CLOSED: Settings = {  # nothing is fetched, nothing is loaded, nothing of Python's is looked at
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}
# Of files made here: clients since this one read them, the command line's among them.
READ_SINCE: Settings = {"storage_compatibility_version": "v1.4.0"}
_connections: WeakSet[Any] = WeakSet()  # those that are open
_INTERRUPTED = re.compile(r"[Ii]nterrupted|KeyboardInterrupt|(?:Terminated|TerminationSignal): *$")


def library() -> Any:
    """The module `duckdb`, for its exceptions; importing it takes a moment."""
    import duckdb

    return duckdb


def connect(
    path: Path | None, settings: Settings, *, read_only: bool = False, files: bool = False
) -> Any:
    """Open a database; call `settle` before anybody else's SQL runs on the connection.

    Args:
        path: the file; None for a database in memory.
        settings: of DuckDB, further ones.
        read_only: whether nothing is to be written.
        files: whether SQL may reach other files than this one.
    """
    config = {**_CLOSED, **settings, "enable_external_access": files}
    connection = library().connect(path or ":memory:", read_only=read_only, config=config)
    _connections.add(connection)
    return connection


def interrupt_queries() -> None:
    """Let each query that runs now end with an error: some do not look for Ctrl-C themselves."""
    for connection in list(_connections):
        with suppress(library().Error):  # it is closed
            connection.interrupt()


def settle(connection: Any) -> None:
    """The settings of every connection, before they are locked."""
    # After two seconds DuckDB would draw a bar into standard output, which is ours. In a notebook
    # without ipywidgets it draws none, and refuses even to be told so.
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()[0]:
        connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")


def raise_if_interrupted(error: Exception) -> None:
    """DuckDB answers Ctrl-C with an error of its own; for us it is what it was.

    One that comes while DuckDB reads rows of ours is told by the name of Python's exception.
    """
    if _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from error
