"""Shards added up by many workers: cut by a hash of the words, then each part by itself.

Every word falls into one partition, on every machine into the same. Workers first add up a slice of
the shards each and write its words sorted by partition; then they merge one partition each out of
all slices, with DuckDB. Who runs these functions, and where, others know; all files lie in one
directory that they share. Both are idempotent: what is there is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.word_counts.arrow_columns import counts_as_parts, part_of_counts
from bpeline.registry.word_counts.shard_records import Shard, ShardRef
from bpeline.registry.word_counts.shards import ShardFiles, read_together
from bpeline.registry.word_counts.sums import sum_in_memory
from bpeline.registry.word_counts.tables import build_table, read_table
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts, concatenated, order_of_positions
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

R = TypeVar("R")
Item = TypeVar("Item")

PARTITIONED_ROWS = 40_000_000  # rows of all shards; fewer are added up here in some seconds
_ROWS_IN_SLICE = 8_000_000  # at most 1 GB while they are added up
_ROWS_IN_PARTITION = 4_000_000  # of all shards; slices have added most of them up by then
_MOST_PARTITIONS = 256
_NO_LIMIT = 1 << 62  # bytes: a slice has few enough rows


class Mapper(Protocol):
    """What calls a function of a module with every item, in processes that share our files."""

    def __call__(
        self,
        work: Callable[[Item], R],
        items: Sequence[Item],
        name: str,
        named: Callable[[Item], str],
    ) -> list[R]:
        """The results in the order of ``items``."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Shards that one worker adds up.

    Attributes:
        workspace: of the shards.
        places: (key, position of the chunk in the corpus), a shard at each of its places.
        partitions: how many.
        path: what is written.
    """

    workspace: Workspace
    places: tuple[tuple[str, int], ...]
    partitions: int
    path: Path


@dataclass(frozen=True, slots=True)
class Partition:
    """The words of one hash value, out of all slices.

    Attributes:
        number: which.
        slices: path of each.
        total: Σ count over them.
        pattern: of all counts.
        path: the table that is written.
        memory_limit: bytes for DuckDB.
    """

    number: int
    slices: tuple[Path, ...]
    total: int
    pattern: SplitPattern
    path: Path
    memory_limit: int


def sum_in_partitions(
    refs: Sequence[ShardRef],
    shards: Mapping[str, Shard],
    pattern: SplitPattern,
    workspace: Workspace,
    mapper: Mapper,
    *,
    memory_limit: int,
    threads: int,
) -> WordCounts:
    """Add up shards on workers; equals what DuckDB makes of all of them at once.

    Args:
        refs: at least one.
        shards: their records.
        pattern: of all of them.
        workspace: theirs.
        mapper: gives work to workers.
        memory_limit: bytes for DuckDB in one worker.
        threads: for reading the partitions here.

    Returns:
        Distinct words in order of sight.

    Raises:
        CorruptFile: a shard is damaged.
        InvalidOption: a sum above 2⁶³ − 1.
        StorageError: counts were lost on the way.
    """
    rows = sum(shards[ref.key].words for ref in refs)
    number = min(_MOST_PARTITIONS, max(2, -(-rows // _ROWS_IN_PARTITION)))
    with workspace.temporary_directory("partitions") as directory:
        slices = [
            Slice(workspace, tuple(places), number, directory / f"slice-{k}.arrow")
            for k, places in enumerate(_sliced(refs, shards))
        ]
        totals = np.sum(
            mapper(cut_slice, slices, "cut counts", _name_of_slice), axis=0, dtype=object
        )
        written = tuple(one.path for one in slices)
        partitions = [
            Partition(k, written, int(total), pattern, directory / f"{k}.duckdb", memory_limit)
            for k, total in enumerate(totals)
        ]
        mapper(merge_partition, partitions, "merge counts", _name_of_partition)
        parts = [
            read_table(one.path, pattern, threads=threads, memory_limit=memory_limit)
            for one in partitions
        ]
        return concatenated(parts).in_order_of_sight()


def _sliced(
    refs: Sequence[ShardRef], shards: Mapping[str, Shard]
) -> Iterator[list[tuple[str, int]]]:
    """Places of slices: neighbours in the corpus, of bounded size."""
    places: list[tuple[str, int]] = []
    rows = 0
    for ref in sorted(refs, key=lambda ref: ref.position_base):
        if places and rows + shards[ref.key].words > _ROWS_IN_SLICE:
            yield places
            places, rows = [], 0
        places.append((ref.key, ref.position_base))
        rows += shards[ref.key].words
    yield places


def cut_slice(one: Slice) -> list[int]:
    """Add up the shards of a slice and write its words partition by partition.

    Returns:
        Σ count of each partition.

    Raises:
        CorruptFile: a shard is missing or damaged.
    """
    files = ShardFiles(one.workspace)
    shards = {key: files.read(key) for key, _ in one.places}
    pattern = next(iter(shards.values())).pattern
    counts = sum_in_memory(
        read_together((shards[key], base) for key, base in one.places),
        lambda group: files.placed(group, pattern),
        pattern,
        memory_limit=_NO_LIMIT,
        threads=1,
    )
    assert counts is not None
    partition = partition_of(counts, one.partitions)
    order = order_of_positions(partition)
    ends = np.cumsum(np.bincount(partition, minlength=one.partitions))
    sorted_counts = counts.take(order)
    if not one.path.exists():
        DURABLE.write(one.path, counts_as_parts(sorted_counts, ends))
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    return [
        int(sorted_counts.counts[begin:end].sum())
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]


def partition_of(counts: WordCounts, partitions: int) -> NDArray[np.int64]:
    """The partition of each word (int64 ``[n]``): of its bytes alone, on every machine the same."""
    from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
    from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans

    spans = np.stack((counts.offsets[:-1], counts.offsets[1:]), axis=1)
    prints = np.empty(len(counts), np.uint64)
    if len(counts):
        text = np.concatenate((counts.word_bytes, np.zeros(PADDING, np.uint8)))
        fingerprint_spans(text, np.ascontiguousarray(spans), prints)
    return (prints % np.uint64(partitions)).astype(np.int64)


def merge_partition(one: Partition) -> None:
    """Add up one partition of all slices into a table of its own.

    Raises:
        InvalidOption: a sum above 2⁶³ − 1.
        StorageError: slices do not hold what was written, or DuckDB cannot finish.
    """
    if one.path.exists():
        return
    total = 0

    def parts() -> Iterator[WordCounts]:
        nonlocal total
        for path in one.slices:
            counts = part_of_counts(path, one.number, one.pattern)
            total += counts.total
            yield counts

    with DURABLE.writing_aside(one.path) as aside:
        build_table(
            aside,
            parts(),
            spill=aside.with_name(f"{aside.name}.spill"),
            threads=1,
            memory_limit=one.memory_limit,
        )
        if total != one.total:
            raise StorageError(
                f"{one.path.name} would hold {total:,} occurrences of words instead of "
                f"{one.total:,}",
                "all that was counted; the shards are untouched",
                "run the same command again; if it happens again, report it",
            )


def _name_of_slice(one: Slice) -> str:
    return f"the counts of {len(one.places)} chunks, {one.places[0][0][:12]} and those behind it"


def _name_of_partition(one: Partition) -> str:
    return f"partition {one.number} of the word counts"
