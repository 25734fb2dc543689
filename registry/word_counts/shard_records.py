"""What is known of one chunk's word counts without reading them; knows no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bpeline.registry.word_counts.rows import Rows
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import Reading
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
    """What is known of the counts of one chunk without reading them.

    Attributes:
        key: digest of the chunk's and the reading's digest.
        pattern: the split pattern.
        file: where they lie: the key, or the name of a file that several chunks share.
        counts: what that file holds.
        held_out: what its file of held-out documents holds; None where there is none.
        first_row, first_document: where those of this chunk begin in them.
        words: rows; distinct words unless the chunk was counted in several parts.
        total: Σ count.
        total_bytes: Σ count · length.
        documents: documents in the chunk.
        bytes_counted: bytes of text counted.
        special_tokens_seen: occurrences of special tokens.
        replaced_utf8: sequences read as U+FFFD.
        held_out_documents: documents kept from counting.
        held_out_bytes: bytes of these.
        parts: in how many parts the chunk was counted.
        left_out_bytes, left_out_documents: of the evaluation set.
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
    """A shard at its place in a corpus.

    Attributes:
        key: of the shard.
        position_base: added to its first positions: where its chunk begins in the corpus.
    """

    key: str
    position_base: int = 0

    @property
    def row(self) -> list[Any]:
        """What the key of a table holds of it: that it is counted once, too."""
        return [self.key, _ONCE, int(self.position_base)]


# A small chunk is asked for, put down and written, each by its key.
@lru_cache(maxsize=1 << 12)
def shard_key(chunk_digest: str, reading_digest: str) -> str:
    """The name of the counts of one chunk, read in one way."""
    # The number stays: evaluation sets name the chunks that they were held out of by these keys.
    return digest_of(["shard", 2, chunk_digest, reading_digest])


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of counts of chunks that are read in one way.

    Chunks that the evaluation set was held out of are counted as they were then, also by later
    trainings of its name: all others are looked into.

    Attributes:
        reading: how the chunks of a source are read.
        digest: of it.
        plain: the same without looking for the evaluation set.
        plain_digest: of that.
    """

    reading: Reading
    digest: str
    plain: Reading
    plain_digest: str

    @classmethod
    def of(cls, reading: Reading) -> ShardKeys:
        plain = replace(reading, left_out=None)
        return cls(reading, reading.digest, plain, plain.digest)

    @classmethod
    def of_sources(cls, reading: Reading, sources: Iterable[str]) -> dict[str, ShardKeys]:
        """Those of each of some sources."""
        return {name: cls.of(reading.of_source(name)) for name in sources}

    def are_plain(self, chunk_digests: Iterable[str]) -> bool:
        """Whether the evaluation set was held out of all of these chunks."""
        keys = (shard_key(digest, self.plain_digest) for digest in chunk_digests)
        return self.reading.left_out is not None and not self.reading.left_out.looks_into(keys)

    def reading_of(self, chunk_digest: str) -> tuple[Reading, str]:
        """How a chunk is read, and the digest of that."""
        if self.are_plain([chunk_digest]):
            return self.plain, self.plain_digest
        return self.reading, self.digest

    def key(self, chunk_digest: str) -> str:
        return shard_key(chunk_digest, self.reading_of(chunk_digest)[1])


def digest_without(chunk_digest: str, copies: bytes) -> str:
    """The digest of a chunk of which some documents were left out: another chunk.

    Args:
        copies: which ones, see `Duplicates.within`; where none was, it is the chunk itself.
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
    """JSON values of the chunks in one file.

    Args:
        parts: as they were counted, in the order of the file; one for each of what follows.
        keys: of the chunks.
        words: rows of each.
        sums: Σ count and Σ count · length of each.
        counts, held_out: what the files hold.
    """
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
    """The chunks in a file.

    Raises:
        KeyError, TypeError, ValueError, InvalidPattern: the record was not made by `as_record`.
    """
    pattern = SplitPattern.from_record(record["pattern"])
    counts, held_out = Rows(*record["counts"]), record["held_out"] and Rows(*record["held_out"])
    names = ("key", *_SUMS)
    if any(set(map(type, record[name])) - {int} for name in _SUMS):
        raise ValueError
    row = document = 0
    shards = []
    for values in zip(*(record[name] for name in names), strict=True):
        told = dict(zip(names, values, strict=True))
        shard = Shard(
            pattern=pattern, file=file, counts=counts, held_out=held_out, first_row=row,
            first_document=document, **told,
        )  # fmt: skip
        shards.append(shard)
        row, document = row + shard.words, document + shard.held_out_documents
    if row != counts.number or document != (held_out.number if held_out else 0):
        raise ValueError
    return shards
