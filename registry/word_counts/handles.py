"""Handles and statistics of word counts, passed between steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TableHandle:
    """A finished word-count table.

    Attributes:
        key: digest of its shards, their positions, and weights other than 1.
        total: Σ count.
        total_bytes: Σ count · length.
        counts_digest: `WordCounts.digest` of its content.
        reused: whether the table existed before.
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
