"""Where token shards are: their files in a directory or a store, their records, one manifest.

A place holds, for each shard, the files of its format (see `shard_formats`), those of its documents
(`token_shards`), and

    NAME.json   its record: what it was made from, its counts, the SHA-256 of each of its files;
                written last, so it vouches for them

and manifest.json with the records of all shards, their sums, the tokenizer's digest and the
settings. A file of a store is fetched when it is asked for, and kept on this disk until it is
forgotten.
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

_MOST = 1 << 48  # bytes, ids or documents of a shard: sums of them fit in 64 bits
_PREFIX = "bpeline-shards-"
_MAKING_SECONDS = 60.0  # a younger directory may be one that is not locked yet

FORMAT = "bpeline-tokens"
FORMAT_VERSION = 2  # 1 has no document index
_DTYPES = ("uint16", "uint32", "int32")
_MANIFEST_BYTES = 1 << 30  # half a kilobyte for each shard

_TRIED = ".bpeline-writes-here"  # written and removed again
# What this program writes; other files that are called shards are other people's.
_OURS = re.compile(r"shard-\d{5,}-[0-9a-f]{12}\..+")


class ShardPlace(Protocol):
    """A place for shards, of which one process of this machine writes to a directory at a time.

    Attributes:
        location: the directory or the URL, as people name it.
    """

    location: str

    @property
    def folder(self) -> Path:
        """The directory of this machine in which files lie, or copies of some of them.

        The files of a new shard are written into it.
        """

    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""

    def size(self, name: str) -> int | None:
        """The bytes of one; None where there is none."""

    def path(self, name: str) -> Path:
        """One on this disk."""

    def forget(self, name: str) -> None:
        """One is no longer needed on this disk, if it lies elsewhere."""

    def alone(self) -> Any:
        """A block in which to write there; errors that can be known before are raised first."""

    def finished(self, name: str, key: str) -> ShardRecord | None:
        """The record of a shard that is complete."""

    def publish(self, record: ShardRecord) -> None:
        """Say that the files of a shard are complete."""

    def publish_manifest(self, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
        """Say which shards belong together; what no longer belongs to them is removed."""


def shard_place(location: str | Path) -> ShardPlace:
    """A directory, or the store of a URL.

    Raises:
        InvalidOption: a scheme that is not known or not installed, or a password in the URL; when
            the store is asked first.

    Example:
        >>> shard_place("s3://bucket/tokens").location  # doctest: +SKIP
        's3://bucket/tokens'
    """
    name = local_name(str(location))
    return StorePlace(name) if is_url(name) else DirectoryPlace(Path(name))


class DirectoryPlace:
    """A directory of this machine, or one that several share."""

    def __init__(self, folder: Path) -> None:
        self.location, self.folder = str(folder), folder

    def sizes(self) -> dict[str, int]:
        found = {path.name: self.size(path.name) for path in self.folder.iterdir()}
        return {name: size for name, size in found.items() if size is not None}

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
        """Hold a lock on the directory, which the system releases when the process ends."""
        folder = self.folder
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
        record = read_record(self, name)
        sound = record is not None and record.key == key and record.is_intact(self)
        return record if sound else None

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
    """A store below a URL; copies of its files lie in a temporary directory until forgotten.

    Complete shards are moved there from that directory: a shard is complete when its record is
    there, so its files go first. Nothing keeps two machines from writing at once: what both make of
    the same files is equal, and of others the last to end is refused. What the store holds is
    compared by size; `TokenShards.verify` reads it.

    The directory goes away with this object. That of a process that was killed goes when the next
    such object of its user is made: a library cannot do it sooner, for how a process ends at a
    signal is its program's to say. A process that was forked, such as a worker of a data loader,
    has a directory in it of its own: each forgets files when it needs them no more.

    Raises:
        StorageError: every method, where the store does not answer or refuses.
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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a store that takes nothing, before anything is encoded; see what is there."""
        self.put(_TRIED, b"")
        self.remove(_TRIED)
        self._found, self._manifest = self.sizes().keys(), self._manifest_now()
        yield

    def finished(self, name: str, key: str) -> ShardRecord | None:
        self.forget(f"{name}.json")
        record = read_record(self, name)
        sound = record is not None and record.key == key and record.is_there(self)
        return record if sound else None

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
                "one at a time, unless both encode the same files in the same way",
                "name another URL and type the same command again",
            )
        self.put(MANIFEST, manifest)
        for name in self._found - _names_of(records):  # what came since is another process's
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
                "a place that these credentials may list, read and write",
                "run the same command again when it answers: shards that were finished stay",
            ) from error


def _remove_copies(held: Path, owner: int, lock: int | None) -> None:
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
    except OSError:  # held by another, or a file system without locks
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


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a shard, as it was written."""

    name: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, value: Any) -> FileRecord | None:
        """A record from JSON, or None when it is none."""
        return cls(**value) if _holds(value, cls, ("name", "sha256"), ("bytes",)) else None

    def is_there(self, place: ShardPlace) -> bool:
        """Whether the file exists and has its size."""
        return place.size(self.name) == self.bytes

    def is_intact(self, place: ShardPlace) -> bool:
        """Whether the file holds what was written."""
        return self.is_there(place) and sha256_of(place.path(self.name)) == self.sha256


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One shard.

    Attributes:
        name: of its files, without suffix.
        key: digest of all that its content depends on.
        end: where it ends in its source, in bytes of text; 0 for a shard of whole files.
        tokens, documents, bytes: ids (end-of-text ids too), documents, and bytes of their text.
        files: its files: the ids, what belongs to their format, then the document index.
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
        """A record from JSON, or None when it is none."""
        counts = ("end", "tokens", "documents", "bytes")
        if not _holds(value, cls, ("name", "key"), counts) or not isinstance(value["files"], list):
            return None
        files = [FileRecord.of(file) for file in value["files"]]
        return cls(**{**value, "files": tuple(files)}) if files and None not in files else None

    def is_there(self, place: ShardPlace) -> bool:
        """Whether all files exist and have their sizes."""
        return all(file.is_there(place) for file in self.files)

    def is_intact(self, place: ShardPlace) -> bool:
        """Whether all files hold what was written."""
        return all(file.is_intact(place) for file in self.files)


def read_record(place: ShardPlace, name: str) -> ShardRecord | None:
    """The record of a shard that was finished, or None."""
    try:
        path = place.path(f"{name}.json")
        value = json_of(read_bounded(path), path)
        return ShardRecord.of(unsealed(value) if isinstance(value, dict) else value)
    except (MissingSource, InvalidTokenizer, ValueError):
        return None


def read_manifest(place: ShardPlace) -> dict[str, Any]:
    """The manifest of token shards as it is now, its shape checked.

    Raises:
        MissingSource: there is none.
        CorruptFile: not a manifest of token shards.
        InvalidTokenizer: a format version that this program does not know.
        StorageError: the store does not answer.
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
    """The content of a manifest: shards, their sums, and what they were made with."""
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
    """Whether JSON is an object with a record's fields; the name is a file's, and leads nowhere."""
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
        f"{location}: {problem}", "the files as they were written", "encode the files again"
    )


def _sealed(record: ShardRecord) -> bytes:
    return json.dumps(sealed(asdict(record))).encode()


def _names_of(records: Sequence[ShardRecord]) -> set[str]:
    names = {f"{record.name}.json" for record in records}
    return names | {file.name for record in records for file in record.files}
