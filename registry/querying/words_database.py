"""Build ``words.duckdb`` in a temporary file and rename it when it is complete.

Readers keep the file they opened; a published file is never modified. So readers and trainings do
not wait for each other. A new file adds what a statement needs and drops what no version needs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.querying.contents import Contents, Part
from bpeline.registry.querying.words_file import held_by, log_of, open_file
from bpeline.registry.workspace import damaged, lock
from bpeline.tokenizer_core.durable_files import DURABLE

if TYPE_CHECKING:
    from bpeline.registry.querying.statements import Statement


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
