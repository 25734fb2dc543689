"""Copies of a workspace's finished files in a store that other machines read too.

What is copied is named by its content and written once: word counts, tables, records of corpora,
checkpoints, versions. A file goes to the store before it gets its name here, so what is here is
there as well; what is missing here is fetched. Locks and databases never leave the machine: two
machines that make the same file make equal ones, so neither has to wait. Whoever reads a file
verifies it, wherever it came from.
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
    """The store has no such file; no `OSError`, which would speak of this disk."""


def share(workspace: Workspace, path: Path, content: Path | bytes | None = None) -> None:
    """Copy a file into the store; does nothing where there is none.

    Args:
        workspace: whose file.
        path: where it lies or will lie.
        content: what it will hold, or the file that will get its name; None: it is there.

    Raises:
        StorageError: the store does not take it.
    """
    if workspace.store:
        with _answering(workspace):
            remote_files.write_file(_url(workspace, path), path if content is None else content)


@contextmanager
def writing_shared(workspace: Workspace, path: Path) -> Iterator[Path]:
    """Yield a temporary path; what was written there is shared, then published as ``path``."""
    with DURABLE.writing_aside(path) as temporary:
        yield temporary
        share(workspace, path, temporary)


def fetch(workspace: Workspace, path: Path) -> bool:
    """Whether a file is here, perhaps since now: one that is missing is taken from the store.

    Raises:
        StorageError: the store does not answer.
        DiskFull: no space for it.
    """
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
    """Fetch many small files at once; those that are nowhere are left out."""
    missing = [path for path in paths if not path.exists()] if workspace.store else []
    if missing:
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="fetch") as threads:
            list(threads.map(lambda path: fetch(workspace, path), missing))


def try_store(workspace: Workspace) -> None:
    """Write a small file to the store, read it and remove it.

    Raises:
        StorageError: the store does not answer, or refuses one of these.
    """
    path = workspace.temporary / "doctor"  # always the same one, should it not be removed
    share(workspace, path, b"written by bpeline doctor")
    with _answering(workspace):
        remote_files.describe(_url(workspace, path))
    forget(workspace, path)


def forget(workspace: Workspace, path: Path) -> None:
    """Remove a file here and in the store."""
    if path.exists():
        DURABLE.remove(path)
    if workspace.store:
        with _answering(workspace):
            remote_files.remove_file(_url(workspace, path))


def forget_directory(workspace: Workspace, directory: Path, last: str) -> None:
    """Remove a directory here and in the store, first the file that makes it exist."""
    if workspace.store:
        with _answering(workspace):
            place = _url(workspace, directory)
            for name in sorted(remote_files.names_below(place), key=lambda one: one != last):
                remote_files.remove_file(f"{place}/{name}")
    if directory.is_dir():
        DURABLE.remove_tree(directory)


def share_directory(workspace: Workspace, directory: Path, last: str) -> None:
    """Copy all finished files of a directory, the one named ``last`` after all others."""
    if workspace.store:
        files = [one for one in directory.rglob("*") if one.is_file() and not is_temporary(one)]
        for path in sorted(files, key=lambda one: (one == directory / last, one)):
            share(workspace, path)


def fetch_directory(workspace: Workspace, directory: Path, last: str) -> bool:
    """Whether a directory is here, perhaps since now; ``last`` is what makes it exist."""
    if (directory / last).is_file() or not workspace.store:
        return (directory / last).is_file()
    names = _names_below(workspace, directory)
    if last not in names:
        return False
    fetch_all(workspace, [directory / name for name in names if name != last])
    return fetch(workspace, directory / last)


def fetch_below(workspace: Workspace, directory: Path, suffix: str) -> None:
    """Fetch all files of a directory whose names end in ``suffix``; one nobody has holds none."""
    if workspace.store:
        names = _names_below(workspace, directory)
        fetch_all(workspace, [directory / name for name in names if name.endswith(suffix)])


def names_in_store(workspace: Workspace, directory: Path) -> set[str]:
    """The names directly in a directory of the store; empty where there is no store.

    Raises:
        StorageError: the store does not answer.
    """
    names = _names_below(workspace, directory) if workspace.store else []
    return {name.partition("/")[0] for name in names}


def _names_below(workspace: Workspace, directory: Path) -> list[str]:
    """Of the files that the store has of a directory; none that leads out of it."""
    with _answering(workspace):
        found = remote_files.names_below(_url(workspace, directory))
    return [name for name in found if ".." not in name.split("/") and not name.startswith("/")]


def share_grown(workspace: Workspace, path: Path) -> None:
    """Copy a file that grows, unless another machine's copy has grown further.

    Raises:
        StorageError: the store does not answer.
    """
    if workspace.store and path.exists():
        with _answering(workspace):
            try:
                there = remote_files.describe(_url(workspace, path)).size
            except FileNotFoundError:
                there = 0
        if path.stat().st_size >= there:
            share(workspace, path)


def sharing(
    workspace: Workspace, path: Path, listener: Callable[..., object]
) -> Callable[..., None]:
    """A listener that also copies ``path``, which grows, whenever it was written since."""
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
    except FileNotFoundError:  # its place is taken by its successor in this moment
        return None


def _url(workspace: Workspace, path: Path) -> str:
    return f"{workspace.store.rstrip('/')}/{path.relative_to(workspace.root).as_posix()}"


@contextmanager
def _answering(workspace: Workspace) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise _unusable(workspace, f"there is no such place ({error})", _MEND) from error
    except PermissionError as error:
        raise _unusable(workspace, str(error.strerror or error), _MEND) from error
    except remote_files.RemoteFailure as error:
        raise _unusable(workspace, str(error.strerror or error), _AGAIN) from error


_AGAIN = "run the same command again when it answers: it goes on from there"
_MEND = "mend BPELINE_STORE or the rights of its credentials, and run the same command again"


def _unusable(workspace: Workspace, reason: str, next_step: str) -> StorageError:
    return StorageError(
        f"the store {workspace.store} cannot be used: {reason}",
        "a bucket that these credentials may list, read and write; what is finished is kept there "
        "and here",
        next_step,
    )
