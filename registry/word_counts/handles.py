"""What is passed between those who count, add up and learn: names of counts, never the counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A finished word-count table: what is passed between steps.

    Attributes:
        key: digest of the shards and bases it was made from, and of weights other than 1.
        path: the DuckDB file.
        rows: distinct words.
        total: Σ count.
        total_bytes: Σ count · length.
        counts_digest: `WordCounts.digest` of its content.
        reused: whether it had been made before.
    """

    key: str
    path: Path
    rows: int
    total: int
    total_bytes: int
    counts_digest: str
    reused: bool = False


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
    left_out_bytes: int = 0
    left_out_documents: int = 0
