"""What is known of one chunk's word counts without reading them; knows no files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bpeline.registry.workspace import FileSeal
from bpeline.tokenizer_core.arguments import check_fields
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.corpus import Reading
    from bpeline.tokenizer_core.counting import ChunkCounts, WordCounts

SHARD_FORMAT = 2
_ONCE = "0x1.0000000000000p+0"  # a weight of 1, in the keys of all tables


@dataclass(frozen=True, slots=True)
class Packed:
    """A shard's place in a pack.

    Attributes:
        pack: its name.
        rows: half-open, of the pack's words.
        documents: half-open, of the pack's held-out documents.
    """

    pack: str
    rows: tuple[int, int]
    documents: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shard:
    """What is known of a shard without reading its words.

    Attributes:
        key: digest of the chunk's and the reading's digest.
        pattern: the split pattern.
        words: rows; distinct words unless the chunk was counted in several parts.
        total: Σ count.
        total_bytes: Σ count · length.
        documents: documents in the chunk.
        bytes_counted: bytes of text counted.
        special_tokens_seen: occurrences of special tokens.
        replaced_utf8: sequences read as U+FFFD.
        held_out_documents: documents kept from counting.
        held_out_bytes: bytes of these.
        counts_seal: of the file of words.
        held_out_seal: of the file of held-out documents; None when there is none.
        parts: in how many parts the chunk was counted; 0 where that was not kept.
        packed: where it lies in a pack, whose files the seals are of; None: it has its own.
        left_out_bytes, left_out_documents: of the evaluation set; None where that was not kept.
    """

    key: str
    pattern: SplitPattern
    words: int
    total: int
    total_bytes: int
    documents: int
    bytes_counted: int
    special_tokens_seen: int
    replaced_utf8: int
    held_out_documents: int
    held_out_bytes: int
    counts_seal: FileSeal
    held_out_seal: FileSeal | None
    parts: int = 0
    packed: Packed | None = None
    left_out_bytes: int | None = None
    left_out_documents: int | None = None


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


@dataclass(frozen=True, slots=True)
class Placed:
    """A shard that is to be added up.

    Attributes:
        shard: as its record says.
        bases: at least one: the positions in the corpus at which its chunk stands.
    """

    shard: Shard
    bases: Sequence[int]


@dataclass(frozen=True, slots=True)
class RowSums:
    """Sums over rows of counts; see `Shard`."""

    words: int = 0
    total: int = 0
    total_bytes: int = 0

    def with_rows(self, counts: WordCounts) -> RowSums:
        """Those of more rows."""
        return RowSums(
            self.words + len(counts),
            self.total + counts.total,
            self.total_bytes + counts.total_bytes,
        )


_RECORDED = tuple(name for name in Shard.__slots__ if name != "packed")


# A small chunk is asked for, put down and written, each by its key.
@lru_cache(maxsize=1 << 12)
def shard_key(chunk_digest: str, reading_digest: str) -> str:
    """The name of the counts of one chunk, read in one way."""
    return digest_of(["shard", SHARD_FORMAT, chunk_digest, reading_digest])


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
        copies: which ones, see `Copies.within`; where none was, it is the chunk itself.
    """
    if not copies:
        return chunk_digest
    return digest_of(["without copies", chunk_digest, digest_of_bytes(copies)])


def shard_of(
    counted: ChunkCounts,
    key: str,
    rows: RowSums,
    counts_seal: FileSeal,
    held_out_seal: FileSeal | None,
) -> Shard:
    """What is kept of a chunk that was counted."""
    return Shard(
        key=key,
        pattern=counted.counts.pattern,
        words=rows.words,
        total=rows.total,
        total_bytes=rows.total_bytes,
        documents=int(counted.documents),
        bytes_counted=int(counted.bytes_counted),
        special_tokens_seen=int(counted.special_tokens_seen),
        replaced_utf8=int(counted.replaced_utf8),
        held_out_documents=len(counted.held_out),
        held_out_bytes=sum(map(len, counted.held_out)),
        counts_seal=counts_seal,
        held_out_seal=held_out_seal,
        parts=int(counted.parts),
        left_out_bytes=counted.left_out_bytes,
        left_out_documents=counted.left_out_documents,
    )


def as_record(shard: Shard) -> dict[str, Any]:
    """JSON values of a shard that has files of its own."""
    record: dict[str, Any] = {name: getattr(shard, name) for name in _RECORDED}
    record["pattern"] = shard.pattern.as_record()
    for name in ("counts_seal", "held_out_seal"):
        seal = record[name]
        record[name] = None if seal is None else [seal.size, seal.sha256]
    return {"format": SHARD_FORMAT, **record}


def from_record(record: dict[str, Any]) -> Shard:
    """What `as_record` was given.

    Raises:
        KeyError, TypeError, ValueError: not such a record.
    """
    later = {"parts": 0, "left_out_bytes": None, "left_out_documents": None}
    values = {name: {**later, **record}[name] for name in _RECORDED}
    values["pattern"] = SplitPattern.from_record(values["pattern"])
    for name in ("counts_seal", "held_out_seal"):
        values[name] = None if values[name] is None else FileSeal(*values[name])
    return check_fields(Shard(**values))
