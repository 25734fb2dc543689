"""One chunk's word counts as files: words in Arrow, held-out documents in Arrow, a record.

A shard is immutable and may be written by any process; its record is written last and is what makes
it exist. Arrow files are the arrays themselves: writing or reading one costs a third of Parquet,
for twice its size. Which shards belong together, others know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.word_counts.arrow_columns import (
    counts_as_file,
    counts_from_file,
    documents_as_file,
    documents_from_file,
)
from bpeline.registry.workspace import (
    FileSeal,
    Workspace,
    damaged,
    fetch,
    fetch_all,
    forget,
    read_record,
    share,
    write_record,
)
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, InvalidPattern
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import ChunkCounts, WordCounts
    from bpeline.tokenizer_core.splitting import SplitPattern

SHARD_FORMAT = 2
_ONCE = "0x1.0000000000000p+0"  # a weight of 1, in the keys of all tables


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


def shard_key(chunk_digest: str, reading_digest: str) -> str:
    """The name of the counts of one chunk, read in one way."""
    return digest_of(["shard", SHARD_FORMAT, chunk_digest, reading_digest])


class ShardFiles:
    """The shards of a workspace.

    Args:
        workspace: where they lie.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def write(self, counted: ChunkCounts, reading_digest: str) -> Shard:
        """Write a chunk's counts, replacing a shard of the same key.

        Raises:
            DiskFull: no space; an earlier shard of the same key may be lost.
        """
        key = shard_key(counted.chunk.digest, reading_digest)
        counts, held_out = counted.counts, counted.held_out
        counts_seal = self._write(self._workspace.shard_counts(key), counts_as_file(counts))
        held_out_seal = None
        if held_out:
            path = self._workspace.shard_held_out(key)
            held_out_seal = self._write(path, documents_as_file(held_out))
        shard = Shard(
            key=key,
            pattern=counts.pattern,
            words=len(counts),
            total=counts.total,
            total_bytes=counts.total_bytes,
            documents=int(counted.documents),
            bytes_counted=int(counted.bytes_counted),
            special_tokens_seen=int(counted.special_tokens_seen),
            replaced_utf8=int(counted.replaced_utf8),
            held_out_documents=len(held_out),
            held_out_bytes=sum(map(len, held_out)),
            counts_seal=counts_seal,
            held_out_seal=held_out_seal,
            parts=int(counted.parts),
        )
        write_record(self._workspace.shard_manifest(key), _as_record(shard), self._workspace)
        return shard

    def expect(self, keys: Iterable[str]) -> None:
        """Fetch the records of chunks that other machines may have counted, many at once.

        Raises:
            StorageError: the workspace's store does not answer.
        """
        fetch_all(self._workspace, map(self._workspace.shard_manifest, keys))

    def read(self, key: str) -> Shard:
        """What is known of a shard; its files are not opened.

        Raises:
            CorruptFile: there is no such shard, or its record is damaged.
        """
        path = self._workspace.shard_manifest(key)
        record = read_record(path, SHARD_FORMAT, self._workspace)
        try:
            shard = _from_record(record)
        except (KeyError, TypeError, InvalidPattern) as error:
            raise damaged(path) from error
        if shard.key != key:
            raise damaged(path)
        return shard

    def verify(self, shard: Shard) -> None:
        """Read the shard's words and compare them with its record.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        self._content(shard.counts_seal, self._workspace.shard_counts(shard.key))

    def counts(self, shard: Shard, pattern: SplitPattern) -> WordCounts:
        """The shard's words, verified; first positions are bytes from the chunk's begin.

        Args:
            shard: as `read` gave it.
            pattern: the one it names, parsed.

        Raises:
            CorruptFile: they are missing or have other content.
        """
        content = self._content(shard.counts_seal, self._workspace.shard_counts(shard.key))
        return counts_from_file(content, pattern)

    def is_there(self, key: str) -> bool:
        """Whether a shard exists, as far as its record and the sizes of its files tell.

        Raises:
            StorageError: the workspace's store does not answer.
        """
        if not fetch(self._workspace, self._workspace.shard_manifest(key)):
            return False
        try:
            shard = self.read(key)
        except CorruptFile:
            return False
        held_out = shard.held_out_seal
        return self._seems_there(shard.counts_seal, self._workspace.shard_counts(key)) and (
            held_out is None or self._seems_there(held_out, self._workspace.shard_held_out(key))
        )

    def forget(self, key: str) -> None:
        """Remove a shard, its record first."""
        for path in (
            self._workspace.shard_manifest(key),
            self._workspace.shard_counts(key),
            self._workspace.shard_held_out(key),
        ):
            forget(self._workspace, path)

    def held_out(self, shard: Shard) -> Iterator[bytes]:
        """The held-out documents of a shard, in the order of the chunk.

        Raises:
            CorruptFile: they are missing or not what was written.
        """
        if shard.held_out_seal is not None:
            path = self._workspace.shard_held_out(shard.key)
            yield from documents_from_file(self._content(shard.held_out_seal, path))

    def _write(self, path: Path, content: Any) -> FileSeal:
        share(self._workspace, path, content)
        DURABLE.write(path, content)
        return FileSeal.of_content(content)

    def _content(self, seal: FileSeal, path: Path) -> bytes:
        fetch(self._workspace, path)
        return seal.read(path)

    def _seems_there(self, seal: FileSeal, path: Path) -> bool:
        """What is only in the store went there before the shard's record; it is fetched late."""
        return seal.fits(path) or (bool(self._workspace.store) and not path.exists())


def _as_record(shard: Shard) -> dict[str, Any]:
    record: dict[str, Any] = {name: getattr(shard, name) for name in Shard.__slots__}
    record["pattern"] = shard.pattern.as_record()
    for name in ("counts_seal", "held_out_seal"):
        seal = record[name]
        record[name] = None if seal is None else [seal.size, seal.sha256]
    return {"format": SHARD_FORMAT, **record}


def _from_record(record: dict[str, Any]) -> Shard:
    values = {name: record[name] for name in Shard.__slots__ if name != "parts"}
    values["parts"] = record.get("parts", 0)
    values["pattern"] = SplitPattern.from_record(values["pattern"])
    for name in ("counts_seal", "held_out_seal"):
        values[name] = None if values[name] is None else FileSeal(*values[name])
    return Shard(**values)
