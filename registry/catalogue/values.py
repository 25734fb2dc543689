"""Values of the catalogue that need no database: times, chunks, readings, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import SourceFile


def utc_now(later: float = 0.0) -> str:
    """The time as the catalogue keeps it, or so many seconds later; texts compare as times do."""
    at = datetime.now(UTC) + timedelta(seconds=later)
    return at.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """One chunk as it was read.

    Attributes:
        digest: of its bytes.
        begin: byte where it begins in the decompressed file.
        end: byte where it ends.
        ordinal: its place in the file, from 0.
    """

    digest: str
    begin: int
    end: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class FileReading:
    """Which chunks a file held when it had this size, these times and this inode.

    Attributes:
        path: absolute path.
        size: bytes on disk.
        mtime_ns: time of the last change of the content.
        ctime_ns: time of the last change of anything; cannot be set back by programs.
        inode: which file the path named.
        chunk_bytes: the grid that was asked for.
        reading_digest: how bytes were turned into text.
        chunks: in the order of the file.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    chunk_bytes: int
    reading_digest: str
    chunks: tuple[ChunkRecord, ...]

    @classmethod
    def of(
        cls,
        file: SourceFile,
        chunk_bytes: int,
        reading_digest: str,
        chunks: Sequence[ChunkRecord],
    ) -> FileReading:
        """The reading of a source file that has just been read."""
        return cls(file.path, *file.state, chunk_bytes, reading_digest, tuple(chunks))


class Registration(NamedTuple):
    """An MLflow, of this identity, had a version under this number when it was last seen there."""

    store: str
    name: str
    number: int
    digest: str


class Metric(NamedTuple):
    """One measured value; ``step`` is the vocab size for metrics that vary with it, else 0."""

    key: str
    step: int
    value: float


def as_asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored request, with what it means where it has no value for a later option.

    Frequency BPE counted the words of the whole text before it counted those of sentences.
    """
    options = config.get("options") or {}
    of_sentences = options.get("sentences", "punkt") == "punkt"
    if config.get("algorithm") != "frequency-bpe" or not of_sentences:
        return dict(config)
    return {**config, "options": {"word_sentences": "text", **options}}
