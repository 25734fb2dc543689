"""Records of shards: the word counts of one chunk, without their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bpeline.registry.word_counts.rows import Rows
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import ReadOptions
    from bpeline.tokenizer_core.counting import ChunkCounts

RECORD_FORMAT = 3
_ONCE = "0x1.0000000000000p+0"  # a weight of 1, in the keys of all tables
_AS_COUNTED = (
    "documents", "bytes_counted", "special_tokens_seen", "replaced_utf8", "parts", "left_out_bytes",
    "left_out_documents",
)  # fmt: skip
_SUMS = ("words", "total", "total_bytes", "held_out_documents", "held_out_bytes", *_AS_COUNTED)


@dataclass(frozen=True, slots=True)
class Shard:
    """The record of one chunk's word counts.

    Attributes:
        key: digest of the chunk's digest and the digest of how it was read.
        file: name of the counts' file: the key, or a name shared by several chunks.
        counts: rows of that file.
        held_out: rows of its file of held-out documents, or None.
        first_row, first_document: first rows of this chunk in these files.
        words: number of rows; distinct words unless ``parts`` > 1.
        total: Σ count.
        total_bytes: Σ count · length.
        replaced_utf8: invalid sequences read as U+FFFD.
        held_out_documents, held_out_bytes: documents excluded from counting.
        left_out_bytes, left_out_documents: removed because they are in the evaluation set.
    """

    key: str
    pattern: SplitPattern
    file: str
    counts: Rows
    held_out: Rows | None
    first_row: int
    first_document: int
    words: int
    total: int
    total_bytes: int
    documents: int
    bytes_counted: int
    special_tokens_seen: int
    replaced_utf8: int
    held_out_documents: int
    held_out_bytes: int
    parts: int
    left_out_bytes: int
    left_out_documents: int


@dataclass(frozen=True, slots=True)
class ShardRef:
    """A shard at its position in a corpus.

    Attributes:
        position_base: byte offset of the chunk in the corpus, added to its first positions.
    """

    key: str
    position_base: int = 0

    @property
    def row(self) -> list[Any]:
        """The entry of the shard in a table's key: key, weight 1, position."""
        return [self.key, _ONCE, int(self.position_base)]


@lru_cache(maxsize=1 << 12)  # each small chunk needs its key several times
def shard_key(chunk_digest: str, reading_digest: str) -> str:
    """Return the key of the counts of a chunk, read with these options."""
    # The number 2 must stay: evaluation sets refer to chunks by these keys.
    return digest_of(["shard", 2, chunk_digest, reading_digest])


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """Keys of chunks that are read with the same options.

    Chunks that the evaluation set was held out of are counted without decontamination, all other
    chunks with it.

    Attributes:
        reading: how the chunks of a source are read.
        plain: the same without decontamination.
    """

    reading: ReadOptions
    digest: str
    plain: ReadOptions
    plain_digest: str

    @classmethod
    def of(cls, reading: ReadOptions) -> ShardKeys:
        plain = replace(reading, left_out=None)
        return cls(reading, reading.digest, plain, plain.digest)

    @classmethod
    def of_sources(cls, reading: ReadOptions, sources: Iterable[str]) -> dict[str, ShardKeys]:
        """Return source name → keys."""
        return {name: cls.of(reading.of_source(name)) for name in sources}

    def are_plain(self, chunk_digests: Iterable[str]) -> bool:
        """Whether the evaluation set was held out of all of these chunks."""
        keys = (shard_key(digest, self.plain_digest) for digest in chunk_digests)
        return self.reading.left_out is not None and not self.reading.left_out.looks_into(keys)

    def reading_of(self, chunk_digest: str) -> tuple[ReadOptions, str]:
        """Return how a chunk is read, and the digest of that."""
        if self.are_plain([chunk_digest]):
            return self.plain, self.plain_digest
        return self.reading, self.digest

    def key(self, chunk_digest: str) -> str:
        return shard_key(chunk_digest, self.reading_of(chunk_digest)[1])


def digest_without(chunk_digest: str, copies: bytes) -> str:
    """Return the digest of a chunk without its duplicate documents.

    Args:
        copies: the duplicates, see `Duplicates.within`; if empty, the digest is unchanged.
    """
    if not copies:
        return chunk_digest
    return digest_of(["without copies", chunk_digest, digest_of_bytes(copies)])


def as_record(
    parts: Sequence[ChunkCounts],
    keys: Sequence[str],
    words: Sequence[int],
    sums: Sequence[tuple[int, int]],
    counts: Rows,
    held_out: Rows | None,
) -> dict[str, Any]:
    """Return the record of the chunks in one file as JSON values."""
    record: dict[str, Any] = {
        "format": RECORD_FORMAT,
        "pattern": parts[0].counts.pattern.as_record(),
        "counts": astuple(counts),
        "held_out": held_out and astuple(held_out),
        "key": keys,
        "words": words,
        "total": [total for total, _ in sums],
        "total_bytes": [size for _, size in sums],
        "held_out_documents": [len(part.held_out) for part in parts],
        "held_out_bytes": [sum(map(len, part.held_out)) for part in parts],
    }
    return record | {name: [int(getattr(part, name)) for part in parts] for name in _AS_COUNTED}


def from_record(record: Mapping[str, Any], file: str) -> list[Shard]:
    """Read the output of `as_record`."""
    pattern = SplitPattern.from_record(record["pattern"])
    counts, held_out = Rows(*record["counts"]), record["held_out"] and Rows(*record["held_out"])
    names = ("key", *_SUMS)
    if any(set(map(type, record[name])) - {int} for name in _SUMS):
        raise ValueError
    row = document = 0
    shards = []
    for values in zip(*(record[name] for name in names), strict=True):
        fields = dict(zip(names, values, strict=True))
        shard = Shard(
            pattern=pattern, file=file, counts=counts, held_out=held_out, first_row=row,
            first_document=document, **fields,
        )  # fmt: skip
        shards.append(shard)
        row, document = row + shard.words, document + shard.held_out_documents
    if row != counts.number or document != (held_out.number if held_out else 0):
        raise ValueError
    return shards
