"""Places of token shards: a directory or a store, with records and a manifest.

For each shard, a place holds the files of its format (see `shard_formats`), those of its documents
(`token_shards`), and

    NAME.json   its record: what it was made from, its counts, the SHA-256 of each of its files;
                written last, so a shard with a record is complete

manifest.json has the records of all shards, their sums, the tokenizer's digest and the settings. A
file of a store is fetched on demand, and kept on this disk until it is forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, Protocol

from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, read_file
from bpeline.tokenizer_core.digests import MANIFEST, read_sealed_manifest, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
    MissingSource,
    StorageError,
    WorkspaceLocked,
)
from bpeline.tokenizer_core.shards.shard_formats import sha256_of
from bpeline.tokenizer_core.urls import is_url, local_name

_MOST = 1 << 48  # bytes, ids or documents of a shard, so that sums fit in 64 bits
_PREFIX = "bpeline-shards-"
_MAKING_SECONDS = 60.0  # a younger directory may not be locked yet

FORMAT = "bpeline-tokens"
FORMAT_VERSION = 2  # 1 has no document index
_DTYPES = ("uint16", "uint32", "int32")
_MANIFEST_BYTES = 1 << 30  # each shard takes half a kilobyte

_TRIED = ".bpeline-writes-here"  # a test file, written and removed
# Names of files that bpeline writes; others are never removed.
_OURS = re.compile(r"shard-\d{5,}-[0-9a-f]{12}\..+")


class ShardPlace(Protocol):
    """A place for shards; one process of this machine writes to a directory at a time."""

    location: str

    @property
    def folder(self) -> Path:
        """The local directory of the files or of copies; new shards are written into it."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file."""

    def size(self, name: str) -> int | None:
        """Return the bytes of one file; None if it does not exist."""

    def path(self, name: str) -> Path:
        """Return the path of one file on this disk; fetch it if it is remote."""

    def forget(self, name: str) -> None:
        """Remove the local copy of a remote file."""

    def alone(self) -> Any:
        """Return a context to write in; raises errors that can be foreseen first."""

    def finished(self, name: str, key: str) -> ShardRecord | None:
        """Return the record of a shard if it is complete."""

    def publish(self, record: ShardRecord) -> None:
        """Mark the files of a shard as complete."""

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        """Write the manifest, and remove files that do not belong to it."""


def shard_place(location: str | Path) -> ShardPlace:
    """Return the place for a directory or a URL.

    Raises:
        InvalidOption: a scheme that is unknown or not installed, or a password in the URL; raised
            at the first access to the store.

    Example:
        >>> shard_place("s3://bucket/tokens").location  # doctest: +SKIP
        's3://bucket/tokens'
    """
    name = local_name(str(location))
    return StorePlace(name) if is_url(name) else DirectoryPlace(Path(name))


class DirectoryPlace:
    """A local directory, or one that several machines share."""

    def __init__(self, folder: Path) -> None:
        self.location, self.folder = str(folder), folder

    def sizes(self) -> dict[str, int]:
        sizes = {path.name: self.size(path.name) for path in self.folder.iterdir()}
        return {name: size for name, size in sizes.items() if size is not None}

    def size(self, name: str) -> int | None:
        try:
            return (self.folder / name).stat().st_size
        except OSError:
            return None

    def path(self, name: str) -> Path:
        return self.folder / name

    def forget(self, name: str) -> None:
        pass

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the directory; the system unlocks it when the process ends."""
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidOption(
                f"token shards cannot be written to {folder}: a file is in the way",
                "expected a directory, which is created if it is missing",
                "choose another directory, or move the file",
            ) from error
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WorkspaceLocked(
                    f"another process is writing token shards to {folder}",
                    "expected one process at a time",
                    "wait for it, or choose another directory",
                ) from error
            yield
        finally:
            os.close(descriptor)

    def finished(self, name: str, key: str) -> ShardRecord | None:
        record = read_record(self, name)
        is_valid = record is not None and record.key == key and record.is_intact(self)
        return record if is_valid else None

    def publish(self, record: ShardRecord) -> None:
        DURABLE.write(self.path(f"{record.name}.json"), _sealed(record))

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        folder = self.folder
        DURABLE.write(folder / MANIFEST, manifest_of(about, records))
        names = _names_of(records)
        for file in folder.iterdir():
            stale = _OURS.fullmatch(file.name) and file.name not in names
            if stale or is_temporary(file):
                DURABLE.remove(file)


class StorePlace:
    """A store below a URL; copies of its files are in a temporary directory.

    Complete shards are moved to the store, the record last. Two machines may write at the same
    time: shards of the same files are equal, and with different files the last writer is refused.
    Files of the store are compared by size; `TokenShards.verify` reads them.

    The temporary directory is removed with this object. If its process was killed, the next such
    object of the same user removes it. A forked process, such as a worker of a data loader, has a
    subdirectory of its own.

    Raises:
        StorageError: every method, if the store does not respond or refuses.
    """

    def __init__(self, url: str) -> None:
        self.location = url.rstrip("/")
        self._owner = os.getpid()
        _remove_abandoned()
        self._held = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _locked(self._held)
        weakref.finalize(self, _remove_copies, self._held, self._owner, lock)
        self._found: Set[str] = frozenset()
        self._manifest = b""

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
                    "expected the URL of token shards",
                    "check the spelling",
                ) from error

    def forget(self, name: str) -> None:
        path = self.folder / name
        if path.exists():
            DURABLE.remove(path)

    def put(self, name: str, content: bytes | None = None) -> None:
        """Store a file of the folder, or ``content`` under its name."""
        with self._asking():
            try:
                remote_files.write_file(
                    self._url(name), self.folder / name if content is None else content
                )
            except FileNotFoundError as error:
                raise remote_files.RemoteFailure(str(error)) from error

    def remove(self, name: str) -> None:
        with self._asking():
            remote_files.remove_file(self._url(name))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a store that is not writable, and remember what is there."""
        self.put(_TRIED, b"")
        self.remove(_TRIED)
        self._found, self._manifest = self.sizes().keys(), self._manifest_now()
        yield

    def finished(self, name: str, key: str) -> ShardRecord | None:
        self.forget(f"{name}.json")
        record = read_record(self, name)
        is_valid = record is not None and record.key == key and record.is_there(self)
        return record if is_valid else None

    def publish(self, record: ShardRecord) -> None:
        for file in record.files:
            self.put(file.name)
        self.put(f"{record.name}.json", _sealed(record))
        for file in record.files:
            self.forget(file.name)

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        manifest = manifest_of(about, records)
        if self._manifest_now() not in (self._manifest, manifest):
            raise WorkspaceLocked(
                f"another process has written token shards to {self.location} meanwhile",
                "expected one process at a time, unless both encode the same files in the same way",
                "choose another URL, and run the same command again",
            )
        self.put(MANIFEST, manifest)
        for name in self._found - _names_of(records):  # newer files belong to another process
            if _OURS.fullmatch(name):
                self.remove(name)

    def _manifest_now(self) -> bytes:
        self.forget(MANIFEST)
        try:
            return read_file(self.path(MANIFEST))
        except MissingSource:
            return b""

    def _url(self, name: str) -> str:
        return f"{self.location}/{name}"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (PermissionError, remote_files.RemoteFailure) as error:
            raise StorageError(
                f"the store of {self.location} cannot be used: {error.strerror or error}",
                "expected a store that these credentials may list, read and write",
                "run the same command again when it responds; finished shards are kept",
            ) from error


def _remove_copies(held: Path, owner: int, lock: int | None) -> None:
    """Remove the copies, unless this process is a fork."""
    if os.getpid() == owner:
        shutil.rmtree(held, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """Lock a directory for the life of this process and its forks; None if it fails."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or a file system without locks
        os.close(lock)
        return None
    return lock


def _remove_abandoned() -> None:
    """Remove the directories of this user's processes that no longer run."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _MAKING_SECONDS:
                continue
            lock = _locked(folder)
        except OSError:  # not a directory, or removed meanwhile
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a shard, as it was written."""

    name: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, value: Any) -> FileRecord | None:
        """Parse a record from JSON; None if it is malformed."""
        return cls(**value) if _holds(value, cls, ("name", "sha256"), ("bytes",)) else None

    def is_there(self, place: ShardPlace) -> bool:
        """Whether the file exists and has its size."""
        return place.size(self.name) == self.bytes

    def is_intact(self, place: ShardPlace) -> bool:
        """Whether the file has its SHA-256."""
        return self.is_there(place) and sha256_of(place.path(self.name)) == self.sha256


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """The record of one shard.

    Attributes:
        key: digest of everything that its content depends on.
        end: where it ends in its source, in bytes of text; 0 for a shard of whole files.
        tokens, documents, bytes: ids (with end-of-text ids), documents, bytes of their text.
        files: the ids, other files of the format, then the document index.
    """

    name: str
    key: str
    end: int
    tokens: int
    documents: int
    bytes: int
    files: tuple[FileRecord, ...]

    @classmethod
    def of(cls, value: Any) -> ShardRecord | None:
        """Parse a record from JSON; None if it is malformed."""
        counts = ("end", "tokens", "documents", "bytes")
        if not _holds(value, cls, ("name", "key"), counts) or not isinstance(value["files"], list):
            return None
        files = [FileRecord.of(file) for file in value["files"]]
        return cls(**{**value, "files": tuple(files)}) if files and None not in files else None

    def is_there(self, place: ShardPlace) -> bool:
        return all(file.is_there(place) for file in self.files)

    def is_intact(self, place: ShardPlace) -> bool:
        return all(file.is_intact(place) for file in self.files)


def read_record(place: ShardPlace, name: str) -> ShardRecord | None:
    """Return the record of a finished shard, or None."""
    try:
        path = place.path(f"{name}.json")
        value = json_of(read_bounded(path), path)
        return ShardRecord.of(unsealed(value) if isinstance(value, dict) else value)
    except (MissingSource, InvalidTokenizer, ValueError):
        return None


def read_manifest(place: ShardPlace) -> dict[str, Any]:
    """Read the manifest of token shards, without a cached copy, and check its shape.

    Raises:
        MissingSource: there is none.
        CorruptFile, InvalidTokenizer: it is malformed, or of an unknown format version.
    """
    place.forget(MANIFEST)
    location = place.location

    def corrupt(_folder: Path, problem: str) -> NoReturn:
        refuse_corrupt(location, problem)

    folder = place.path(MANIFEST).parent
    manifest = read_sealed_manifest(
        folder, FORMAT, FORMAT_VERSION, corrupt, most_bytes=_MANIFEST_BYTES, called=location
    )
    special = manifest.get("special_tokens", {})
    if not isinstance(special, dict) or not all(type(id) is int for id in special.values()):
        refuse_corrupt(location, f"{MANIFEST} has malformed special tokens")
    texts = all(isinstance(manifest.get(field), str) for field in ("tokenizer", "shard_format"))
    if not texts or manifest.get("dtype") not in _DTYPES:
        refuse_corrupt(location, f"{MANIFEST} has malformed fields")
    return manifest


def manifest_of(about: Mapping[str, Any], records: Sequence[ShardRecord]) -> bytes:
    """Return the content of a manifest: shards, their sums and settings."""
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **about,
        "documents": sum(record.documents for record in records),
        "tokens": sum(record.tokens for record in records),
        "bytes": sum(record.bytes for record in records),
        "shards": [asdict(record) for record in records],
    }
    return (json.dumps(sealed(manifest), indent=1) + "\n").encode()


def _holds(value: Any, record: type, texts: Sequence[str], counts: Sequence[str]) -> bool:
    """Whether JSON has the fields of a record, and a name without a path."""
    return (
        isinstance(value, dict)
        and value.keys() == {field.name for field in fields(record)}
        and all(isinstance(value[field], str) for field in texts)
        and all(type(value[field]) is int and 0 <= value[field] < _MOST for field in counts)
        and bool(value["name"])
        and not set(value["name"]) & set("/\\\0")
    )


def refuse_corrupt(location: str, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{location}: {problem}",
        "expected the files as they were written",
        "encode the files again",
    )


def _sealed(record: ShardRecord) -> bytes:
    return json.dumps(sealed(asdict(record))).encode()


def _names_of(records: Sequence[ShardRecord]) -> set[str]:
    names = {f"{record.name}.json" for record in records}
    return names | {file.name for record in records for file in record.files}
