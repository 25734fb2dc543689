"""Token ids of many documents on disk: shards, their records, one manifest; encodes nothing.

A directory holds, for each shard, the files of its format (see `shard_formats`), those that tell
where its documents stood (`document_index`), and

    NAME.json   its record: what it was made from, its counts, the SHA-256 of each of its files;
                written last, so it vouches for them

and manifest.json with the records of all shards, their sums, the tokenizer's digest and the
settings. An end-of-text id belongs to the document before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked, row_number
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded
from bpeline.tokenizer_core.digests import sealed, unsealed
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
    MissingSource,
)
from bpeline.tokenizer_core.sealed_manifests import MANIFEST, read_sealed_manifest
from bpeline.tokenizer_core.shards.document_index import (
    INDEX_SUFFIXES,
    INDEX_VERSION,
    DocumentIndex,
    DocumentPlace,
)
from bpeline.tokenizer_core.shards.files_of_shards import (
    FilesHere,
    ShardFiles,
    StoredFiles,
    shard_files,
)
from bpeline.tokenizer_core.shards.known_formats import shard_format
from bpeline.tokenizer_core.shards.number_files import sha256_of
from bpeline.tokenizer_core.shards.packed_parts import (
    PACK_VERSION,
    PARTS_SUFFIX,
    PackedParts,
    SequencePart,
)
from bpeline.tokenizer_core.shards.shard_formats import ShardFormat
from bpeline.tokenizer_core.urls import is_url

FORMAT = "bpeline-tokens"
FORMAT_VERSION = 2  # 1 has no document index
_KEPT_OF_STORES = 4  # shards on this disk; what is mapped of others stays readable
_DTYPES = ("uint16", "uint32", "int32")
_MANIFEST_BYTES = 1 << 30  # half a kilobyte for each shard


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

    def is_there(self, files: ShardFiles) -> bool:
        """Whether the file exists and has its size."""
        return files.size(self.name) == self.bytes

    def is_intact(self, files: ShardFiles) -> bool:
        """Whether the file holds what was written."""
        return self.is_there(files) and sha256_of(files.path(self.name)) == self.sha256


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

    def is_there(self, files: ShardFiles) -> bool:
        """Whether all files exist and have their sizes."""
        return all(file.is_there(files) for file in self.files)

    def is_intact(self, files: ShardFiles) -> bool:
        """Whether all files hold what was written."""
        return all(file.is_intact(files) for file in self.files)


class TokenShards:
    """Documents of a directory of token shards, memory-mapped: nothing is read until it is used.

    Sizes of files are compared at once, their SHA-256 when `verify` asks for it. Shards in a store
    are fetched whole when one of their documents is asked for, into a temporary directory in which
    the ids of the last few stay; `fetch` copies all of them.

    Args:
        path: the directory, or the URL of a store.
        format: the format of the shards, where it is none of ours and has no name here.

    Attributes:
        location: the directory or the URL.
        manifest: what was encoded with what, see docs/token-shards.md.
        manifest_digest: SHA-256 of the manifest's file.

    Raises:
        MissingSource: there is no manifest.
        CorruptFile: the manifest or a shard is not what was written.
        InvalidTokenizer: a format version that this program does not know.
        InvalidOption: a format of shards that needs ``format``.
        StorageError: a store does not answer, here and wherever something is fetched.

    Examples:
        >>> shards = TokenShards("tokens")  # doctest: +SKIP
        >>> for ids in shards:  # doctest: +SKIP
        ...     train_on(ids)
    """

    @checked
    def __init__(self, path: str | Path, format: ShardFormat | None = None) -> None:
        self._files = shard_files(path)
        self.location: str = self._files.location
        self.manifest: dict[str, Any] = read_manifest(self._files)
        self.manifest_digest: str = sha256_of(self._files.path(MANIFEST))
        self.format: ShardFormat = shard_format(format or self.manifest["shard_format"])
        values = self.manifest.get("shards")
        found = list(map(ShardRecord.of, values)) if isinstance(values, list) else [None]
        self.records = tuple(record for record in found if record is not None)
        if len(self.records) < len(found):
            _corrupt(self.location, f"{MANIFEST} holds a malformed record of a shard")
        self.dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        self._edges = np.cumsum([0, *(record.documents for record in self.records)])
        self._read: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        beside = _beside(self.location, self.manifest)
        self._of_ids = len(self.format.suffixes)
        files = self._of_ids + len(beside)
        self._indexes: dict[int, DocumentIndex] | None = {} if beside == INDEX_SUFFIXES else None
        self._parts: dict[int, PackedParts] = {}
        most = _KEPT_OF_STORES if is_url(self.location) else self.format.kept
        self._kept = min(self.format.kept, most)
        sizes = self._files.sizes()
        for record in self.records:
            there = all(sizes.get(file.name) == file.bytes for file in record.files)
            if not there or len(record.files) != files:
                _corrupt(self.location, f"{record.name} does not have the size its record says")

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes, such as workers of a data loader, map the files themselves.
        return TokenShards, (self.location, self.format)

    @property
    def path(self) -> Path:
        """The directory; of a URL this process's temporary one, with what has been fetched."""
        return self._files.folder

    @property
    def tokenizer_digest(self) -> str:
        """The digest of the tokenizer that made the ids."""
        return str(self.manifest["tokenizer"])

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens of that tokenizer and their ids; empty for format version 1."""
        return dict(self.manifest.get("special_tokens") or {})

    def verify(self) -> None:
        """Read all files and compare them with the SHA-256 they had when they were written.

        Raises:
            CorruptFile: names the first file that differs.
        """
        for record in self.records:
            for file in record.files:
                self._files.forget(file.name)  # not an earlier copy, but what the store holds now
                intact = file.is_intact(self._files)
                self._files.forget(file.name)
                if not intact:
                    _corrupt(self.location, f"{file.name} is not what was written")

    @checked
    def fetch(self, folder: str | Path) -> TokenShards:
        """Shards of a store as a directory of this machine; what is there already is kept.

        Those that lie in a directory are given as they are.

        Args:
            folder: for the copies.

        Raises:
            StorageError, DiskFull: not everything could be fetched.
        """
        if not isinstance(self._files, StoredFiles):
            return self
        here = FilesHere(Path(folder))
        for file in [file for record in self.records for file in record.files]:
            if not file.is_intact(here):
                self._files.copy(file.name, here.path(file.name))
        self._files.copy(MANIFEST, here.path(MANIFEST))
        return TokenShards(folder, self.format)

    @checked
    def file(self, record: FileRecord) -> Path:
        """A file of a shard on this disk."""
        return self._files.path(record.name)

    def __len__(self) -> int:
        """How many documents there are."""
        return int(self._edges[-1])

    def __getitem__(self, number: int) -> NDArray[Any]:
        """The ids of one document, uint16, uint32 or int32 ``[n]``, read-only."""
        if type(number) is not int or not 0 <= number < len(self):
            number = row_number("document", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        ids, edges = self.shard(shard)
        place = number - int(self._edges[shard])
        return ids[int(edges[place]) : int(edges[place + 1])]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """The ids of each document, in the order in which they were read."""
        for shard in range(len(self.records)):
            ids, edges = self.shard(shard)
            for place in range(len(edges) - 1):
                yield ids[int(edges[place]) : int(edges[place + 1])]

    def shard(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """All ids of a shard, and where its documents begin in them (and the end).

        Raises:
            CorruptFile: the files do not hold as much as the record says.
        """
        kept = self._read.get(number) if type(number) is int else None
        if kept is not None:
            return kept
        record = self.records[row_number("shard", number, len(self.records))]
        paths = [self.file(file) for file in record.files[: self._of_ids]]
        ids, edges = self.format.read(paths, self.dtype)
        if (len(ids), len(edges)) != (record.tokens, record.documents + 1):
            _corrupt(self.location, f"{record.name} does not hold as much as its record says")
        while len(self._read) >= self._kept:
            oldest = next(iter(self._read))
            self._read.pop(oldest, None)
            for file in self.records[oldest].files[: self._of_ids]:
                self._files.forget(file.name)
        self._read[number] = ids, edges
        return ids, edges

    def place(self, number: int) -> DocumentPlace:
        """The file, the bytes in it and the id that one document came from.

        Raises:
            InvalidOption: these shards have no document index; earlier versions wrote none.
            CorruptFile: the index is not what was written.
        """
        number = row_number("document", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        return self.index(shard)[number - int(self._edges[shard])]

    def parts(self, number: int) -> list[SequencePart]:
        """The documents, and pieces of them, in one packed sequence, in their order.

        Raises:
            InvalidOption: these shards are not packed.
            CorruptFile: their files are not what was written.
        """
        if "packed" not in self.manifest:
            raise InvalidOption(
                f"{self.location} holds documents, which are not packed",
                "packed shards; `place` tells where a document stood",
                "add --pack LENGTH to bpeline encode",
            )
        number = row_number("sequence", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        if shard not in self._parts:
            record = self.records[shard]
            path = self.file(record.files[self._of_ids])
            self._parts[shard] = PackedParts(path, record.tokens)
        length = int(self.manifest["packed"]["length"])
        begin = (number - int(self._edges[shard])) * length
        return self._parts[shard].between(begin, begin + length)

    def index(self, shard: int) -> DocumentIndex:
        """Where all documents of a shard stood; errors as `place`."""
        if "packed" in self.manifest:
            raise InvalidOption(
                f"{self.location} holds packed sequences, in which there are several documents",
                "`parts` of a sequence gives their numbers in the shards that were packed",
                "ask those shards: TokenShards(…).place(shards.parts(0)[0].document)",
            )
        if self._indexes is None:
            raise InvalidOption(
                f"{self.location} was written without an index of its documents",
                "shards of format version 2 or higher",
                "encode the files again: the same command writes the index",
            )
        shard = row_number("shard", shard, len(self.records))
        if shard not in self._indexes:
            record = self.records[shard]
            paths = [self.file(file) for file in record.files[self._of_ids :]]
            self._indexes[shard] = DocumentIndex(paths, record.documents)
        return self._indexes[shard]


def _beside(location: str, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The suffixes of a shard's files beside those of its format.

    Raises:
        InvalidTokenizer: this program does not know that version of them.
    """
    if manifest["format_version"] == 1:
        return ()
    packed = manifest.get("packed")
    if packed is None:
        what, version, known = "document index", manifest.get("document_index"), INDEX_VERSION
    else:
        if not isinstance(packed, dict) or type(packed.get("length")) is not int:
            _corrupt(location, f"{MANIFEST} has malformed fields")
        what, version, known = "packing", packed.get("version"), PACK_VERSION
    if version != known:
        raise InvalidTokenizer(
            f"{location} has a {what} of version {version!r}",
            f"this program reads version {known}",
            "upgrade bpeline",
        )
    return INDEX_SUFFIXES if packed is None else (PARTS_SUFFIX,)


def read_record(files: ShardFiles, name: str) -> ShardRecord | None:
    """The record of a shard that was finished, or None."""
    try:
        path = files.path(f"{name}.json")
        value = json_of(read_bounded(path), path)
        return ShardRecord.of(unsealed(value) if isinstance(value, dict) else value)
    except (MissingSource, InvalidTokenizer, ValueError):
        return None


def read_manifest(files: ShardFiles) -> dict[str, Any]:
    """The manifest of token shards as it is now, its shape checked.

    Raises:
        MissingSource: there is none.
        CorruptFile: not a manifest of token shards.
        InvalidTokenizer: a format version that this program does not know.
        StorageError: the store does not answer.
    """
    files.forget(MANIFEST)
    location = files.location

    def corrupt(_folder: Path, problem: str) -> NoReturn:
        _corrupt(location, problem)

    folder = files.path(MANIFEST).parent
    manifest = read_sealed_manifest(
        folder, FORMAT, FORMAT_VERSION, corrupt, most_bytes=_MANIFEST_BYTES, called=location
    )
    special = manifest.get("special_tokens", {})
    if not isinstance(special, dict) or not all(type(id) is int for id in special.values()):
        _corrupt(location, f"{MANIFEST} has malformed special tokens")
    texts = all(isinstance(manifest.get(field), str) for field in ("tokenizer", "shard_format"))
    if not texts or manifest.get("dtype") not in _DTYPES:
        _corrupt(location, f"{MANIFEST} has malformed fields")
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
        and all(type(value[field]) is int and value[field] >= 0 for field in counts)
        and bool(value["name"])
        and not set(value["name"]) & set("/\\\0")
    )


def _corrupt(location: str, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{location}: {problem}", "the files as they were written", "encode the files again"
    )
