"""The one way a file becomes durable: aside, synced, renamed, directory synced.

After a crash a reader finds the old file or the new one, never a part. Nothing else in the
project opens a file for writing. `DurableFiles` says in which order things are done, `Disk` does
them one by one: a process that runs `on` another disk counts them, or lets them fail.
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
    """The operations that change what a disk holds; each is done when it returns, or raises."""

    def make_directory(self, path: Path) -> None:
        """Make one directory; one that is there already is fine."""
        path.mkdir(exist_ok=True)

    def create(self, path: Path, content: Content) -> None:
        """Write a new file; the umask decides who may read it."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "wb", closefd=True) as file:
            file.write(content)

    def sync(self, path: Path) -> None:
        """Wait until a file's content, or a directory's entries, are on the medium."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, in the place of one that may be there; or a directory."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is gone already is fine."""
        path.unlink(missing_ok=True)


class DurableFiles:
    """What a process writes to stay.

    Attributes:
        disk: where the operations go.

    Raises:
        StorageError: every method, where the disk refuses.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._passing: set[Path] = set()
        self._unchanged: dict[Path, NotTrusted] = {}

    def keep_unchanged(self, directory: Path, reason: NotTrusted | None) -> None:
        """Let this process change nothing in a directory; None allows changes again."""
        for path in (directory, Path(os.path.realpath(directory))):
            if reason is None:
                self._unchanged.pop(path, None)
            else:
                self._unchanged[path] = reason

    def is_changeable(self, path: Path) -> bool:
        """Whether a path is in no directory of `keep_unchanged`."""
        return not any(path.is_relative_to(directory) for directory in list(self._unchanged))

    def require_changeable(self, path: Path) -> None:
        """Raise `NotTrusted` for a path in a directory of `keep_unchanged`."""
        for directory, reason in list(self._unchanged.items()):
            if path.is_relative_to(directory):
                raise NotTrusted(reason.happened, reason.accepted, reason.next_step)

    def write(self, path: Path, content: Content) -> None:
        """Replace ``path`` by ``content`` atomically and durably.

        Raises:
            DiskFull: no space; ``path`` still holds what it held before.
            StorageError: it cannot be written for another reason; likewise.
        """
        with self.writing_aside(path) as temporary:
            self.disk.create(temporary, content)

    @contextmanager
    def writing_aside(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path in the same directory; publish it as ``path`` on success.

        For writers that insist on opening the file themselves (DuckDB, Parquet).

        Raises:
            DiskFull, StorageError: as `write`.
        """
        temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{path.name}")
        try:
            with _told_of(path):
                self.make_directories(path.parent)
                yield temporary
                self.publish(temporary, path)
        finally:
            with suppress(OSError):  # what cannot be removed now is swept by the next run
                temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, path: Path) -> None:
        """Sync a finished temporary file, give it its name, sync the directory."""
        self._sync(temporary)
        self.disk.replace(temporary, path)
        self._sync(path.parent)

    def sync(self, directory: Path) -> None:
        """Make the entries of a directory durable that others have made."""
        with _told_of(directory):
            self._sync(directory)

    def make_directories(self, path: Path) -> None:
        """Make a directory, and those above it that are missing; each survives a power loss.

        A file that is synced in a directory whose own entry is not is lost along with it.
        """
        if path.is_dir():
            return
        self.require_changeable(path)
        self.make_directories(path.parent)
        self.disk.make_directory(path)
        self._sync(path.parent)

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file that is durable already; durable when its directory is synced next."""
        with _told_of(target):
            self.disk.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file for good."""
        with _told_of(path):
            self.disk.remove(path)
            self._sync(path.parent)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory for good: from one moment to the next, nothing of it is there."""
        aside = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{path.name}")
        with _told_of(path):
            self.disk.replace(path, aside)
            self._sync(path.parent)
            shutil.rmtree(aside, ignore_errors=True)  # what is left of it is swept

    @contextmanager
    def passing(self, directory: Path) -> Iterator[None]:
        """Sync nothing below a directory that ends with the block, or a power loss ends for it.

        What is in there and is to stay must be copied, never renamed, to where it stays.
        """
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
        """Let all of this process's operations go to another disk for a while."""
        usual, self.disk = self.disk, disk
        try:
            yield
        finally:
            self.disk = usual


DURABLE = DurableFiles(Disk())


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    """Turn what a disk refuses into an error that names the file and says what to do."""
    DURABLE.require_changeable(path)
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(
                f"no space left while writing {path}",
                "the file keeps its earlier content",
                f"free some space on the disk of {path.parent} and run the same command again",
            ) from error
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}",
            "a directory that the current user may write to, on a disk without errors",
            f"look at the disk of {path.parent}, then run the same command again",
        ) from error


def is_temporary(path: Path) -> bool:
    """Whether a file is the leftover of a writer that was killed."""
    return path.name.startswith(_TEMPORARY)
