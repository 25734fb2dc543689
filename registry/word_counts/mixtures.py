"""Sources with weights become one word-count table, from sums that are there: nothing is recounted.

Each source is added up by itself, once; whatever its weight is later, that sum is multiplied, by
`source_weights.weighted` alone.
Which files make a source, others know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bpeline.registry.word_counts.handles import TableHandle
from bpeline.registry.word_counts.held import let_go
from bpeline.registry.word_counts.shard_records import ShardRef
from bpeline.registry.word_counts.store import WordCountStore
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
    """One source.

    Attributes:
        refs: its shards, at their places in the whole corpus.
        weight: factor for its counts, see `source_weights.weighted`; 0 leaves it out.
    """

    refs: tuple[ShardRef, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SourceSums:
    """What the counts of one source add up to.

    Attributes:
        table_key: of the source's own table; empty for a source without a single chunk.
        words: distinct ones.
        total, total_bytes: Σ count, Σ count · length.
        weighted_total, weighted_bytes: the same of the counts times the weight.
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
    """Add up sources with weights into one table, or find the one made of the same earlier.

    With weights of 1 alone, the table is that of `WordCountStore.combine`. The result equals
    `combine_word_counts` of the sources' own sums.

    Returns:
        The table, and the sums of each source.

    Raises:
        EmptyCorpus: no shard, or none with a weight above 0.
        InvalidOption: an impossible weight, and as `WordCountStore.combine`.
        CorruptFile, DiskFull, StorageError: as `WordCountStore.combine`.
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
            "no source with a weight above 0 holds text",
            "at least one source that counts",
            "look at the weights: `--source NAME:weight=1=FILES`",
        )
    if all(factor == MILLION for _, factor, _ in counting):
        table = store.combine([ref for _, _, refs in counting for ref in refs])
        kept = {part.key: (part.total, part.total_bytes) for part, _, _ in counting}
    else:
        table, kept = _weighted(store, counting)
    let_go(part.path for part in own if part and part.key != table.key)
    return table, [_sums(part, *kept.get(part.key, (0, 0))) if part else _NOTHING for part in own]


def key_of_sources(store: WordCountStore, sources: Sequence[WeighedShards]) -> str:
    """The name of the table that `combine_sources` makes of these."""
    factors = [(millionths(source.weight), source.refs) for source in sources]
    counting = [(factor, refs) for factor, refs in factors if factor and refs]
    if all(factor == MILLION for factor, _ in counting):
        return store.table_key([ref for _, refs in counting for ref in refs])
    return _key(counting)


def as_counted(store: WordCountStore, table_keys: Sequence[str]) -> WordCounts:
    """The words of some sources as often as they occur, whatever they weigh; in order of sight.

    Args:
        table_keys: of the sources' own tables, see `SourceSums`; empty ones are left out.

    Raises:
        CorruptFile: a table is missing or damaged; `combine_sources` makes it anew.
    """
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
    """Keep what is known of the sources beside the table they became, for people to query.

    A table may be that of several mixtures, under other names; the last one's statistics stay.

    Returns:
        A DuckDB file with the table ``sources``.

    Raises:
        DiskFull: no space left.
    """
    path = workspace.source_statistics(table_key)
    with DURABLE.writing_aside(path) as temporary:
        write_statistics(temporary, rows)
    return path


def _weighted(
    store: WordCountStore, counting: Sequence[_WeighedTable]
) -> tuple[TableHandle, dict[str, tuple[int, int]]]:
    """The table, and by the key of each source's own table the sums of its weighted counts."""
    key = _key([(factor, refs) for _, factor, refs in counting])
    parts = [(part, factor) for part, factor, _ in counting]
    table = store.table(key) or _make(store, key, parts)
    try:
        return table, {part: (total, size) for part, total, size in store.kept_with(key, _KEPT)}
    except (CorruptFile, ValueError):
        store.forget_table(key)
        raise


def _make(store: WordCountStore, key: str, parts: Sequence[tuple[TableHandle, int]]) -> TableHandle:
    """The weighted table: each source times its weight, added up as chunks are."""
    sums: dict[str, tuple[int, int]] = {}
    kept: list[tuple[str, int, int]] = []

    def product(one: tuple[TableHandle, int]) -> WordCounts:
        part, factor = one
        made = weighted(store.open_table(part), factor / MILLION)
        sums[part.key] = made.total, made.total_bytes
        return made

    def make(path: Path) -> WordCounts:
        pattern = store.open_table(parts[0][0]).pattern
        counts = store.add_up(path, map(product, parts), pattern)
        kept.extend((part.key, *sums[part.key]) for part, _ in parts)
        return counts

    shards = list(dict.fromkeys(one for part, _ in parts for one in store.shards_of(part.key)))
    # The record is written when the table was made, so the sums are there by then.
    return store.keep_table(key, make, {"shards": shards, _KEPT: kept})


def _key(sources: Sequence[tuple[int, Sequence[ShardRef]]]) -> str:
    """Of a weighted table: sources in any order; those that count once are one, by addition."""
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
