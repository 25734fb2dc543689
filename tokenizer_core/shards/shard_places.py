"""Where token shards are written to: a directory, or a store by its URL; makes none itself.

In a store a shard is complete when its record is there, as in a directory: its files go first.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import sealed
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource, WorkspaceLocked
from bpeline.tokenizer_core.sealed_manifests import MANIFEST
from bpeline.tokenizer_core.shards.files_of_shards import (
    FilesHere,
    ShardFiles,
    StoredFiles,
    shard_files,
)
from bpeline.tokenizer_core.shards.token_shards import (
    ShardRecord,
    manifest_of,
    read_record,
)

_TRIED = ".bpeline-writes-here"  # written and removed again
# What this program writes; other files that are called shards are other people's.
_OURS = re.compile(r"shard-\d{5,}-[0-9a-f]{12}\..+")


class ShardPlace(Protocol):
    """A place for shards, of which one process of this machine writes to a directory at a time."""

    @property
    def files(self) -> ShardFiles:
        """What lies there; the files of a new shard are written into its ``folder``."""

    def alone(self) -> Any:
        """A block in which to write there; errors that can be known before are raised first."""

    def finished(self, name: str, key: str) -> ShardRecord | None:
        """The record of a shard that is complete."""

    def publish(self, record: ShardRecord) -> None:
        """Say that the files of a shard are complete."""

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        """Say which shards belong together; what no longer belongs to them is removed."""


def shard_place(out: str | Path) -> ShardPlace:
    """A directory, or the store of a URL.

    Example:
        >>> shard_place("s3://bucket/tokens").files.location  # doctest: +SKIP
        's3://bucket/tokens'
    """
    files = shard_files(out)
    return StorePlace(files) if isinstance(files, StoredFiles) else DirectoryPlace(files.folder)


class DirectoryPlace:
    """A directory of this machine, or one that several share."""

    def __init__(self, folder: Path) -> None:
        self.files = FilesHere(folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock on the directory, which the system releases when the process ends."""
        folder = self.files.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidOption(
                f"token shards are to be written to {folder}, and a file lies there",
                "a directory, which is made where there is none",
                "name another one, or move the file",
            ) from error
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WorkspaceLocked(
                    f"another process writes token shards to {folder}",
                    "one at a time",
                    "wait for it, or name another directory",
                ) from error
            yield
        finally:
            os.close(descriptor)

    def finished(self, name: str, key: str) -> ShardRecord | None:
        record = read_record(self.files, name)
        sound = record is not None and record.key == key and record.is_intact(self.files)
        return record if sound else None

    def publish(self, record: ShardRecord) -> None:
        DURABLE.write(self.files.path(f"{record.name}.json"), _sealed(record))

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        folder = self.files.folder
        DURABLE.write(folder / MANIFEST, manifest_of(about, records))
        names = _names_of(records)
        for file in folder.iterdir():
            stale = _OURS.fullmatch(file.name) and file.name not in names
            if stale or is_temporary(file):
                DURABLE.remove(file)


class StorePlace:
    """A store, into which complete shards are moved from a temporary directory.

    Nothing keeps two machines from writing there at once: what both make of the same files is
    equal, and of others the last to end is refused. What the store holds is compared by size;
    `TokenShards.verify` reads it.
    """

    def __init__(self, files: StoredFiles) -> None:
        self.files = files
        self._found: Set[str] = frozenset()
        self._manifest = b""

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a store that takes nothing, before anything is encoded; see what is there."""
        self.files.put(_TRIED, b"")
        self.files.remove(_TRIED)
        self._found, self._manifest = self.files.sizes().keys(), self._manifest_now()
        yield

    def finished(self, name: str, key: str) -> ShardRecord | None:
        self.files.forget(f"{name}.json")
        record = read_record(self.files, name)
        sound = record is not None and record.key == key and record.is_there(self.files)
        return record if sound else None

    def publish(self, record: ShardRecord) -> None:
        for file in record.files:
            self.files.put(file.name)
        self.files.put(f"{record.name}.json", _sealed(record))
        for file in record.files:
            self.files.forget(file.name)

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        manifest = manifest_of(about, records)
        if self._manifest_now() not in (self._manifest, manifest):
            raise WorkspaceLocked(
                f"another process has written token shards to {self.files.location} meanwhile",
                "one at a time, unless both encode the same files in the same way",
                "name another URL and type the same command again",
            )
        self.files.put(MANIFEST, manifest)
        for name in self._found - _names_of(records):  # what came since is another process's
            if _OURS.fullmatch(name):
                self.files.remove(name)

    def _manifest_now(self) -> bytes:
        self.files.forget(MANIFEST)
        try:
            return read_file(self.files.path(MANIFEST))
        except MissingSource:
            return b""


def _sealed(record: ShardRecord) -> bytes:
    return json.dumps(sealed(asdict(record))).encode()


def _names_of(records: Sequence[ShardRecord]) -> set[str]:
    names = {f"{record.name}.json" for record in records}
    return names | {file.name for record in records for file in record.files}
