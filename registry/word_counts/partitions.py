"""Shards added up by many workers: cut by a hash of the words, then each part by itself.

Every word falls into one partition, on every machine into the same. Workers first add up a slice of
the shards each and write its words sorted by partition; then they merge one partition each out of
all slices and write it window by window of positions in the corpus: the windows one after the other
are the sum. Who runs these functions, and where, others know; all files lie in one directory that
they share. Both are idempotent: what is there is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.word_counts.arrow_columns import (
    batch_of,
    counts_as_parts,
    filled,
    part_of_counts,
    sizes_of_parts,
)
from bpeline.registry.word_counts.shard_records import Shard, ShardRef
from bpeline.registry.word_counts.shards import ShardFiles, read_together
from bpeline.registry.word_counts.sums import sum_in_memory
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts, WordSum, concatenated, order_of_positions
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import StorageError
from bpeline.tokenizer_core.splitting import SplitPattern

R = TypeVar("R")
Item = TypeVar("Item")

PARTITIONED_ROWS = 40_000_000  # rows of all shards; fewer are added up here in some seconds
_ROWS_IN_SLICE = 8_000_000  # at most 2 GB while they are added up and cut
_ROWS_IN_PARTITION = 4_000_000  # of all shards; slices have added most of them up by then
_MOST_PARTITIONS = 256
_WINDOWS = 64  # of positions; one of all partitions is in memory beside the sum
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
        windows: where in the corpus each begins, ascending; the first at 0.
        path: what is written.
    """

    number: int
    slices: tuple[Path, ...]
    total: int
    pattern: SplitPattern
    windows: tuple[int, ...]
    path: Path


def sum_in_partitions(
    refs: Sequence[ShardRef],
    shards: Mapping[str, Shard],
    pattern: SplitPattern,
    workspace: Workspace,
    mapper: Mapper,
) -> WordCounts:
    """Add up shards on workers; equals what `sum_in_memory` makes of them.

    Here it needs memory for the sum and for one window of it.

    Args:
        refs: at least one.
        shards: their records. All counts must not exceed 2⁶³ − 1 together.
        pattern: of all of them.
        workspace: theirs.
        mapper: gives work to workers.

    Returns:
        Distinct words in order of sight.

    Raises:
        CorruptFile: a shard is damaged.
        StorageError: counts were lost on the way.
    """
    rows = sum(shards[ref.key].words for ref in refs)
    number = min(_MOST_PARTITIONS, max(2, -(-rows // _ROWS_IN_PARTITION)))
    last = max(ref.position_base for ref in refs)
    windows = tuple(sorted({last * k // _WINDOWS for k in range(_WINDOWS)}))
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
            Partition(k, written, int(total), pattern, windows, directory / f"{k}.arrow")
            for k, total in enumerate(totals)
        ]
        sizes = mapper(merge_partition, partitions, "merge counts", _name_of_partition)
        rows, size = (sum(column) for column in zip(*sizes, strict=True))
        return filled(map(batch_of, _in_windows(partitions)), rows, size, pattern)


def _in_windows(partitions: Sequence[Partition]) -> Iterator[WordCounts]:
    """All words in order of sight, window by window."""
    for window in range(len(partitions[0].windows)):
        parts = [part_of_counts(one.path, window, one.pattern) for one in partitions]
        yield concatenated(parts).in_order_of_sight()


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
    counts, _ = sum_in_memory(
        read_together((shards[key], base) for key, base in one.places),
        lambda group: files.placed(group, pattern),
        pattern,
        memory_limit=_NO_LIMIT,
        threads=1,
    )
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


def merge_partition(one: Partition) -> tuple[int, int]:
    """Add up one partition of all slices and write it window by window.

    Returns:
        Its words, and the bytes of all of them together.

    Raises:
        StorageError: slices do not hold what was written.
    """
    if not one.path.exists():
        words = WordSum(one.pattern)
        for path in one.slices:
            words.add(part_of_counts(path, one.number, one.pattern))
        merged = words.result()
        if merged.total != one.total:
            raise StorageError(
                f"{one.path.name} would hold {merged.total:,} occurrences of words instead of "
                f"{one.total:,}",
                "all that was counted; the shards are untouched",
                "run the same command again; if it happens again, report it",
            )
        begins = np.searchsorted(merged.first_positions, np.array(one.windows[1:], np.int64))
        DURABLE.write(one.path, counts_as_parts(merged, np.append(begins, len(merged))))
    return sizes_of_parts(one.path)


def _name_of_slice(one: Slice) -> str:
    return f"the counts of {len(one.places)} chunks, {one.places[0][0][:12]} and those behind it"


def _name_of_partition(one: Partition) -> str:
    return f"partition {one.number} of the word counts"
