"""Token ids of many documents on disk, memory-mapped, with an index of documents.

Besides its ids and its record, a shard of documents has three files, in every format:

    NAME.docs.npy        a record for each document: ``source``, a line of the next file; ``begin``
                         and ``end``, bytes of the (decompressed) text of that file; ``id_end``,
                         where its line ends in the last file, which begins where the one before
                         ended
    NAME.sources.jsonl   a line for each file: path, format, compression, size on disk, and the
                         label of the source that named it
    NAME.ids.jsonl       a line of JSON for each document that has an id: that id

In a text file, begin and end are those of the document, without separators; in JSON lines, of its
whole line, without the line feed; in files of records (Parquet, Arrow, CSV, …), of the document
among those of the text column, with a byte 255 after each.

A shard of packed sequences has instead

    NAME.parts.npy       a record for each document in it, in order: ``document``, its number in the
                         shards that were packed; ``first``, the first of its ids that is here;
                         ``begin``, where that is in the shard's ids. It ends at the next ``begin``;
                         the rest of the document is in the next shard.

An end-of-text id belongs to the document before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import open_file, parse_json, read_bounded
from bpeline.tokenizer_core.corpus import Source, SourceFile, find_source_files, open_source
from bpeline.tokenizer_core.digests import MANIFEST
from bpeline.tokenizer_core.errors import (
    CorpusChanged,
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
)
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.shards.shard_formats import (
    HashedFile,
    NpyFile,
    ShardFormat,
    sha256_of,
    shard_format,
)
from bpeline.tokenizer_core.shards.shard_places import (
    DirectoryPlace,
    FileRecord,
    ShardRecord,
    StorePlace,
    read_manifest,
    refuse_corrupt,
    shard_place,
)
from bpeline.tokenizer_core.urls import is_url

INDEX_VERSION = 1
SOURCES_SUFFIX = ".sources.jsonl"
INDEX_SUFFIXES = (".docs.npy", SOURCES_SUFFIX, ".ids.jsonl")
PLACE = np.dtype([("source", "<i8"), ("begin", "<i8"), ("end", "<i8"), ("id_end", "<i8")])
_HEADER = 256  # bytes of the .npy header with these names
SOURCES_BYTES = 1 << 30
_SKIP = 2 << 20

PACK_VERSION = 1
PARTS_SUFFIX = ".parts.npy"
PART = np.dtype([("document", "<i8"), ("first", "<i8"), ("begin", "<i8")])
PARTS_HEADER = 256  # bytes of the .npy header with these names
_KEPT_OF_STORES = 4  # shards on this disk; arrays mapped from others stay readable


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a document was when it was encoded.

    Attributes:
        path: of its file, absolute; or a URL.
        source: the label of the source that named the file.
        file_size: bytes on disk.
        begin, end: bytes of the decompressed text: the document, or its line.
        id: the content of its id field, or None.
        field: the text column of a file of records.
    """

    path: str
    source: str
    format: str
    compression: str | None
    file_size: int
    begin: int
    end: int
    id: str | int | float | None = None
    field: str = ""

    def read(self) -> bytes:
        """Read the document, or its whole line of JSON, as it is there now.

        Raises:
            CorpusChanged: the file has another size than when it was encoded.
            MissingSource, UnreadableSource: it cannot be found or read.
        """
        (file,) = find_source_files([Source(self.path)])
        if file.size != self.file_size:
            raise CorpusChanged(
                f"{self.path} has {file.size} bytes, but had {self.file_size} when it was encoded",
                "expected the file as it was",
                "encode the files again",
            )
        with closing(open_source(file, 0, self.field)) as opened:
            position = 0 if file.is_streamed else self.begin
            while position < self.begin:
                step = min(position + _SKIP, self.begin)
                opened.take(position, step)
                position = step
            return opened.take(self.begin, self.end).bytes()


class IndexWriter:
    """Writes the files of `INDEX_SUFFIXES` for one shard, document by document."""

    def __init__(self, paths: Sequence[Path], field: str = "") -> None:
        self._field = field
        self._places = NpyFile(paths[0], PLACE, _HEADER)
        self._sources, self._ids = (HashedFile(path, "u1") for path in paths[1:])
        self._path: str | None = None
        self._number = -1
        self._id_end = 0

    def add(self, file: SourceFile, spans: NDArray[np.int64], ids: Sequence[bytes]) -> None:
        """Append documents of one file; all documents of a file come in a row.

        Args:
            spans: int64 ``[n, 2]``: bytes of the file's text.
            ids: ASCII JSON for each document, empty for no id; or no item at all.
        """
        if not len(spans):
            return
        if file.path != self._path:
            self._path, self._number = file.path, self._number + 1
            self._sources.write(_line_of(file, self._field))
        places = np.empty(len(spans), PLACE)
        places["source"] = self._number
        places["begin"], places["end"] = spans[:, 0], spans[:, 1]
        sizes = np.fromiter(map(len, ids), np.int64, len(ids)) if ids else np.zeros(1, np.int64)
        places["id_end"] = self._id_end + np.cumsum(sizes + (sizes > 0))
        self._id_end = int(places["id_end"][-1])
        self._places.append(places)
        self._ids.write(b"".join(id + b"\n" for id in ids if id))

    def close(self) -> None:
        for file in (self._places, self._sources, self._ids):
            file.close()

    def digests(self) -> list[str]:
        """Return the SHA-256 of each closed file."""
        return [file.sha256() for file in (self._places, self._sources, self._ids)]


class DocumentIndex:
    """The index of one shard, memory-mapped.

    Attributes:
        places: ``[documents]`` records of `PLACE`.
        sources: the parsed line of each file.
    """

    def __init__(self, paths: Sequence[Path], documents: int) -> None:
        self._path, (_, sources, self._ids) = paths[0], paths
        try:
            mapped = np.load(self._path, mmap_mode="r" if documents else None, allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            self._corrupt(f"cannot be read: {error}")
        if mapped.dtype != PLACE or mapped.shape != (documents,):
            self._corrupt(f"does not hold the places of {documents} documents")
        self.places: NDArray[Any] = mapped
        try:
            lines = read_bounded(sources, SOURCES_BYTES).splitlines()
            self.sources: list[dict[str, Any]] = [parse_json(line) for line in lines]
        except (ValueError, InvalidTokenizer) as error:
            raise CorruptFile(
                f"{sources} cannot be read: {error}",
                "expected a line of JSON for each file",
                "encode the files again",
            ) from error

    def __getitem__(self, number: int) -> DocumentPlace:
        """Return where one document of the shard was."""
        source, begin, end, id_end = self.places[number].tolist()
        id_begin = int(self.places[number - 1]["id_end"]) if number else 0
        if not (0 <= source < len(self.sources) and 0 <= begin <= end and 0 <= id_begin <= id_end):
            self._corrupt(f"has an impossible entry for document {number}")
        id: Any = None
        try:
            if id_begin < id_end:
                with open_file(self._ids) as file:
                    file.seek(id_begin)
                    id = parse_json(file.read(id_end - id_begin))
            place = DocumentPlace(**self.sources[source], begin=begin, end=end)
            return replace(check_fields(place), id=id)
        except (TypeError, ValueError) as error:
            self._corrupt(f"has an impossible entry for document {number}: {error}")

    def _corrupt(self, problem: str) -> NoReturn:
        raise CorruptFile(
            f"{self._path} {problem}",
            "expected the files as they were written",
            "encode the files again",
        )


def _line_of(file: SourceFile, field: str) -> bytes:
    description: dict[str, Any] = {
        "path": file.path,
        "source": file.source,
        "format": file.format,
        "compression": file.compression,
        "file_size": file.size,
        **({"field": field} if file.is_of_records else {}),
    }
    # Names of files need not be UTF-8; JSON escapes the rest.
    return json.dumps(description).encode("ascii") + b"\n"


@dataclass(frozen=True, slots=True)
class SequencePart:
    """A document, or a piece of one, in a packed sequence.

    Attributes:
        document: its number in the shards that were packed.
        first: the first of its ids that is here.
        begin, end: its span in the sequence.
    """

    document: int
    first: int
    begin: int
    end: int


class PackedParts:
    """The parts of one packed shard, which has ``tokens`` ids."""

    def __init__(self, path: Path, tokens: int) -> None:
        try:
            with open_file(path) as file:
                parts = np.load(file, allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise _corrupt_parts(path, str(error)) from error
        if parts.dtype != PART or parts.ndim != 1 or bool(tokens) != bool(len(parts)):
            raise _corrupt_parts(path, "not the parts of a packed shard")
        self.documents, self.firsts, begins = (np.array(parts[name]) for name in PART.names or ())
        self.begins: NDArray[Any] = np.append(begins, tokens)
        if (
            (np.diff(self.begins) <= 0).any()
            or self.begins[0]
            or (self.firsts < 0).any()
            or (self.documents < 0).any()
        ):
            raise _corrupt_parts(path, "parts do not follow one another")

    def between(self, begin: int, end: int) -> list[SequencePart]:
        """Return the parts of the ids in [begin, end), at least one id."""
        first = int(np.searchsorted(self.begins, begin, side="right")) - 1
        last = int(np.searchsorted(self.begins, end, side="left"))
        parts = []
        for at in range(first, last):
            part_begin, part_end = int(self.begins[at]), int(self.begins[at + 1])
            before = max(begin - part_begin, 0)
            parts.append(
                SequencePart(
                    int(self.documents[at]),
                    int(self.firsts[at]) + before,
                    part_begin + before - begin,
                    min(part_end, end) - begin,
                )
            )
        return parts


def _corrupt_parts(path: Path, problem: str) -> CorruptFile:
    return CorruptFile(
        f"{path} cannot be read: {problem}",
        "expected the file as it was written",
        "pack the shards again",
    )


class TokenShards:
    """Documents of token shards, memory-mapped: nothing is read until it is used.

    Sizes of files are compared at once, their SHA-256 by `verify`. Shards in a store are fetched
    whole on access to a document, into a temporary directory that keeps the ids of the last few;
    `fetch` copies all of them.

    Args:
        path: the directory, or the URL of a store.
        format: the format of the shards, if it is your own `ShardFormat`.

    Attributes:
        location: the directory or the URL.
        manifest: see docs/token-shards.md.
        manifest_digest: SHA-256 of the manifest's file.

    Raises:
        MissingSource: there is no manifest.
        CorruptFile: the manifest or a shard is damaged.
        InvalidTokenizer: an unknown format version.
        InvalidOption: a format of shards that needs ``format``.
        StorageError: a store does not respond, here and whenever something is fetched.

    Examples:
        >>> shards = TokenShards("tokens")  # doctest: +SKIP
        >>> for ids in shards:  # doctest: +SKIP
        ...     train_on(ids)
    """

    def __init__(self, path: str | Path, format: ShardFormat | None = None) -> None:
        checks.location("path", path)
        self._place = shard_place(path)
        self.location: str = self._place.location
        self.manifest: dict[str, Any] = read_manifest(self._place)
        self.manifest_digest: str = sha256_of(self._place.path(MANIFEST))
        self.format: ShardFormat = shard_format(format or self.manifest["shard_format"])
        values = self.manifest.get("shards")
        records = list(map(ShardRecord.of, values)) if isinstance(values, list) else [None]
        self.records = tuple(record for record in records if record is not None)
        if len(self.records) < len(records):
            refuse_corrupt(self.location, f"{MANIFEST} holds a malformed record of a shard")
        self.dtype = np.dtype(self.manifest["dtype"]).newbyteorder("<")
        self._edges = np.cumsum([0, *(record.documents for record in self.records)])
        self._read: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        suffixes = _beside(self.location, self.manifest)
        self._of_ids = len(self.format.suffixes)
        files = self._of_ids + len(suffixes)
        self._indexes: dict[int, DocumentIndex] | None = {} if suffixes == INDEX_SUFFIXES else None
        self._parts: dict[int, PackedParts] = {}
        most = _KEPT_OF_STORES if is_url(self.location) else self.format.kept
        self._kept = min(self.format.kept, most)
        sizes = self._place.sizes()
        for record in self.records:
            there = all(sizes.get(file.name) == file.bytes for file in record.files)
            if not there or len(record.files) != files:
                refuse_corrupt(
                    self.location, f"{record.name} does not have the size its record says"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes, such as workers of a data loader, map the files again.
        return TokenShards, (self.location, self.format)

    @property
    def path(self) -> Path:
        """The directory; for a URL, this process's temporary one with fetched files."""
        return self._place.folder

    @property
    def tokenizer_digest(self) -> str:
        """The digest of the tokenizer that made the ids."""
        return str(self.manifest["tokenizer"])

    @property
    def special_tokens(self) -> dict[str, int]:
        """The tokenizer's special tokens and ids; empty for format version 1."""
        return dict(self.manifest.get("special_tokens") or {})

    def verify(self) -> None:
        """Compare the SHA-256 of all files with the records, or raise `CorruptFile`."""
        for record in self.records:
            for file in record.files:
                self._place.forget(file.name)  # not an earlier copy
                intact = file.is_intact(self._place)
                self._place.forget(file.name)
                if not intact:
                    refuse_corrupt(self.location, f"{file.name} is not what was written")

    def fetch(self, folder: str | Path) -> TokenShards:
        """Copy shards of a store to a local directory; intact copies are kept.

        Returns these shards if they are local already.
        """
        checks.location("folder", folder)
        if not isinstance(self._place, StorePlace):
            return self
        here = DirectoryPlace(Path(folder))
        for file in [file for record in self.records for file in record.files]:
            if not file.is_intact(here):
                self._place.copy(file.name, here.path(file.name))
        self._place.copy(MANIFEST, here.path(MANIFEST))
        return TokenShards(folder, self.format)

    def file(self, record: FileRecord) -> Path:
        """Return the path of a shard's file on this disk."""
        checks.instance("record", record, FileRecord)
        return self._place.path(record.name)

    def __len__(self) -> int:
        """Return the number of documents."""
        return int(self._edges[-1])

    def __getitem__(self, number: int) -> NDArray[Any]:
        """Return the ids of one document, uint16, uint32 or int32 ``[n]``, read-only."""
        if type(number) is not int or not 0 <= number < len(self):
            number = checks.row_number("document", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        ids, edges = self.shard(shard)
        place = number - int(self._edges[shard])
        return ids[int(edges[place]) : int(edges[place + 1])]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield the ids of each document, in the order in which they were read."""
        for shard in range(len(self.records)):
            ids, edges = self.shard(shard)
            for place in range(len(edges) - 1):
                yield ids[int(edges[place]) : int(edges[place + 1])]

    def shard(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all ids of a shard, and where its documents begin in them (and the end)."""
        kept = self._read.get(number) if type(number) is int else None
        if kept is not None:
            return kept
        record = self.records[checks.row_number("shard", number, len(self.records))]
        paths = [self.file(file) for file in record.files[: self._of_ids]]
        ids, edges = self.format.read(paths, self.dtype)
        if (len(ids), len(edges)) != (record.tokens, record.documents + 1):
            refuse_corrupt(self.location, f"{record.name} does not hold as much as its record says")
        while len(self._read) >= self._kept:
            oldest = next(iter(self._read))
            self._read.pop(oldest, None)
            for file in self.records[oldest].files[: self._of_ids]:
                self._place.forget(file.name)
        self._read[number] = ids, edges
        return ids, edges

    def place(self, number: int) -> DocumentPlace:
        """Return the file, the bytes in it and the id that one document came from.

        Raises:
            InvalidOption: these shards have no document index; earlier versions wrote none.
        """
        number = checks.row_number("document", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        return self.index(shard)[number - int(self._edges[shard])]

    def parts(self, number: int) -> list[SequencePart]:
        """Return the documents, and pieces of them, in one packed sequence, in order.

        Raises:
            InvalidOption: these shards are not packed.
        """
        if "packed" not in self.manifest:
            raise InvalidOption(
                f"{self.location} holds documents, which are not packed",
                "expected packed shards; for documents, use `place`",
                "add --pack LENGTH to bpeline encode",
            )
        number = checks.row_number("sequence", number, len(self))
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        if shard not in self._parts:
            record = self.records[shard]
            path = self.file(record.files[self._of_ids])
            self._parts[shard] = PackedParts(path, record.tokens)
        length = int(self.manifest["packed"]["length"])
        begin = (number - int(self._edges[shard])) * length
        return self._parts[shard].between(begin, begin + length)

    def index(self, shard: int) -> DocumentIndex:
        """Return where all documents of a shard were; raises as `place`."""
        if "packed" in self.manifest:
            raise InvalidOption(
                f"{self.location} holds packed sequences of several documents",
                "expected the shards that were packed; `parts` returns their document numbers",
                "use those shards: TokenShards(…).place(shards.parts(0)[0].document)",
            )
        if self._indexes is None:
            raise InvalidOption(
                f"{self.location} was written without an index of its documents",
                "expected shards of format version 2 or higher",
                "encode the files again: the same command writes the index",
            )
        shard = checks.row_number("shard", shard, len(self.records))
        if shard not in self._indexes:
            record = self.records[shard]
            paths = [self.file(file) for file in record.files[self._of_ids :]]
            self._indexes[shard] = DocumentIndex(paths, record.documents)
        return self._indexes[shard]


def _beside(location: str, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the suffixes of a shard's files besides those of its format."""
    if manifest["format_version"] == 1:
        return ()
    packed = manifest.get("packed")
    if packed is None:
        what, version, expected = "document index", manifest.get("document_index"), INDEX_VERSION
    else:
        if not isinstance(packed, dict) or type(packed.get("length")) is not int:
            refuse_corrupt(location, f"{MANIFEST} has malformed fields")
        what, version, expected = "packing", packed.get("version"), PACK_VERSION
    if version != expected:
        raise InvalidTokenizer(
            f"{location} has a {what} of version {version!r}",
            f"expected version {expected}",
            "upgrade bpeline",
        )
    return INDEX_SUFFIXES if packed is None else (PARTS_SUFFIX,)
