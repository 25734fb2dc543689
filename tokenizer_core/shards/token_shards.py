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

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded
from bpeline.tokenizer_core.digests import sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
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
from bpeline.tokenizer_core.shards.known_formats import shard_format
from bpeline.tokenizer_core.shards.number_files import sha256_of
from bpeline.tokenizer_core.shards.packed_parts import (
    PACK_VERSION,
    PARTS_SUFFIX,
    PackedParts,
    SequencePart,
)
from bpeline.tokenizer_core.shards.shard_formats import ShardFormat

FORMAT = "bpeline-tokens"
FORMAT_VERSION = 2  # 1 has no document index
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

    def is_there(self, folder: Path) -> bool:
        """Whether the file exists and has its size."""
        try:
            return (folder / self.name).stat().st_size == self.bytes
        except OSError:
            return False

    def is_intact(self, folder: Path) -> bool:
        """Whether the file holds what was written."""
        return self.is_there(folder) and sha256_of(folder / self.name) == self.sha256


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

    def is_there(self, folder: Path) -> bool:
        """Whether all files exist and have their sizes."""
        return all(file.is_there(folder) for file in self.files)

    def is_intact(self, folder: Path) -> bool:
        """Whether all files hold what was written."""
        return all(file.is_intact(folder) for file in self.files)


class TokenShards:
    """Documents of a directory of token shards, memory-mapped: nothing is read until it is used.

    Sizes of files are compared at once, their SHA-256 when `verify` asks for it.

    Args:
        path: the directory.
        format: the format of the shards, where it is none of ours and has no name here.

    Raises:
        MissingSource: there is no manifest.
        CorruptFile: the manifest or a shard is not what was written.
        InvalidTokenizer: a format version that this program does not know.
        InvalidOption: a format of shards that needs ``format``.

    Examples:
        >>> shards = TokenShards("tokens")  # doctest: +SKIP
        >>> for ids in shards:  # doctest: +SKIP
        ...     train_on(ids)
    """

    def __init__(self, path: str | Path, format: ShardFormat | None = None) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self.format = shard_format(format or self.manifest["shard_format"])
        values = self.manifest.get("shards")
        found = list(map(ShardRecord.of, values)) if isinstance(values, list) else [None]
        self.records = tuple(record for record in found if record is not None)
        if len(self.records) < len(found):
            _corrupt(self.path, f"{MANIFEST} holds a malformed record of a shard")
        self.dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        self._edges = np.cumsum([0, *(record.documents for record in self.records)])
        self._read: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        beside = _beside(self.path, self.manifest)
        self._of_ids = len(self.format.suffixes)
        files = self._of_ids + len(beside)
        self._indexes: dict[int, DocumentIndex] | None = {} if beside == INDEX_SUFFIXES else None
        self._parts: dict[int, PackedParts] = {}
        for record in self.records:
            if not record.is_there(self.path) or len(record.files) != files:
                _corrupt(self.path, f"{record.name} does not have the size its record says")

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes, such as workers of a data loader, map the files themselves.
        return TokenShards, (self.path, self.format)

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
                if not file.is_intact(self.path):
                    _corrupt(self.path, f"{file.name} is not what was written")

    def __len__(self) -> int:
        """How many documents there are."""
        return int(self._edges[-1])

    def __getitem__(self, number: int) -> NDArray[Any]:
        """The ids of one document, uint16, uint32 or int32 ``[n]``, read-only."""
        if not 0 <= number < len(self):
            raise IndexError(f"document {number} of {len(self)}")
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
        kept = self._read.get(number)
        if kept is not None:
            return kept
        record = self.records[number]
        paths = [self.path / file.name for file in record.files[: self._of_ids]]
        ids, edges = self.format.read(paths, self.dtype)
        if (len(ids), len(edges)) != (record.tokens, record.documents + 1):
            _corrupt(self.path, f"{record.name} does not hold as much as its record says")
        while len(self._read) >= self.format.kept:
            self._read.pop(next(iter(self._read), -1), None)
        self._read[number] = ids, edges
        return ids, edges

    def place(self, number: int) -> DocumentPlace:
        """The file, the bytes in it and the id that one document came from.

        Raises:
            InvalidOption: these shards have no document index; earlier versions wrote none.
            CorruptFile: the index is not what was written.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"document {number} of {len(self)}")
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
                f"{self.path} holds documents, which are not packed",
                "packed shards; `place` tells where a document stood",
                "add --pack LENGTH to bpeline encode",
            )
        if not 0 <= number < len(self):
            raise IndexError(f"sequence {number} of {len(self)}")
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        if shard not in self._parts:
            record = self.records[shard]
            path = self.path / record.files[self._of_ids].name
            self._parts[shard] = PackedParts(path, record.tokens)
        length = int(self.manifest["packed"]["length"])
        begin = (number - int(self._edges[shard])) * length
        return self._parts[shard].between(begin, begin + length)

    def index(self, shard: int) -> DocumentIndex:
        """Where all documents of a shard stood; errors as `place`."""
        if "packed" in self.manifest:
            raise InvalidOption(
                f"{self.path} holds packed sequences, in which there are several documents",
                "`parts` of a sequence gives their numbers in the shards that were packed",
                "ask those shards: TokenShards(…).place(shards.parts(0)[0].document)",
            )
        if self._indexes is None:
            raise InvalidOption(
                f"{self.path} was written without an index of its documents",
                "shards of format version 2 or higher",
                "encode the files again: the same command writes the index",
            )
        if shard not in self._indexes:
            record = self.records[shard]
            paths = [self.path / file.name for file in record.files[self._of_ids :]]
            self._indexes[shard] = DocumentIndex(paths, record.documents)
        return self._indexes[shard]


def _beside(path: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
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
            _corrupt(path, f"{MANIFEST} has malformed fields")
        what, version, known = "packing", packed.get("version"), PACK_VERSION
    if version != known:
        raise InvalidTokenizer(
            f"{path} has a {what} of version {version!r}",
            f"this program reads version {known}",
            "upgrade bpeline",
        )
    return INDEX_SUFFIXES if packed is None else (PARTS_SUFFIX,)


def read_record(path: Path, name: str) -> ShardRecord | None:
    """The record of a shard that was finished, or None."""
    try:
        value = json_of(read_bounded(path / f"{name}.json"), path)
        return ShardRecord.of(unsealed(value) if isinstance(value, dict) else value)
    except (MissingSource, InvalidTokenizer, ValueError):
        return None


def write_record(path: Path, record: ShardRecord) -> None:
    """Say that a shard is finished."""
    DURABLE.write(path / f"{record.name}.json", json.dumps(sealed(asdict(record))).encode())


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory of token shards, its shape checked.

    Raises:
        MissingSource: there is none.
        CorruptFile: not a manifest of token shards.
        InvalidTokenizer: a format version that this program does not know.
    """
    manifest = read_sealed_manifest(
        path, FORMAT, FORMAT_VERSION, _corrupt, most_bytes=_MANIFEST_BYTES
    )
    special = manifest.get("special_tokens", {})
    if not isinstance(special, dict) or not all(type(id) is int for id in special.values()):
        _corrupt(path, f"{MANIFEST} has malformed special tokens")
    texts = all(isinstance(manifest.get(field), str) for field in ("tokenizer", "shard_format"))
    if not texts or manifest.get("dtype") not in _DTYPES:
        _corrupt(path, f"{MANIFEST} has malformed fields")
    return manifest


def write_manifest(path: Path, about: Mapping[str, Any], records: Sequence[ShardRecord]) -> None:
    """Publish shards and what they were made with; what no longer belongs to them is removed."""
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **about,
        "documents": sum(record.documents for record in records),
        "tokens": sum(record.tokens for record in records),
        "bytes": sum(record.bytes for record in records),
        "shards": [asdict(record) for record in records],
    }
    DURABLE.write(path / MANIFEST, (json.dumps(sealed(manifest), indent=1) + "\n").encode())
    names = {f"{record.name}.json" for record in records}
    names |= {file.name for record in records for file in record.files}
    for file in path.iterdir():
        stale = file.name.startswith("shard-") and file.name not in names
        if stale or is_temporary(file):
            DURABLE.remove(file)


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


def _corrupt(path: Path, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{path}: {problem}", "the files as they were written", "encode the files again"
    )
