"""Combine weighted sources into one word-count table.

Each source is added up once; a change of its weight only multiplies that sum (`weighted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bpeline.registry.word_counts.shard_records import ShardRef
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.registry.word_counts.table_records import TableHandle, evict
from bpeline.registry.word_counts.tables import write_statistics
from bpeline.registry.workspace import Workspace, damaged
from bpeline.tokenizer_core.counting import (
    MILLION,
    WordCounts,
    combine_word_counts,
    millionths,
    weighted,
)
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus

_FORMAT = 1
_KEPT = "weighted"  # [[key of a source's table, Σ count, Σ count · length of its weighted counts]]

_WeighedTable = tuple[TableHandle, int, Sequence[ShardRef]]  # weight in millionths


@dataclass(frozen=True, slots=True)
class WeighedShards:
    """One source: its shards at their positions in the whole corpus, and its weight.

    The weight multiplies its counts, see `weighted`; 0 leaves the source out.
    """

    refs: tuple[ShardRef, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SourceSums:
    """Sums over the word counts of one source.

    Attributes:
        table_key: key of the source's own table; empty for a source without chunks.
        total, total_bytes: Σ count, Σ count · length.
        weighted_total, weighted_bytes: the same for the weighted counts.
    """

    table_key: str
    words: int
    total: int
    total_bytes: int
    weighted_total: int
    weighted_bytes: int


def combine_sources(
    store: WordCountStore, sources: Sequence[WeighedShards]
) -> tuple[TableHandle, list[SourceSums]]:
    """Add up weighted sources into one table, or find the existing table.

    The result equals `combine_word_counts` of the weighted sums. If all weights are 1, it is the
    table of `WordCountStore.combine`.

    Returns:
        The table, and the sums of each source.
    """
    factors = [millionths(source.weight) for source in sources]
    own = [store.combine(source.refs) if source.refs else None for source in sources]
    counting = [
        (part, factor, source.refs)
        for part, factor, source in zip(own, factors, sources, strict=True)
        if part and factor
    ]
    if not counting:
        raise EmptyCorpus(
            "no source with a weight above 0 has text",
            "expected at least one such source",
            "check the weights: `--source NAME:weight=1=FILES`",
        )
    if all(factor == MILLION for _, factor, _ in counting):
        table = store.combine([ref for _, _, refs in counting for ref in refs])
        weighted_sums = {part.key: (part.total, part.total_bytes) for part, _, _ in counting}
    else:
        table, weighted_sums = _weighted(store, counting)
    evict(part.path for part in own if part and part.key != table.key)
    return table, [
        _sums(part, *weighted_sums.get(part.key, (0, 0))) if part else _NOTHING for part in own
    ]


def key_of_sources(store: WordCountStore, sources: Sequence[WeighedShards]) -> str:
    """Return the key of the table that `combine_sources` creates."""
    factors = [(millionths(source.weight), source.refs) for source in sources]
    counting = [(factor, refs) for factor, refs in factors if factor and refs]
    if all(factor == MILLION for factor, _ in counting):
        return store.table_key([ref for _, refs in counting for ref in refs])
    return _key(counting)


def as_counted(store: WordCountStore, table_keys: Sequence[str]) -> WordCounts:
    """Return the unweighted word counts of sources, in order of first occurrence."""
    parts = []
    for key in filter(None, table_keys):
        table = store.table(key)
        if table is None:
            raise damaged(store.workspace.table(key))
        parts.append(store.open_table(table))
    return combine_word_counts(parts).in_order_of_sight()


def keep_statistics(
    workspace: Workspace, table_key: str, rows: Sequence[Mapping[str, str | int | float]]
) -> Path:
    """Write statistics of the sources next to their table, replacing earlier ones."""
    path = workspace.source_statistics(table_key)
    with DURABLE.writing_aside(path) as temporary:
        write_statistics(temporary, rows)
    return path


def _weighted(
    store: WordCountStore, counting: Sequence[_WeighedTable]
) -> tuple[TableHandle, dict[str, tuple[int, int]]]:
    """Return the table, and table key of a source → sums of its weighted counts."""
    key = _key([(factor, refs) for _, factor, refs in counting])
    parts = [(part, factor) for part, factor, _ in counting]
    table = store.table(key) or _make(store, key, parts)
    try:
        return table, {part: (total, size) for part, total, size in store.kept_with(key, _KEPT)}
    except (CorruptFile, ValueError):
        store.forget_table(key)
        raise


def _make(store: WordCountStore, key: str, parts: Sequence[tuple[TableHandle, int]]) -> TableHandle:
    """Write the weighted table."""
    sums: dict[str, tuple[int, int]] = {}
    kept: list[tuple[str, int, int]] = []

    def product(one: tuple[TableHandle, int]) -> WordCounts:
        part, factor = one
        product_counts = weighted(store.open_table(part), factor / MILLION)
        sums[part.key] = product_counts.total, product_counts.total_bytes
        return product_counts

    def make(path: Path) -> WordCounts:
        pattern = store.open_table(parts[0][0]).pattern
        counts = store.add_up(path, map(product, parts), pattern)
        kept.extend((part.key, *sums[part.key]) for part, _ in parts)
        return counts

    shards = list(dict.fromkeys(one for part, _ in parts for one in store.shards_of(part.key)))
    # The record is written after the table, so `kept` is complete by then.
    return store.keep_table(key, make, {"shards": shards, _KEPT: kept})


def _key(sources: Sequence[tuple[int, Sequence[ShardRef]]]) -> str:
    """Return the key of a weighted table; the order of sources does not matter."""
    once = [ref.row for factor, refs in sources if factor == MILLION for ref in refs]
    others = [
        [factor, sorted(ref.row for ref in refs)] for factor, refs in sources if factor != MILLION
    ]
    return digest_of(["weighted table", _FORMAT, sorted(once), sorted(others)])


_NOTHING = SourceSums("", 0, 0, 0, 0, 0)


def _sums(part: TableHandle, weighted_total: int, weighted_bytes: int) -> SourceSums:
    return SourceSums(
        part.key, part.rows, part.total, part.total_bytes, weighted_total, weighted_bytes
    )
