"""The word-count store: shards for chunks, one table for a corpus.

It finds, verifies and removes them; for the file formats, see `registry.word_counts.shards` and
`registry.word_counts.tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpeline.registry.closed_duckdb import log_of
from bpeline.registry.word_counts.shard_records import Shard, ShardRef, shard_key
from bpeline.registry.word_counts.shards import ShardFiles, SmallShards
from bpeline.registry.word_counts.table_records import (
    TABLE_FORMAT,
    TableHandle,
    evict,
    held,
    keep,
    recorded_table,
)
from bpeline.registry.word_counts.tables import lost, read_table, write_sum
from bpeline.registry.workspace import (
    Workspace,
    damaged,
    fetch,
    forget,
    read_record,
    write_record,
    writing_shared,
)
from bpeline.tokenizer_core.counting import (
    COUNT_LIMIT,
    CopiedSections,
    SectionSample,
    WordCounts,
    WordSum,
)
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.encoding import in_batches
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption, InvalidPattern
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
from bpeline.tokenizer_core.machine import available_processors, machine_memory
from bpeline.tokenizer_core.splitting import SplitPattern

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import ChunkCounts

PLACES = "places"  # member of a table's record: `ShardRef.row` of all its shards
_LOOKED_AT = 8  # latest tables that may be a part of a new one
_READ_TOGETHER = 4 << 20  # bytes of held-out text
_ROWS_AT_ONCE = 1 << 20
_LEAST_MEMORY, _MOST_MEMORY = 2 << 30, 5 << 29


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """Sums over shards, see `Shard`; a shard that is listed twice counts twice."""

    shards: int = 0
    words: int = 0  # distinct words per shard: the sum is an upper bound
    total: int = 0
    total_bytes: int = 0
    documents: int = 0
    bytes_counted: int = 0
    special_tokens_seen: int = 0
    replaced_utf8: int = 0
    held_out_documents: int = 0
    held_out_bytes: int = 0
    left_out_bytes: int = 0
    left_out_documents: int = 0


class WordCountStore:
    """Shards and tables of one workspace.

    Many processes may write shards, but only one may combine them at a time. Methods remove
    damaged shards and tables and raise `CorruptFile`, so that they can be counted again.

    Args:
        memory_limit: bytes of DuckDB's memory, beyond which it spills to the workspace's disk;
            None: a quarter of the machine's memory, between 2 and 2.5 GiB. The distinct words
            of a table need memory in addition.
        threads: for DuckDB; None: one per processor.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        memory_limit: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.workspace = workspace
        self._shards = ShardFiles(workspace)
        self._memory_limit = memory_limit or min(
            max(_LEAST_MEMORY, machine_memory() // 4), _MOST_MEMORY
        )
        self._threads = threads or available_processors()

    def has(self, chunk_digest: str, reading_digest: str) -> bool:
        """Whether a chunk was counted; its content is only verified by `combine`."""
        return self._shards.is_there(shard_key(chunk_digest, reading_digest))

    def put(self, counts: ChunkCounts, reading_digest: str) -> str:
        """Write a chunk's counts and return the key of the shard."""
        return self._shards.write([counts], reading_digest)[0].key

    @contextmanager
    def putting(self, *, together: bool = True) -> Iterator[SmallShards]:
        """Write the counts of many chunks; after an error in the block, they are kept.

        Args:
            together: collect small chunks in memory; a killed process loses these.
        """
        chunks = SmallShards(self._shards, together)
        try:
            yield chunks
        finally:
            chunks.write()

    def forget_damaged(self, keys: Sequence[str]) -> None:
        """Verify shards and remove damaged ones, so that they are counted again."""
        with suppress(CorruptFile):
            self._read_shards(keys, verify=True)

    def statistics(self, keys: Sequence[str]) -> ShardStatistics:
        """Return sums over shards, from their records."""
        shards = self._read_shards(keys, verify=False)
        names = [name for name in ShardStatistics.__slots__ if name != "shards"]
        sums = {name: sum(getattr(shards[key], name) for key in keys) for name in names}
        return ShardStatistics(shards=len(keys), **sums)

    def held_out_documents(self, keys: Sequence[str], limit_bytes: int) -> list[bytes]:
        """Return held-out documents of shards, in order; each shard is read once.

        Beyond ``limit_bytes``, documents are dropped evenly over the whole corpus, always the
        same ones. If no document fits, the beginning of the first is returned.
        """
        shards = self._read_shards(keys, verify=False)
        available = sum(shard.held_out_bytes for shard in shards.values())
        chosen: list[bytes] = []
        first = b""
        seen_bytes = chosen_bytes = 0
        damaged: CorruptFile | None = None
        for shard in shards.values():
            try:
                with self._forgetting(shard.key):
                    for document in self._shards.held_out(shard):
                        seen_bytes += len(document)
                        first = first or document[:limit_bytes]
                        share = (chosen_bytes + len(document)) * max(available, limit_bytes)
                        if share <= limit_bytes * seen_bytes:
                            chosen_bytes += len(document)
                            chosen.append(document)
            except CorruptFile as error:  # continue, to find and remove all damaged shards
                damaged = damaged or error
        if damaged is not None:
            raise damaged
        if not chosen and first:
            chosen.append(first.decode(errors="ignore").encode())  # only whole characters
        return chosen

    def copied_sections(self, keys: Sequence[str]) -> CopiedSections:
        """Return the duplicates among the held-out sections of shards."""
        sample = SectionSample()
        shards = self._read_shards(keys, verify=False).values()
        for sections in in_batches(self._held_out(shards), _READ_TOGETHER):
            sample.add(sections)
        return sample.result()

    def _held_out(self, shards: Iterable[Shard]) -> Iterator[bytes]:
        for shard in shards:
            with self._forgetting(shard.key):
                yield from self._shards.held_out(shard)

    def combine(self, refs: Sequence[ShardRef]) -> TableHandle:
        """Add up shards, in any order, into one table, or find the existing table.

        The result equals `combine_word_counts`; for weights, see `registry.word_counts.mixtures`.
        """
        key = self.table_key(refs)
        earlier = self.table(key)
        if earlier is not None:
            return earlier
        if not refs:
            raise EmptyCorpus(
                "there are no word counts to combine",
                "expected a corpus of at least one chunk",
                "name files that contain text",
            )
        shards = self._read_shards([ref.key for ref in refs], verify=False)
        patterns = {shard.pattern for shard in shards.values()}
        if len(patterns) > 1:
            raise InvalidOption(
                f"the shards were counted with {len(patterns)} different split patterns",
                "expected one pattern for a table",
                "count the whole corpus with the same pattern",
            )
        pattern = patterns.pop()
        return self.keep_table(
            key,
            lambda path: self._make_table(path, refs, shards, pattern),
            {"shards": [*shards], PLACES: [ref.row for ref in refs]},
        )

    def keep_table(
        self, key: str, make: Callable[[Path], WordCounts], more: Mapping[str, Any]
    ) -> TableHandle:
        """Create a table under a key that identifies its inputs.

        Args:
            make: writes the DuckDB file and returns its content, in order of first occurrence.
            more: members of its record: ``shards``, the keys of its shards, and others.
        """
        path = self.workspace.table(key)
        with writing_shared(self.workspace, path) as temporary:
            counts = make(temporary)
        handle = TableHandle(
            key, path, len(counts), counts.total, counts.total_bytes, counts.digest
        )
        keep(handle, counts)
        record = {
            "format": TABLE_FORMAT,
            "key": key,
            "pattern": counts.pattern.as_record(),
            "rows": handle.rows,
            "total": handle.total,
            "total_bytes": handle.total_bytes,
            "counts_digest": handle.counts_digest,
            "positions_digest": digest_of_bytes(counts.first_positions),
            **more,
        }
        write_record(self.workspace.table_manifest(key), record, self.workspace)
        return handle

    def table_key(self, refs: Sequence[ShardRef]) -> str:
        """Return the key of the table that `combine` creates from these shards."""
        return digest_of(["table", TABLE_FORMAT, sorted(ref.row for ref in refs)])

    def open_table(self, handle: TableHandle) -> WordCounts:
        """Read a table, in order of first occurrence, or take it from the cache."""
        if (counts := held(handle)) is not None:
            return counts
        path = self.workspace.table(handle.key)
        try:
            record = read_record(self.workspace.table_manifest(handle.key), TABLE_FORMAT)
            log = log_of(path)
            if not fetch(self.workspace, path) or log.exists():
                raise damaged(log if log.exists() else path)
            pattern = SplitPattern.from_record(record["pattern"])
            counts = read_table(path, pattern, threads=self._threads)
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
        """Return the keys of a table's shards, in the order of the corpus."""
        return tuple(self.kept_with(table_key, "shards"))

    def kept_with(self, table_key: str, member: str) -> Any:
        """Return a member of a table's record."""
        path = self.workspace.table_manifest(table_key)
        try:
            return read_record(path, TABLE_FORMAT, self.workspace)[member]
        except (KeyError, TypeError) as error:
            raise damaged(path) from error

    def forget_table(self, key: str) -> None:
        """Remove a table, its record first."""
        path = self.workspace.table(key)
        evict([path])
        for part in (self.workspace.table_manifest(key), path, log_of(path)):
            forget(self.workspace, part)

    def table(self, key: str) -> TableHandle | None:
        """Return the table with this key, see `recorded_table`."""
        return recorded_table(self.workspace, key)

    def _read_shards(self, keys: Sequence[str], *, verify: bool) -> dict[str, Shard]:
        """Read the records of shards; removes all damaged ones before it raises."""
        shards: dict[str, Shard] = {}
        complaint: CorruptFile | None = None
        for key in dict.fromkeys(keys):
            try:
                with self._forgetting(key):
                    shards[key] = self._shards.read(key)
                    if verify:
                        self._shards.counts(shards[key])
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
        """Write the table of shards and return its content."""
        earlier, remaining = self._begun(refs)
        bases: dict[str, list[int]] = {}
        for ref in sorted(remaining, key=lambda ref: ref.position_base):
            bases.setdefault(ref.key, []).append(ref.position_base)
        files: dict[str, list[Shard]] = {}
        for key in bases:
            files.setdefault(shards[key].file, []).append(shards[key])
        total = sum(shards[ref.key].total for ref in refs)
        parts = (
            part
            for file_shards in files.values()
            for part in self._placed(file_shards, bases, pattern, total <= COUNT_LIMIT)
        )
        try:
            counts = self.add_up(path, chain(earlier, parts), pattern)
        except CorruptFile:
            self._read_shards(list(shards), verify=True)  # finds and removes all damaged ones
            raise
        if counts.total != total:
            raise lost(f"combining {len(refs)} shards")
        return counts

    def _begun(self, refs: Sequence[ShardRef]) -> tuple[list[WordCounts], Sequence[ShardRef]]:
        """Return the counts of an earlier table of some shards, and the other shards."""
        match = part_of(self.workspace, refs)
        table = None if match is None else self.table(match[0])
        if match is not None and table is not None:
            with suppress(CorruptFile):  # the damaged table is removed; use the shards
                return [self.open_table(table)], match[1]
        return [], refs

    def _placed(
        self,
        some: Sequence[Shard],
        bases: Mapping[str, Sequence[int]],
        pattern: SplitPattern,
        fits: bool,
    ) -> Iterator[WordCounts]:
        """Yield the words of chunks in one file at their positions in the corpus."""
        counts = self._shards.counts_together(some[0], pattern)
        base, times = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
        for shard in some:
            rows = slice(shard.first_row, shard.first_row + shard.words)
            base[rows], times[rows] = min(bases[shard.key]), len(bases[shard.key])
        placed = replace(counts, first_positions=counts.first_positions + base)
        if not fits:
            for turn in range(times.max(initial=0)):
                yield placed.take(np.flatnonzero(times > turn))
            return
        placed = replace(placed, counts=placed.counts * times)
        if len(some) > 1:  # thousands of small chunks have the same words
            words = WordSum(pattern)
            words.add(placed if times.all() else placed.take(np.flatnonzero(times)))
            placed = words.result()
        yield placed

    def add_up(self, path: Path, parts: Iterable[WordCounts], pattern: SplitPattern) -> WordCounts:
        """Add up counts into a table and verify it; arguments as `tables.write_sum`."""
        given = 0

        def weighed() -> Iterator[WordCounts]:
            nonlocal given
            for counts in parts:
                given = (given + _occurrences(counts)) % 2**64
                yield counts

        with self.workspace.temporary_directory("duckdb") as spill:
            write_sum(
                path, weighed(), spill=spill, threads=self._threads,
                memory_limit=self._memory_limit,
            )  # fmt: skip
        table = read_table(path, pattern, threads=self._threads)
        positions = table.first_positions
        ascending = bool(np.all(positions[1:] >= positions[:-1]))
        if _occurrences(table) != given or not ascending:
            raise lost(f"adding up {path.name}")
        return table


def part_of(workspace: Workspace, refs: Sequence[ShardRef]) -> tuple[str, list[ShardRef]] | None:
    """Return the key of the table with the most of these shards, and the other shards.

    Shards must have the same positions in the corpus: it may grow at its end, but not before.
    """
    wanted = Counter(map(_place, refs))
    best: tuple[int, str, Counter[tuple[str, str, int]]] | None = None
    for path in _latest(workspace):
        try:
            record = read_record(path, TABLE_FORMAT)
            contained = Counter((key, weight, base) for key, weight, base in record[PLACES])
            key = str(record["key"])
        except (CorruptFile, KeyError, TypeError, ValueError):
            continue
        if contained <= wanted and (best is None or contained.total() > best[0]):
            best = contained.total(), key, contained
    if best is None:
        return None
    remaining = list((wanted - best[2]).elements())
    return best[1], [ShardRef(key, base) for key, _, base in remaining]


def _place(ref: ShardRef) -> tuple[str, str, int]:
    key, weight, base = ref.row
    return key, weight, base


def _latest(workspace: Workspace) -> list[Path]:
    tables = []
    for path in workspace.tables.glob("*.json"):
        if not path.name.endswith(".corpus.json"):
            tables.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(tables, reverse=True)[:_LOOKED_AT]]


def _occurrences(counts: WordCounts) -> int:
    """Return Σ fingerprint(word) · count modulo 2⁶⁴, to verify sums of counts."""
    total = 0
    for begin in range(0, len(counts), _ROWS_AT_ONCE):
        batch = counts.between(begin, begin + _ROWS_AT_ONCE)
        spans = np.stack((batch.offsets[:-1], batch.offsets[1:]), axis=1)
        text = np.concatenate((batch.word_bytes, np.zeros(PADDING, np.uint8)))
        prints = np.empty(len(batch), np.uint64)
        fingerprint_spans(text, spans, prints)
        total += int(np.sum(prints * batch.counts.view(np.uint64), dtype=np.uint64))
    return total % 2**64
