"""The files of token shards where they lie: a directory, or a store by its URL; reads none.

A file of a store is fetched when it is asked for, and kept on this disk until it is forgotten.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import MissingSource, StorageError
from bpeline.tokenizer_core.urls import is_url, local_name

_PREFIX = "bpeline-shards-"
_MAKING_SECONDS = 60.0  # a younger directory may be one that is not locked yet


class ShardFiles(Protocol):
    """Files by their names.

    Attributes:
        location: the directory or the URL, as people name it.
    """

    location: str

    @property
    def folder(self) -> Path:
        """The directory of this machine in which they lie, or copies of some of them."""

    def sizes(self) -> dict[str, int]:
        """The bytes of each."""

    def size(self, name: str) -> int | None:
        """The bytes of one; None where there is none."""

    def path(self, name: str) -> Path:
        """One on this disk."""

    def forget(self, name: str) -> None:
        """One is no longer needed on this disk, if it lies elsewhere."""


def shard_files(location: str | Path) -> ShardFiles:
    """Files in a directory, or in a store where a URL is named.

    Raises:
        InvalidOption: a scheme that is not known or not installed, or a password in the URL; when
            the store is asked first.
    """
    name = local_name(str(location))
    return StoredFiles(name) if is_url(name) else FilesHere(Path(name))


class FilesHere:
    """Files in a directory of this machine."""

    def __init__(self, folder: Path) -> None:
        self.location, self._folder = str(folder), folder

    @property
    def folder(self) -> Path:
        return self._folder

    def sizes(self) -> dict[str, int]:
        found = {path.name: self.size(path.name) for path in self._folder.iterdir()}
        return {name: size for name, size in found.items() if size is not None}

    def size(self, name: str) -> int | None:
        try:
            return (self._folder / name).stat().st_size
        except OSError:
            return None

    def path(self, name: str) -> Path:
        return self._folder / name

    def forget(self, name: str) -> None:
        pass


class StoredFiles:
    """Files below a URL; copies lie in a temporary directory that goes away with this object.

    The directory of a process that was killed goes when the next such object of its user is made: a
    library cannot do it sooner, for how a process ends at a signal is its program's to say. A
    process that was forked, such as a worker of a data loader, has a directory in it of its own:
    each forgets files when it needs them no more.

    Raises:
        StorageError: every method, where the store does not answer or refuses.
    """

    def __init__(self, url: str) -> None:
        self.location = url.rstrip("/")
        self._owner = os.getpid()
        _remove_abandoned()
        self._held = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _locked(self._held)
        weakref.finalize(self, _remove, self._held, self._owner, lock)

    @property
    def folder(self) -> Path:
        process = os.getpid()
        return self._held if process == self._owner else self._held / str(process)

    def sizes(self) -> dict[str, int]:
        with self._asking():
            found = remote_files.find_remote_files(self.location, lambda name: "/" not in name)
        return {file.url.rpartition("/")[2]: file.size for file in found}

    def size(self, name: str) -> int | None:
        with self._asking():
            try:
                return remote_files.describe(self._url(name)).size
            except FileNotFoundError:
                return None

    def path(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            self.copy(name, path)
        return path

    def copy(self, name: str, path: Path) -> None:
        with DURABLE.writing_aside(path) as aside, self._asking():
            try:
                remote_files.read_file(self._url(name), aside)
            except FileNotFoundError as error:
                raise MissingSource(
                    f"there is no {name} in {self.location}",
                    "the URL of token shards",
                    "check the spelling",
                ) from error

    def forget(self, name: str) -> None:
        path = self.folder / name
        if path.exists():
            DURABLE.remove(path)

    def put(self, name: str, content: bytes | None = None) -> None:
        """Store a file of the folder, or what it would hold."""
        with self._asking():
            try:
                remote_files.write_file(
                    self._url(name), self.folder / name if content is None else content
                )
            except FileNotFoundError as error:
                raise remote_files.RemoteFailure(str(error)) from error

    def remove(self, name: str) -> None:
        """Remove a file from the store."""
        with self._asking():
            remote_files.remove_file(self._url(name))

    def _url(self, name: str) -> str:
        return f"{self.location}/{name}"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (PermissionError, remote_files.RemoteFailure) as error:
            raise StorageError(
                f"the store of {self.location} cannot be used: {error.strerror or error}",
                "a place that these credentials may list, read and write",
                "run the same command again when it answers: shards that were finished stay",
            ) from error


def _remove(held: Path, owner: int, lock: int | None) -> None:
    """Remove the copies, unless this is a fork of the process that reads them."""
    if os.getpid() == owner:
        shutil.rmtree(held, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """The lock of a directory, for as long as this process or a fork of it lives; None if held."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody's, or a file system without locks
        os.close(lock)
        return None
    return lock


def _remove_abandoned() -> None:
    """Remove the directories of this user's processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _MAKING_SECONDS:
                continue
            lock = _locked(folder)
        except OSError:  # no directory, or gone meanwhile
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
