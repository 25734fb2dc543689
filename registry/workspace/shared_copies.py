"""Copies of a workspace's finished files in a store shared by machines.

Shared files are immutable and named by their content: word counts, tables, corpus records,
checkpoints, versions. A file is written to the store before it gets its name here; missing files
are fetched and verified when read. Locks and databases are local: machines that create the same
file create equal ones. All functions raise `StorageError` if the store does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import StorageError

if TYPE_CHECKING:
    from bpeline.registry.workspace.workspace import Workspace

_REQUESTS_AT_ONCE = 16


class _NowhereError(Exception):
    """The store has no such file; not an `OSError`, which would mean the local disk."""


def share(workspace: Workspace, path: Path, content: Path | bytes | None = None) -> None:
    """Copy a file into the store, if the workspace has one.

    Args:
        content: its content, or the temporary file that has it; None if ``path`` exists.
    """
    if workspace.store:
        with _answering(workspace):
            remote_files.write_file(_url(workspace, path), path if content is None else content)


@contextmanager
def writing_shared(workspace: Workspace, path: Path) -> Iterator[Path]:
    """Yield a temporary path; then share its file and rename it to ``path``."""
    with DURABLE.writing_aside(path) as temporary:
        yield temporary
        share(workspace, path, temporary)


def fetch(workspace: Workspace, path: Path) -> bool:
    """Fetch a file from the store if it is missing here; returns whether it exists."""
    is_here = path.exists()
    if is_here or not workspace.store:
        return is_here
    try:
        with DURABLE.writing_aside(path) as temporary, _answering(workspace):
            try:
                remote_files.read_file(_url(workspace, path), temporary)
            except FileNotFoundError as error:
                raise _NowhereError from error
    except _NowhereError:
        return False
    return True


def fetch_all(workspace: Workspace, paths: Iterable[Path]) -> None:
    """Fetch many small files in parallel; skips those that the store does not have."""
    missing = [path for path in paths if not path.exists()] if workspace.store else []
    if missing:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="fetch") as threads:
            list(threads.map(lambda path: fetch(workspace, path), missing))


def try_store(workspace: Workspace) -> None:
    """Test the store: write, look up and remove a small file."""
    path = workspace.temporary / "doctor"  # a fixed name, in case removing it fails
    share(workspace, path, b"written by bpeline doctor")
    with _answering(workspace):
        remote_files.describe(_url(workspace, path))
    forget(workspace, path)


def forget(workspace: Workspace, path: Path) -> None:
    """Remove a file from the workspace and the store."""
    if path.exists():
        DURABLE.remove(path)
    if workspace.store:
        with _answering(workspace):
            remote_files.remove_file(_url(workspace, path))


def forget_directory(workspace: Workspace, directory: Path, last: str) -> None:
    """Remove a directory from the store and the workspace, the file ``last`` first."""
    if workspace.store:
        with _answering(workspace):
            place = _url(workspace, directory)
            for name in sorted(remote_files.names_below(place), key=lambda entry: entry != last):
                remote_files.remove_file(f"{place}/{name}")
    if directory.is_dir():
        DURABLE.remove_tree(directory)


def share_directory(workspace: Workspace, directory: Path, last: str) -> None:
    """Copy all finished files of a directory to the store, ``last`` at the end."""
    if workspace.store:
        files = [file for file in directory.rglob("*") if file.is_file() and not is_temporary(file)]
        for path in sorted(files, key=lambda file: (file == directory / last, file)):
            share(workspace, path)


def fetch_directory(workspace: Workspace, directory: Path, last: str) -> bool:
    """Fetch a missing directory; returns whether it exists (has the file ``last``)."""
    if (directory / last).is_file() or not workspace.store:
        return (directory / last).is_file()
    names = _names_below(workspace, directory)
    if last not in names:
        return False
    fetch_all(workspace, [directory / name for name in names if name != last])
    return fetch(workspace, directory / last)


def fetch_below(workspace: Workspace, directory: Path, suffix: str) -> None:
    """Fetch all files of a directory whose names end in ``suffix``."""
    if workspace.store:
        names = _names_below(workspace, directory)
        fetch_all(workspace, [directory / name for name in names if name.endswith(suffix)])


def names_in_store(workspace: Workspace, directory: Path) -> set[str]:
    """Return the names directly in a directory of the store; empty without a store."""
    names = _names_below(workspace, directory) if workspace.store else []
    return {name.partition("/")[0] for name in names}


def _names_below(workspace: Workspace, directory: Path) -> list[str]:
    """Return the relative paths below a directory of the store, without unsafe ones."""
    with _answering(workspace):
        names = remote_files.names_below(_url(workspace, directory))
    return [name for name in names if ".." not in name.split("/") and not name.startswith("/")]


def share_grown(workspace: Workspace, path: Path) -> None:
    """Copy a growing file to the store, unless the store has a longer copy."""
    if workspace.store and path.exists():
        with _answering(workspace):
            try:
                stored_size = remote_files.describe(_url(workspace, path)).size
            except FileNotFoundError:
                stored_size = 0
        if path.stat().st_size >= stored_size:
            share(workspace, path)


def sharing(
    workspace: Workspace, path: Path, listener: Callable[..., object]
) -> Callable[..., None]:
    """Wrap a listener so that it also copies the growing file ``path`` after changes."""
    shared = _last_change(path)

    def listen(*arguments: Any, **options: Any) -> None:
        nonlocal shared
        listener(*arguments, **options)
        if workspace.store and (now := _last_change(path)) != shared:
            share_grown(workspace, path)
            shared = now

    return listen


def _last_change(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # it is being replaced right now
        return None


def _url(workspace: Workspace, path: Path) -> str:
    return f"{workspace.store.rstrip('/')}/{path.relative_to(workspace.root).as_posix()}"


@contextmanager
def _answering(workspace: Workspace) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _unusable(
            workspace, f"there is no such bucket or directory ({error})", _MEND
        ) from error
    except PermissionError as error:
        raise _unusable(workspace, str(error.strerror or error), _MEND) from error
    except remote_files.RemoteFailure as error:
        raise _unusable(workspace, str(error.strerror or error), _AGAIN) from error


_AGAIN = "run the same command again when it answers: finished work is kept"
_MEND = "fix BPELINE_STORE or the rights of its credentials, and run the same command again"


def _unusable(workspace: Workspace, reason: str, next_step: str) -> StorageError:
    return StorageError(
        f"the store {workspace.store} cannot be used: {reason}",
        "expected a bucket that these credentials may list, read and write; finished files are "
        "kept there and here",
        next_step,
    )
