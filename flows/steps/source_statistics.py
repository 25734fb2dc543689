"""What each source of a corpus consists of, and its share before and after weighting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bpeline.flows.requests import NamedSource
from bpeline.registry.word_counts import ShardStatistics, SourceSums


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """One source.

    Attributes:
        source, language, domain: its name and labels; "" for none.
        documents: non-empty ones, those that are held out for evaluation among them.
        bytes: of text that was counted: without what is held out, and without special tokens.
        held_out_bytes: of text that is held out.
        words, distinct_words: pre-tokens.
        share: of the counted bytes of all sources.
        weight: factor for its counts: what was asked for, after temperature.
        weighted_words, weighted_bytes: of the counts times the weight, as they were trained on.
        weighted_share: of the weighted bytes of all sources.
        table: name of the DuckDB file of this source's own counts; "" for a source without text.
    """

    source: str
    language: str
    domain: str
    documents: int
    bytes: int
    held_out_bytes: int
    words: int
    distinct_words: int
    share: float
    weight: float
    weighted_words: int
    weighted_bytes: int
    weighted_share: float
    table: str

    @property
    def table_key(self) -> str:
        """The key of this source's own counts; empty for a source without text."""
        return self.table.removesuffix(".duckdb")


def statistics_of(
    sources: Sequence[NamedSource],
    seen: Sequence[ShardStatistics],
    sums: Sequence[SourceSums],
    weights: Sequence[float],
) -> tuple[SourceStatistics, ...]:
    """The statistics of all sources together: arguments one for each."""
    total = sum(one.total_bytes for one in sums) or 1
    weighted = sum(one.weighted_bytes for one in sums) or 1
    return tuple(
        SourceStatistics(
            source=source.name,
            language=source.language or "",
            domain=source.domain or "",
            documents=counted.documents,
            bytes=one.total_bytes,
            held_out_bytes=counted.held_out_bytes,
            words=one.total,
            distinct_words=one.words,
            share=one.total_bytes / total,
            weight=weight,
            weighted_words=one.weighted_total,
            weighted_bytes=one.weighted_bytes,
            weighted_share=one.weighted_bytes / weighted,
            table=f"{one.table_key}.duckdb" if one.table_key else "",
        )
        for source, counted, one, weight in zip(sources, seen, sums, weights, strict=True)
    )


def as_json(statistics: Sequence[SourceStatistics]) -> list[dict[str, Any]]:
    """The statistics as JSON values."""
    return [asdict(one) for one in statistics]
