"""Where the documents of a shard stood: written beside its ids, read back; encodes nothing.

Three files for each shard, whatever the format of its ids:

    NAME.docs.npy        a record for each document: ``source``, a line of the next file; ``begin``
                         and ``end``, bytes of the (decompressed) text of that file; ``id_end``,
                         where its line ends in the last file, which begins where the one before
                         ended
    NAME.sources.jsonl   a line for each file: path, format, compression, size on disk, and the
                         label of the source that named it
    NAME.ids.jsonl       a line of JSON for each document that has an id: that id

Of a text file begin and end are those of the document, without separators; of JSON lines those of
its whole line, without the line feed; of files of records (Parquet, Arrow, CSV, …) those of the
document among the documents of the file's text column, with a byte 255 behind each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import TextWithNames, check_fields
from bpeline.tokenizer_core.bounded_files import open_file, parse_json, read_bounded
from bpeline.tokenizer_core.corpus import Source, SourceFile, find_source_files, open_source
from bpeline.tokenizer_core.errors import CorpusChanged, CorruptFile, InvalidTokenizer
from bpeline.tokenizer_core.shards.number_files import HashedFile, NpyFile

INDEX_VERSION = 1
SOURCES_SUFFIX = ".sources.jsonl"
INDEX_SUFFIXES = (".docs.npy", SOURCES_SUFFIX, ".ids.jsonl")
PLACE = np.dtype([("source", "<i8"), ("begin", "<i8"), ("end", "<i8"), ("id_end", "<i8")])
_HEADER = 256  # bytes of a .npy file with these names before its records
SOURCES_BYTES = 1 << 30
_SKIP = 2 << 20


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a document stood when it was encoded.

    Attributes:
        path: of its file, absolute; or a URL.
        source: the label of the source that named the file.
        format: ``text``, ``jsonl``, ``parquet``, ….
        compression: None, ``gz``, ``zst``, ….
        file_size: bytes of the file, on disk.
        begin, end: bytes of the file's text, after decompression: the document, or its line.
        id: what the id field of its line held; None where there was none.
        field: of a file of records, the column of its text.
    """

    path: TextWithNames
    source: TextWithNames
    format: str
    compression: str | None
    file_size: int
    begin: int
    end: int
    id: str | int | float | None = None
    field: TextWithNames = ""

    def read(self) -> bytes:
        """The document, or its whole line of JSON, as it stands there now.

        A compressed file, and one of records, is read from its beginning.

        Raises:
            CorpusChanged: the file has another size than when it was encoded.
            MissingSource, UnreadableSource: it cannot be found or read.
        """
        (file,) = find_source_files([Source(self.path)])
        if file.size != self.file_size:
            raise CorpusChanged(
                f"{self.path} has {file.size} bytes and had {self.file_size} when it was encoded",
                "the file as it was",
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
    """Writes the three files of one shard, document by document.

    Args:
        paths: of the new files, in the order of `INDEX_SUFFIXES`.
        field: of files of records, the column of their text.
    """

    def __init__(self, paths: Sequence[Path], field: str = "") -> None:
        self._field = field
        self._places = NpyFile(paths[0], PLACE, _HEADER)
        self._sources, self._ids = (HashedFile(path, "u1") for path in paths[1:])
        self._path: str | None = None
        self._number = -1
        self._id_end = 0

    def add(self, file: SourceFile, spans: NDArray[np.int64], ids: Sequence[bytes]) -> None:
        """Append documents of one file.

        Args:
            file: where they stand; all of one file come one after another.
            spans: int64 ``[n, 2]``: bytes of its text.
            ids: for each of them JSON in ASCII, empty for none; or nothing at all.
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
        """All documents are there; release the files."""
        for file in (self._places, self._sources, self._ids):
            file.close()

    def digests(self) -> list[str]:
        """The SHA-256 of each file, when they are closed."""
        return [file.sha256() for file in (self._places, self._sources, self._ids)]


class DocumentIndex:
    """The index of one shard, memory-mapped.

    Args:
        paths: in the order of `INDEX_SUFFIXES`.
        documents: how many there must be.

    Attributes:
        places: ``[documents]`` records of `PLACE`.
        sources: for each file what its line says.

    Raises:
        CorruptFile: these files are no index of so many documents.
    """

    def __init__(self, paths: Sequence[Path], documents: int) -> None:
        self._path, (_, sources, self._ids) = paths[0], paths
        try:
            mapped = np.load(self._path, mmap_mode="r" if documents else None, allow_pickle=False)
        except (OSError, ValueError) as error:
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
                "a line of JSON for each file",
                "encode the files again",
            ) from error

    def __getitem__(self, number: int) -> DocumentPlace:
        """Where one document of the shard stood."""
        source, begin, end, id_end = self.places[number].tolist()
        id_begin = int(self.places[number - 1]["id_end"]) if number else 0
        if not (0 <= source < len(self.sources) and 0 <= begin <= end and 0 <= id_begin <= id_end):
            self._corrupt(f"says of document {number} what cannot be")
        id: Any = None
        try:
            if id_begin < id_end:
                with open_file(self._ids) as file:
                    file.seek(id_begin)
                    id = parse_json(file.read(id_end - id_begin))
            place = DocumentPlace(**self.sources[source], begin=begin, end=end)
            return replace(check_fields(place), id=id)
        except (TypeError, ValueError) as error:
            self._corrupt(f"says of document {number} what cannot be: {error}")

    def _corrupt(self, problem: str) -> NoReturn:
        raise CorruptFile(
            f"{self._path} {problem}", "the files as they were written", "encode the files again"
        )


def _line_of(file: SourceFile, field: str) -> bytes:
    said: dict[str, Any] = {
        "path": file.path,
        "source": file.source,
        "format": file.format,
        "compression": file.compression,
        "file_size": file.size,
        **({"field": field} if file.is_of_records else {}),
    }
    # Names of files need not be UTF-8: what is not, is escaped.
    return json.dumps(said).encode("ascii") + b"\n"
