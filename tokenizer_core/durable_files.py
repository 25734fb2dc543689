"""Atomic, durable file writes: temporary file, fsync, rename, fsync again.

After a crash, readers find the old file or the new one. All files of the project are written here.
`Disk` has the single operations; tests replace it with `DurableFiles.on` to count them or make them
fail.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bpeline.tokenizer_core.errors import DiskFull, NotTrusted, StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TEMPORARY = ".tmp-"

Content = bytes | bytearray | memoryview


class Disk:
    """File system operations that change the disk; each is complete when it returns."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def create(self, path: Path, content: Content) -> None:
        """Write a new file with the permissions of the umask."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "wb", closefd=True) as file:
            file.write(content)

    def sync(self, path: Path) -> None:
        """Flush a file or the entries of a directory to disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


class DurableFiles:
    """Durable file operations of this process; failures raise `StorageError`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._passing: set[Path] = set()
        self._unchanged: dict[Path, NotTrusted] = {}

    def keep_unchanged(self, directory: Path, reason: NotTrusted | None) -> None:
        """Forbid changes in a directory, for this reason; None allows them again."""
        for path in (directory, Path(os.path.realpath(directory))):
            if reason is None:
                self._unchanged.pop(path, None)
            else:
                self._unchanged[path] = reason

    def is_changeable(self, path: Path) -> bool:
        """Return whether a path is outside the directories of `keep_unchanged`."""
        return not any(path.is_relative_to(directory) for directory in list(self._unchanged))

    def require_changeable(self, path: Path) -> None:
        """Raise `NotTrusted` for a path in a directory of `keep_unchanged`."""
        for directory, reason in list(self._unchanged.items()):
            if path.is_relative_to(directory):
                raise NotTrusted(reason.happened, reason.accepted, reason.next_step)

    def write(self, path: Path, content: Content) -> None:
        """Replace the content of ``path`` atomically and durably.

        Raises:
            DiskFull, StorageError: it cannot be written; ``path`` keeps its previous content.
        """
        with self.writing_aside(path) as temporary:
            self.disk.create(temporary, content)

    @contextmanager
    def writing_aside(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path, renamed to ``path`` on success; see `write`.

        For libraries that open the file themselves (DuckDB, Parquet).
        """
        temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{path.name}")
        try:
            with _told_of(path):
                self.make_directories(path.parent)
                yield temporary
                self.publish(temporary, path)
        finally:
            with suppress(OSError):  # the next run removes leftovers
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, path: Path) -> None:
        """Sync a finished temporary file, rename it, and sync the directory."""
        self._sync(temporary)
        self.disk.replace(temporary, path)
        self._sync(path.parent)

    def sync(self, directory: Path) -> None:
        """Make directory entries durable that other code created."""
        with _told_of(directory):
            self._sync(directory)

    def make_directories(self, path: Path) -> None:
        """Create a directory and its missing parents durably."""
        if path.is_dir():
            return
        self.require_changeable(path)
        self.make_directories(path.parent)
        # The parent is synced, because a synced file is lost with the entry of its directory.
        self.disk.make_directory(path)
        self._sync(path.parent)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a durable file; durable after the next sync of the directory."""
        with _told_of(target):
            self.disk.replace(source, target)

    def remove(self, path: Path) -> None:
        with _told_of(path):
            self.disk.remove(path)
            self._sync(path.parent)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory durably and atomically."""
        aside = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{path.name}")
        with _told_of(path):
            self.disk.replace(path, aside)
            self._sync(path.parent)
            shutil.rmtree(aside, ignore_errors=True)  # the next run removes leftovers

    @contextmanager
    def passing(self, directory: Path) -> Iterator[None]:
        """Skip syncs below a temporary directory; copy what must survive."""
        self._passing.add(directory)
        try:
            yield
        finally:
            self._passing.discard(directory)

    def _sync(self, path: Path) -> None:
        if self._passing.isdisjoint((path, *path.parents)):
            self.disk.sync(path)

    @contextmanager
    def on(self, disk: Disk) -> Iterator[None]:
        """Redirect all operations of this process to another disk during the block."""
        usual, self.disk = self.disk, disk
        try:
            yield
        finally:
            self.disk = usual


DURABLE = DurableFiles(Disk())


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Turn `OSError` into `DiskFull` or `StorageError`, naming the file."""
    DURABLE.require_changeable(path)
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                f"no space left while writing {path}",
                "the file keeps its previous content",
                f"free space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}",
            "expected a directory that the current user can write to, on a disk without errors",
            f"check the disk of {path.parent}, then run the same command again",
        ) from error


def is_temporary(path: Path) -> bool:
    """Return whether a file was left by a killed writer."""
    return path.name.startswith(_TEMPORARY)
