"""The word-count store: chunks' counts as shards, a corpus's counts as one table.

Says which shards and tables exist, which are believed and which forgotten; how they lie on disk is
in `registry.word_count_shards` and `registry.word_count_tables`. Knows nothing of the files that
were counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from registry.sealed_records import damaged, read_record, write_record
from registry.word_count_shards import Shard, ShardFiles, shard_key
from registry.word_count_sums import sum_in_memory
from registry.word_count_tables import build_table, log_of, read_table, write_table
from registry.workspace import Workspace
from tokenizer_core.digests import digest_of, digest_of_bytes
from tokenizer_core.durable_files import DURABLE
from tokenizer_core.errors import (
    CorruptFile,
    EmptyCorpus,
    InvalidOption,
    InvalidPattern,
    StorageError,
)
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.word_counts import COUNT_LIMIT, WordCounts

if TYPE_CHECKING:
    from tokenizer_core.chunk_counts import ChunkCounts

__all__ = ["ShardRef", "ShardStatistics", "TableHandle", "WordCountStore", "shard_key"]

TABLE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class ShardRef:
    """A shard at its place in a corpus.

    Attributes:
        key: of the shard.
        weight: factor for its counts; 1.0 leaves them exact.
        position_base: added to its first positions: where its chunk begins in the corpus.
    """

    key: str
    weight: float = 1.0
    position_base: int = 0


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A finished word-count table: what is passed between steps.

    Attributes:
        key: digest of the shards, weights and bases it was made from.
        path: the DuckDB file.
        rows: distinct words.
        total: Σ count.
        total_bytes: Σ count · length.
        counts_digest: `WordCounts.digest` of its content.
        reused: whether it had been made before.
        counts: its content, where the handle comes from the process that has just made it; spares
            that process from reading what it wrote.
    """

    key: str
    path: Path
    rows: int
    total: int
    total_bytes: int
    counts_digest: str
    reused: bool = False
    counts: WordCounts | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """Sums over shards; a shard named twice counts twice. See `Shard` for the meanings."""

    shards: int = 0
    words: int = 0  # of each shard by itself: an upper bound of the distinct words
    total: int = 0
    total_bytes: int = 0
    documents: int = 0
    bytes_counted: int = 0
    special_tokens_seen: int = 0
    replaced_utf8: int = 0
    held_out_documents: int = 0
    held_out_bytes: int = 0


class _Limits(TypedDict):
    threads: int
    memory_limit: int


class WordCountStore:
    """Shards and tables of one workspace. Many may write shards; one process at a time combines.

    Args:
        workspace: where they lie.
        memory_limit: bytes for adding up. What does not fit is added up by DuckDB, which spills
            to the workspace's disk beyond them.
        threads: for that; None takes one for each processor.
    """

    def __init__(
        self, workspace: Workspace, *, memory_limit: int = 2 << 30, threads: int | None = None
    ) -> None:
        self._workspace = workspace
        self._shards = ShardFiles(workspace)
        self._memory_limit = memory_limit
        self._threads = threads or os.cpu_count() or 1

    # ---- shards ----------------------------------------------------------------------------

    def has(self, chunk_digest: str, reading_digest: str) -> bool:
        """Whether a chunk was counted; the content is verified when it is combined."""
        return self._shards.is_there(shard_key(chunk_digest, reading_digest))

    def put(self, counts: ChunkCounts, reading_digest: str) -> str:
        """Keep a chunk's counts; returns the shard's key.

        Raises:
            DiskFull: no space left.
        """
        return self._shards.write(counts, reading_digest).key

    def forget_shard(self, key: str) -> None:
        """Remove a shard, so that `has` says no."""
        self._shards.forget(key)

    def statistics(self, keys: Sequence[str]) -> ShardStatistics:
        """Sums over shards, without reading their words.

        Raises:
            CorruptFile: a shard is missing or its record damaged; it is forgotten.
        """
        shards = self._read_shards(keys, verify=False)
        sums = {
            name: sum(getattr(shards[key], name) for key in keys)
            for name in ShardStatistics.__slots__
            if name != "shards"
        }
        return ShardStatistics(shards=len(keys), **sums)

    def held_out_documents(self, keys: Sequence[str], limit_bytes: int) -> list[bytes]:
        """Held-out documents of some shards, in order; a shard named twice is read once.

        When there are more than ``limit_bytes``, documents are left out evenly over the whole
        corpus, so that every shard keeps its share; the choice is always the same. When none of
        them fits, the beginning of the first is taken.

        Raises:
            CorruptFile: a shard is damaged; it is forgotten.
        """
        shards = self._read_shards(keys, verify=False)
        available = sum(shard.held_out_bytes for shard in shards.values())
        chosen: list[bytes] = []
        first = b""
        seen = taken = 0
        damaged: CorruptFile | None = None
        for shard in shards.values():
            try:
                with self._forgetting(shard.key):
                    for document in self._shards.held_out(shard):
                        seen += len(document)
                        first = first or document[:limit_bytes]
                        share = (taken + len(document)) * max(available, limit_bytes)
                        if share <= limit_bytes * seen:
                            taken += len(document)
                            chosen.append(document)
            except CorruptFile as error:  # look at the others too: all are counted again at once
                damaged = damaged or error
        if damaged is not None:
            raise damaged
        if not chosen and first:
            chosen.append(first.decode(errors="ignore").encode())  # not a part of a character
        return chosen

    # ---- tables ----------------------------------------------------------------------------

    def combine(self, refs: Sequence[ShardRef]) -> TableHandle:
        """Add up shards into one table, or find the table made of the same shards earlier.

        Counts of equal weight are added, multiplied by the weight, rounded half to even, and
        added again; words left with 0 vanish. The result equals `combine_word_counts`.

        Args:
            refs: shards of one split pattern, in any order.

        Raises:
            EmptyCorpus: no shards.
            CorruptFile: shards are damaged; they are forgotten, so that `has` says no and they
                can be counted again.
            InvalidOption: different patterns, an impossible weight, or a sum above 2⁶³ − 1.
            DiskFull: no space left.
            StorageError: DuckDB cannot finish, for instance within its memory limit.
        """
        for ref in refs:
            if not 0 <= ref.weight < float("inf"):
                raise InvalidOption(
                    f"a source cannot have the weight {ref.weight}",
                    "weights are finite numbers from 0 upwards",
                    "use 1.0 to count a source once, 0.5 to count it half",
                )
        rows = sorted([ref.key, float(ref.weight).hex(), int(ref.position_base)] for ref in refs)
        key = digest_of(["table", TABLE_FORMAT, rows])
        earlier = self.table(key)
        if earlier is not None:
            return earlier
        if not refs:
            raise EmptyCorpus(
                "there are no word counts to combine",
                "a corpus has at least one chunk",
                "name files that hold text",
            )
        shards = self._read_shards([ref.key for ref in refs], verify=False)
        patterns = {shard.pattern for shard in shards.values()}
        if len(patterns) > 1:
            raise InvalidOption(
                f"the shards were counted with {len(patterns)} different split patterns",
                "one table holds counts of one pattern",
                "count the whole corpus with the same pattern",
            )
        path = self._workspace.table(key)
        with DURABLE.writing_aside(path) as temporary:
            counts = self._make_table(temporary, refs, shards, patterns.pop())
        handle = TableHandle(
            key, path, len(counts), counts.total, counts.total_bytes, counts.digest, counts=counts
        )
        record = {
            "format": TABLE_FORMAT,
            "key": key,
            "pattern": counts.pattern.as_record(),
            "rows": handle.rows,
            "total": handle.total,
            "total_bytes": handle.total_bytes,
            "counts_digest": handle.counts_digest,
            "positions_digest": digest_of_bytes(counts.first_positions),
            "shards": list(shards),
        }
        write_record(self._workspace.table_manifest(key), record)
        return handle

    def open_table(self, handle: TableHandle) -> WordCounts:
        """Read a table; rows are in order of sight. One that was just made is not read again.

        Raises:
            CorruptFile: it is missing or not what was written; it is forgotten, so that
                `combine` makes it anew.
        """
        if handle.counts is not None:
            return handle.counts
        path = self._workspace.table(handle.key)
        try:
            record = read_record(self._workspace.table_manifest(handle.key), TABLE_FORMAT)
            log = log_of(path)
            if not path.exists() or log.exists():
                raise damaged(log if log.exists() else path)
            counts = read_table(path, SplitPattern.from_record(record["pattern"]), **self._limits)
            if (counts.digest, digest_of_bytes(counts.first_positions), handle.counts_digest) != (
                record["counts_digest"],
                record["positions_digest"],
                record["counts_digest"],
            ):
                raise damaged(path)
        except (CorruptFile, KeyError, InvalidPattern) as error:
            self.forget_table(handle.key)
            raise error if isinstance(error, CorruptFile) else damaged(path) from error
        return counts

    def shards_of(self, table_key: str) -> tuple[str, ...]:
        """The keys of the shards that a table adds up, in the order of the corpus.

        Raises:
            CorruptFile: the table's record is missing or damaged.
        """
        path = self._workspace.table_manifest(table_key)
        try:
            return tuple(read_record(path, TABLE_FORMAT)["shards"])
        except (KeyError, TypeError) as error:
            raise damaged(path) from error

    def forget_table(self, key: str) -> None:
        """Remove a table, its record first."""
        path = self._workspace.table(key)
        for part in (self._workspace.table_manifest(key), path, log_of(path)):
            if part.exists():
                DURABLE.remove(part)

    def table(self, key: str) -> TableHandle | None:
        """The table of that key, if it was made and its record is sound."""
        path, manifest = self._workspace.table(key), self._workspace.table_manifest(key)
        if not (path.exists() and manifest.exists()):
            return None
        try:
            record = read_record(manifest, TABLE_FORMAT)
            return TableHandle(
                key=key,
                path=path,
                rows=record["rows"],
                total=record["total"],
                total_bytes=record["total_bytes"],
                counts_digest=record["counts_digest"],
                reused=True,
            )
        except (CorruptFile, KeyError):
            return None

    def _read_shards(self, keys: Sequence[str], *, verify: bool) -> dict[str, Shard]:
        """The shards' records; forgets all damaged ones, then complains of the first."""
        shards: dict[str, Shard] = {}
        complaint: CorruptFile | None = None
        for key in dict.fromkeys(keys):
            try:
                with self._forgetting(key):
                    shards[key] = self._shards.read(key)
                    if verify:
                        self._shards.verify(shards[key])
            except CorruptFile as error:
                complaint = complaint or error
        if complaint is not None:
            raise complaint
        return shards

    @contextmanager
    def _forgetting(self, key: str) -> Iterator[None]:
        try:
            yield
        except CorruptFile:
            self._shards.forget(key)
            raise

    def _make_table(
        self,
        path: Path,
        refs: Sequence[ShardRef],
        shards: Mapping[str, Shard],
        pattern: SplitPattern,
    ) -> WordCounts:
        """Write the table of some shards; its content, in order of sight."""
        total = sum(shards[ref.key].total for ref in refs)
        unweighted = all(ref.weight == 1 for ref in refs)
        counts = None
        if unweighted and total <= COUNT_LIMIT:
            counts = self._sum_in_memory(refs, shards, pattern)
        if counts is not None:
            write_table(path, counts, **self._limits)
        else:
            self._read_shards(list(shards), verify=True)
            parts = (
                (
                    self._shards.counts(shards[ref.key], pattern).shifted(ref.position_base),
                    ref.weight,
                )
                for ref in refs
            )
            with self._workspace.temporary_directory("duckdb") as spill:
                build_table(path, parts, weighted=not unweighted, spill=spill, **self._limits)
            counts = read_table(path, pattern, **self._limits)
        if unweighted and counts.total != total:
            raise StorageError(
                f"counts were lost while combining {len(refs)} shards",
                "the table's total equals the sum of its shards' totals",
                "run the same command again; if it happens again, report it",
            )
        return counts

    def _sum_in_memory(
        self, refs: Sequence[ShardRef], shards: Mapping[str, Shard], pattern: SplitPattern
    ) -> WordCounts | None:
        places: dict[str, list[int]] = {}
        for ref in refs:
            places.setdefault(ref.key, []).append(ref.position_base)

        def read(key: str) -> WordCounts:
            return self._shards.counts(shards[key], pattern)

        try:
            return sum_in_memory(places, read, pattern, **self._limits)
        except CorruptFile:
            self._read_shards(list(shards), verify=True)  # finds and forgets all that are damaged
            raise

    @property
    def _limits(self) -> _Limits:
        return {"threads": self._threads, "memory_limit": self._memory_limit}
