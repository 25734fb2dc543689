"""The sum of the chunks' word counts, with the statistics of each source."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bpeline.flows.counting.word_counting import CountedCorpus, placed_shards
from bpeline.flows.requests import NamedSource, TrainingRequest
from bpeline.flows.running import steps
from bpeline.flows.wording import counted
from bpeline.registry.catalogue import CountTable
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import (
    ShardRef,
    ShardStatistics,
    SourceSums,
    TableHandle,
    WeighedShards,
    WordCountStore,
    combine_sources,
    keep_corpus_record,
    keep_statistics,
    key_of_sources,
)
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import ReadOptions
from bpeline.tokenizer_core.counting import CopiedSections, weights_at
from bpeline.tokenizer_core.errors import EmptyCorpus


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """Statistics of one source.

    Attributes:
        documents: non-empty documents, including those held out for evaluation.
        bytes: of counted text, without held-out text and special tokens.
        share: of the counted bytes of all sources.
        weight: factor for its counts: the requested weight, after temperature.
        weighted_words, weighted_bytes: counts times weight, as trained on.
        table: name of the DuckDB file of this source's counts; "" for a source without text.
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
        """Key of this source's table of counts; empty for a source without text."""
        return self.table.removesuffix(".duckdb")


def statistics_of(
    sources: Sequence[NamedSource],
    seen: Sequence[ShardStatistics],
    sums: Sequence[SourceSums],
    weights: Sequence[float],
) -> tuple[SourceStatistics, ...]:
    """Return the statistics of each source; the arguments have one item per source."""
    total = sum(sums_of_source.total_bytes for sums_of_source in sums) or 1
    weighted = sum(sums_of_source.weighted_bytes for sums_of_source in sums) or 1
    return tuple(
        SourceStatistics(
            source=source.name,
            language=source.language or "",
            domain=source.domain or "",
            documents=counted.documents,
            bytes=sums_of_source.total_bytes,
            held_out_bytes=counted.held_out_bytes,
            words=sums_of_source.total,
            distinct_words=sums_of_source.words,
            share=sums_of_source.total_bytes / total,
            weight=weight,
            weighted_words=sums_of_source.weighted_total,
            weighted_bytes=sums_of_source.weighted_bytes,
            weighted_share=sums_of_source.weighted_bytes / weighted,
            table=f"{sums_of_source.table_key}.duckdb" if sums_of_source.table_key else "",
        )
        for source, counted, sums_of_source, weight in zip(
            sources, seen, sums, weights, strict=True
        )
    )


def as_json(statistics: Sequence[SourceStatistics]) -> list[dict[str, Any]]:
    """Return the statistics as JSON values."""
    return [asdict(source) for source in statistics]


@dataclass(frozen=True, slots=True)
class CountedWords:
    """The word counts of a corpus, with statistics of its text.

    Attributes:
        corpus_digest: digest of all chunks read, in order.
        seen: statistics of all chunks together.
        copied: copies among the held-out sections of distinct chunks.
    """

    table: TableHandle
    corpus_digest: str
    shards: tuple[str, ...]
    seen: ShardStatistics
    sources: tuple[SourceStatistics, ...] = ()
    shards_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    copied: CopiedSections = field(default_factory=CopiedSections)

    def looked_into(self, reading: ReadOptions) -> bool:
        """Whether any chunk was searched for passages of the evaluation set."""
        left_out = reading.left_out
        return left_out is not None and reading.leaves_out and left_out.looks_into(self.shards)

    @property
    def outcome(self) -> str:
        summary = f"{counted(self.table.rows, 'distinct word')}, {self.table.total:,} in all"
        return f"{summary}; the table was there already" if self.table.reused else summary


def combine_counts(
    corpus: CountedCorpus, request: TrainingRequest, registry: Registry, run_id: str
) -> CountedWords:
    """Add up the counts of the chunks and record the result in the catalogue.

    Raises:
        CorruptFile: counts are damaged; they are discarded and can be counted again.
    """
    workspace, catalogue = registry.workspace, registry.catalogue
    words = add_up(corpus, request, workspace)
    copied = WordCountStore(workspace).copied_sections(words.shards)
    words, table = replace(words, copied=copied), words.table
    keep_corpus_record(workspace, corpus.readings, corpus.sources)
    if words.sources:
        keep_statistics(workspace, table.key, as_json(words.sources))
    catalogue.remember_count_table(
        CountTable(
            table.key, table.counts_digest, words.corpus_digest, table.rows, table.total, run_id
        )
    )
    catalogue.step_reached(
        run_id, steps.COMBINE_COUNTS.name, words.corpus_digest, table.counts_digest
    )
    return words


def add_up(corpus: CountedCorpus, request: TrainingRequest, workspace: Workspace) -> CountedWords:
    """Add up the counts of the chunks; errors as in `combine_counts`."""
    placed = placed_shards(corpus)
    keys = tuple(ref.key for refs in placed for ref in refs)
    store = WordCountStore(workspace)
    seen = store.statistics(keys)
    if not seen.words:
        raise empty_corpus(request, seen.held_out_bytes, seen.left_out_bytes)
    if not request.sources:
        table = store.combine([ref for refs in placed for ref in refs])
        return CountedWords(table, corpus.digest, keys, seen)
    weighed, of_each = _weigh(corpus, request, store)
    table, sums = combine_sources(store, list(weighed.values()))
    weights = [source.weight for source in weighed.values()]
    statistics = statistics_of(request.named_sources, of_each, sums, weights)
    keys_of = {name: tuple(ref.key for ref in shards.refs) for name, shards in weighed.items()}
    return CountedWords(table, corpus.digest, keys, seen, statistics, keys_of)


def table_of(
    corpus: CountedCorpus, request: TrainingRequest, workspace: Workspace
) -> TableHandle | None:
    """Return the table that `combine_counts` would write, if it exists."""
    store = WordCountStore(workspace)
    if not request.sources:
        return store.table(store.table_key([ref for refs in placed_shards(corpus) for ref in refs]))
    return store.table(key_of_sources(store, list(_weigh(corpus, request, store)[0].values())))


def _weigh(
    corpus: CountedCorpus, request: TrainingRequest, store: WordCountStore
) -> tuple[dict[str, WeighedShards], list[ShardStatistics]]:
    """Return each named source with its weight, and the statistics of each."""
    named = request.named_sources
    shards: dict[str, list[ShardRef]] = {item.name: [] for item in named}
    for source, refs in zip(corpus.sources, placed_shards(corpus), strict=True):
        shards[source] += refs
    of_each = [store.statistics([ref.key for ref in shards[item.name]]) for item in named]
    sizes = [item.bytes_counted for item in of_each]
    weights = weights_at(sizes, [item.weight for item in named], request.temperature)
    weighed = {
        item.name: WeighedShards(tuple(shards[item.name]), weight)
        for item, weight in zip(named, weights, strict=True)
    }
    return weighed, of_each


def empty_corpus(request: TrainingRequest, held_out_bytes: int, left_out_bytes: int) -> EmptyCorpus:
    """Return the error for a corpus without words, with its reason."""
    named = [files for source in request.named_sources for files in source.files]
    paths = named or request.paths or request.counts
    places = ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
    if left_out_bytes:
        no_cuts = request.reading.pattern.cut_pairs is None
        whole = ", each document whole that holds a part of it" if no_cuts else ""
        return EmptyCorpus(
            f"there is not a single word in {places} outside the evaluation set of {request.name}: "
            f"{left_out_bytes:,} bytes were left out{whole}",
            "text that is not in the evaluation set",
            "add such text, or type the same command with another --name",
        )
    if held_out_bytes:
        return EmptyCorpus(
            f"all {held_out_bytes:,} bytes of {places} were held out for evaluation",
            "a corpus with text left to train on",
            "type the same command with `--held-out 0`",
        )
    return EmptyCorpus(
        f"there is not a single word in {places}",
        "files with some text besides special tokens",
        f"look at them: `wc -c {shlex.quote(paths[0])}`",
    )
