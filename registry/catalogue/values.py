"""Values of the catalogue: times, chunks, file readings, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import SourceFile


def utc_now(later: float = 0.0) -> str:
    """Return the time in ``later`` seconds as ISO 8601 text, which sorts by time."""
    at = datetime.now(UTC) + timedelta(seconds=later)
    return at.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """One chunk as it was read: digest and byte range of the decompressed file."""

    digest: str
    begin: int
    end: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class FileReading:
    """The chunks of a file, and the file's state when they were read.

    Attributes:
        ctime_ns: time of the last change of content or metadata; programs cannot set it.
        chunk_bytes: the requested chunk size.
        reading_digest: of the options that turn bytes into text.
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
        return cls(file.path, *file.state, chunk_bytes, reading_digest, tuple(chunks))


class Registration(NamedTuple):
    """The number of a version in an MLflow when it was last seen there."""

    store: str
    name: str
    number: int
    digest: str


class Metric(NamedTuple):
    """One measured value; ``step`` is the vocab size, or 0 if it does not matter."""

    key: str
    step: int
    value: float


def as_asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored training request with defaults for options added later.

    Frequency BPE used to count words of the whole text instead of sentences.
    """
    options = config.get("options") or {}
    of_sentences = options.get("sentences", "punkt") == "punkt"
    if config.get("algorithm") != "frequency-bpe" or not of_sentences:
        return dict(config)
    return {**config, "options": {"word_sentences": "text", **options}}
