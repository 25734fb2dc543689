"""Token ids of many documents on disk: shards, their index, one manifest; encodes nothing.

A directory holds, for each shard,

    NAME.bin    ids one after the other, uint16 or uint32, little-endian
    NAME.idx    uint64 ``[documents + 1]``, little-endian: where each document begins in NAME.bin,
                and the end; an end-of-text id belongs to the document before it
    NAME.json   its record: what it was made from, its counts; written last, so it vouches

and manifest.json with the records of all shards, their sum, and the tokenizer's digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.durable_files import DURABLE, is_temporary
from tokenizer_core.errors import CorruptFile, InvalidTokenizer, MissingSource
from tokenizer_core.formats.bounded_files import json_of, read_bounded

FORMAT = "bpeline-tokens"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """One shard.

    Attributes:
        name: of its files, without suffix.
        key: digest of all that its content depends on.
        tokens, documents, bytes: ids (end-of-text ids too), documents, and bytes of their text.
        digest: SHA-256 of the ids as they are in the file.
    """

    name: str
    key: str
    tokens: int
    documents: int
    bytes: int
    digest: str

    @classmethod
    def of(cls, value: Any) -> ShardRecord | None:
        """A record from JSON, or None when it is none."""
        if not isinstance(value, dict) or value.keys() != cls.__dataclass_fields__.keys():
            return None
        texts = all(isinstance(value[field], str) for field in ("name", "key", "digest"))
        numbers = (value[field] for field in ("tokens", "documents", "bytes"))
        if not texts or not all(type(number) is int and number >= 0 for number in numbers):
            return None
        return None if set(value["name"]) & set("/\\\0") else cls(**value)


class TokenShards:
    """Documents of a directory of token shards, memory-mapped: nothing is read until it is used.

    Args:
        path: the directory.

    Raises:
        MissingSource: there is no manifest.
        CorruptFile: the manifest or a shard is not what was written.
        InvalidTokenizer: a format version that this program does not know.

    Examples:
        >>> shards = TokenShards("tokens")  # doctest: +SKIP
        >>> for ids in shards:  # doctest: +SKIP
        ...     train_on(ids)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self.records = tuple(map(ShardRecord.of, self.manifest["shards"]))
        if None in self.records:
            _corrupt(self.path, f"{MANIFEST} holds a malformed record of a shard")
        self.dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        self._edges = np.cumsum([0, *(record.documents for record in self._sound)])
        for record in self._sound:
            if not is_complete(self.path, record, self.dtype.itemsize):
                _corrupt(self.path, f"{record.name} does not have the size its record says")

    @property
    def _sound(self) -> tuple[ShardRecord, ...]:
        return tuple(record for record in self.records if record is not None)

    @property
    def tokenizer_digest(self) -> str:
        """The digest of the tokenizer that made the ids."""
        return str(self.manifest["tokenizer"])

    def __len__(self) -> int:
        """How many documents there are."""
        return int(self._edges[-1])

    def __getitem__(self, number: int) -> NDArray[Any]:
        """The ids of one document, uint16 or uint32 ``[n]``, read-only."""
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

    def shard(self, number: int) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """All ids of a shard, and where its documents begin in them (and the end)."""
        record = self._sound[number]
        edges = np.memmap(self.path / f"{record.name}.idx", np.dtype("<u8"), "r")
        if not record.tokens:  # an empty file cannot be mapped
            return np.empty(0, self.dtype), edges
        return np.memmap(self.path / f"{record.name}.bin", self.dtype, "r"), edges


def is_complete(path: Path, record: ShardRecord, itemsize: int) -> bool:
    """Whether a shard's files have the sizes that its record says."""
    try:
        ids, edges = ((path / f"{record.name}{end}").stat().st_size for end in (".bin", ".idx"))
    except OSError:
        return False
    return ids == record.tokens * itemsize and edges == 8 * (record.documents + 1)


def read_record(path: Path, name: str) -> ShardRecord | None:
    """The record of a shard that was finished, or None."""
    try:
        return ShardRecord.of(json_of(read_bounded(path / f"{name}.json"), path))
    except (MissingSource, InvalidTokenizer):
        return None


def write_record(path: Path, record: ShardRecord) -> None:
    """Say that a shard is finished."""
    DURABLE.write(path / f"{record.name}.json", json.dumps(asdict(record)).encode())


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory of token shards, its shape checked.

    Raises:
        MissingSource: there is none.
        CorruptFile: not a manifest of token shards.
        InvalidTokenizer: a format version that this program does not know.
    """
    content = read_bounded(path / MANIFEST)
    try:
        manifest = json_of(content, path / MANIFEST)
    except InvalidTokenizer as error:
        _corrupt(path, error.happened)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        _corrupt(path, f"{MANIFEST} is not one of token shards")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise InvalidTokenizer(
            f"{path} has format version {manifest.get('format_version')!r}",
            f"this program reads version {FORMAT_VERSION}",
            "upgrade bpeline",
        )
    if manifest.get("dtype") not in ("uint16", "uint32") or not (
        isinstance(manifest.get("shards"), list) and isinstance(manifest.get("tokenizer"), str)
    ):
        _corrupt(path, f"{MANIFEST} has malformed fields")
    return manifest


def write_manifest(
    path: Path, tokenizer: str, dtype: str, records: list[ShardRecord], details: Mapping[str, Any]
) -> None:
    """Publish shards; what no longer belongs to them is removed afterwards."""
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tokenizer": tokenizer,
        "dtype": dtype,
        **details,
        "documents": sum(record.documents for record in records),
        "tokens": sum(record.tokens for record in records),
        "bytes": sum(record.bytes for record in records),
        "shards": [asdict(record) for record in records],
    }
    DURABLE.write(path / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    names = {record.name for record in records}
    for file in path.iterdir():
        stale = file.name.startswith("shard-") and file.stem not in names
        if stale or is_temporary(file):
            DURABLE.remove(file)


def _corrupt(path: Path, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{path}: {problem}", "the files as they were written", "encode the files again"
    )
