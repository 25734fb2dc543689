"""``words.duckdb``: made beside the one that is there, given its name when it is whole.

A reader opens the file that has the name at that moment and keeps it, whatever gets the name later;
nobody ever writes into a file that has it. So readers wait for no training, and no training waits
for them. What a statement needs and the file lacks is added to a copy; what no version needs any
more is left out of it.
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
    """A connection on which a statement finds all it reads; it can reach nothing but this file.

    Args:
        contents: what there is.
        statement: the only one that will run.
        on_adding: told what is added to the file, before it is computed.

    Raises:
        InvalidOption, UnknownVersion: the statement names what there is not.
        CorruptFile: word counts or files of a version are damaged.
        DiskFull, StorageError: what is missing cannot be added.
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
    held = held_by(connection)
    return (
        held is not None
        and held.versions == contents.fingerprint
        and {(one.kind, one.key) for one in needed} <= held.parts.keys()
        and (not with_runs or held.runs == contents.fingerprint_of_runs)
    )


def _made(
    contents: Contents, needed: set[Part], spill: Path, on_adding: Callable[[str], None]
) -> Any:
    """A connection to a file with all parts that are needed, made now."""
    # Not before it is needed: tokenizers and what measures them take most of a second to import.
    from bpeline.registry.querying.words_making import make

    workspace = contents.registry.workspace
    path, aside = workspace.words_database, workspace.words_database_aside
    writable = DURABLE.is_changeable(path) and os.access(workspace.root, os.W_OK)
    if not (writable and workspace.manifest.exists()):
        # A workspace that can only be read: the file lives as long as the statement runs.
        path = aside = spill / path.name
        make(contents, needed, workspace.words_database, aside, spill, on_adding)
        return _opened(path, spill)
    DURABLE.make_directories(aside.parent)
    with lock.holding(aside.parent / "lock", f"making {path.name}", wait=True):
        connection = open_file(path, spill)  # somebody else may have made it while this one waited
        if connection is not None:
            if _suffices(connection, contents, needed, with_runs=True):
                return connection
            connection.close()
        for left in (aside, log_of(aside)):  # of one who was killed
            left.unlink(missing_ok=True)
        try:
            make(contents, needed, path, aside, spill, on_adding)
            DURABLE.publish(aside, path)
        finally:
            for left in (aside, log_of(aside)):
                left.unlink(missing_ok=True)
        return _opened(path, spill)


def _opened(path: Path, spill: Path) -> Any:
    connection = open_file(path, spill)
    if connection is None:
        raise damaged(path)
    return connection
