"""Which files a corpus was, and which chunks each held: kept under the corpus's digest.

What the catalogue knows of a file is how it was last read; this is how it was read then, so that a
version can be rebuilt and a file that has changed since be named.
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
    """A file as it was read.

    Attributes:
        path: absolute path.
        chunks: in the order of the file.
        source: the named source it belongs to; empty where sources were not named.
    """

    path: str
    chunks: tuple[ChunkRecord, ...]
    source: str = ""

    @property
    def digest(self) -> str:
        """Of its content: the digest of its chunks' digests."""
        return digest_of([chunk.digest for chunk in self.chunks])

    @property
    def bytes(self) -> int:
        """Of its content, decompressed."""
        return sum(chunk.end - chunk.begin for chunk in self.chunks)


def digest_of_corpus(
    readings: Sequence[FileReading] | Sequence[RecordedFile], sources: Sequence[str] = ()
) -> str:
    """Digest of the content of all files in order, wherever they lie, and of whose they are.

    Args:
        sources: the named source of every file; empty where sources were not named.
    """
    files = [[chunk.digest for chunk in reading.chunks] for reading in readings]
    if not sources:
        return digest_of(files)
    return digest_of(["sources", [list(one) for one in zip(sources, files, strict=True)]])


def keep_corpus_record(
    workspace: Workspace, readings: Sequence[FileReading], sources: Sequence[str] = ()
) -> str:
    """Keep which files made a corpus; the paths of the last reading of the same content stay.

    Arguments as `digest_of_corpus`.

    Returns:
        The digest of the corpus.

    Raises:
        DiskFull: no space left.
    """
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
    """The files of a corpus in their order; None where that was not kept, or is damaged."""
    try:
        record = read_record(workspace.corpus_record(digest), _FORMAT, workspace)
        files = tuple(_recorded(*file) for file in record["files"])
    except (CorruptFile, KeyError, TypeError, ValueError):
        return None
    sources = [file.source for file in files]
    return files if digest_of_corpus(files, sources if any(sources) else ()) == digest else None


def _recorded(path: str, chunks: Sequence[Sequence[Any]], *source: str) -> RecordedFile:
    read = tuple(check_fields(ChunkRecord(*chunk)) for chunk in chunks)
    return check_fields(RecordedFile(path, read, *source))
