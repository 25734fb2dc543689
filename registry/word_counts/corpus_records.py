"""Records of the files and chunks of a corpus, stored under the corpus's digest.

The catalogue only has the last reading of a file. With these records a version can be reproduced,
and files that have changed since can be reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bpeline.registry.catalogue import ChunkRecord, FileReading
from bpeline.registry.workspace import Workspace, read_record, write_record
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.records import check_fields

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A file as it was read."""

    path: str
    chunks: tuple[ChunkRecord, ...]
    source: str = ""

    @property
    def digest(self) -> str:
        """Digest of the digests of its chunks."""
        return digest_of([chunk.digest for chunk in self.chunks])

    @property
    def bytes(self) -> int:
        """Decompressed size."""
        return sum(chunk.end - chunk.begin for chunk in self.chunks)


def digest_of_corpus(
    readings: Sequence[FileReading] | Sequence[RecordedFile], sources: Sequence[str] = ()
) -> str:
    """Return the digest of the content of all files, in order, and of their sources.

    Args:
        sources: source name of each file; empty if sources have no names.
    """
    files = [[chunk.digest for chunk in reading.chunks] for reading in readings]
    if not sources:
        return digest_of(files)
    return digest_of(["sources", [list(pair) for pair in zip(sources, files, strict=True)]])


def keep_corpus_record(
    workspace: Workspace, readings: Sequence[FileReading], sources: Sequence[str] = ()
) -> str:
    """Write the record of a corpus and return its digest, see `digest_of_corpus`."""
    digest = digest_of_corpus(readings, sources)
    files = [
        [reading.path, [[c.digest, c.begin, c.end, c.ordinal] for c in reading.chunks]]
        for reading in readings
    ]
    for file, source in zip(files, sources, strict=False):
        file.append(source)
    record = {"format": _FORMAT, "corpus_digest": digest, "files": files}
    write_record(workspace.corpus_record(digest), record, workspace)
    return digest


def corpus_record(workspace: Workspace, digest: str) -> tuple[RecordedFile, ...] | None:
    """Return the files of a corpus in order; None if the record is missing or damaged."""
    try:
        record = read_record(workspace.corpus_record(digest), _FORMAT, workspace)
        files = tuple(_recorded(*file) for file in record["files"])
    except (CorruptFile, KeyError, TypeError, ValueError):
        return None
    sources = [file.source for file in files]
    return files if digest_of_corpus(files, sources if any(sources) else ()) == digest else None


def _recorded(path: str, chunks: Sequence[Sequence[Any]], *source: str) -> RecordedFile:
    chunk_records = tuple(check_fields(ChunkRecord(*chunk)) for chunk in chunks)
    return check_fields(RecordedFile(path, chunk_records, *source))
