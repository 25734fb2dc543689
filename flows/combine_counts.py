"""The counts of all chunks become one word-count table in DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

from flows.count_words import CountedCorpus, positions
from flows.steps import step
from flows.summary import counted
from flows.training_request import TrainingRequest
from registry.catalogue_records import CountTable
from registry.corpus_record import digest_of_corpus, keep_corpus_record
from registry.opening import open_registry
from registry.word_count_store import (
    ShardRef,
    ShardStatistics,
    TableHandle,
    WordCountStore,
    shard_key,
)
from registry.workspace import Workspace
from tokenizer_core.errors import EmptyCorpus


@dataclass(frozen=True, slots=True)
class CountedWords:
    """The word counts of a corpus, and what else was seen while counting.

    Attributes:
        table: where they lie.
        corpus_digest: digest of all that was read, in order.
        shards: keys of the chunks' counts, in the order of the corpus.
        seen: sums over them.
    """

    table: TableHandle
    corpus_digest: str
    shards: tuple[str, ...]
    seen: ShardStatistics

    @property
    def outcome(self) -> str:
        said = f"{counted(self.table.rows, 'distinct word')}, {self.table.total:,} in all"
        return f"{said}; the table was there already" if self.table.reused else said


@step(name="combine counts")
def combine_counts(
    corpus: CountedCorpus, request: TrainingRequest, workspace: Workspace, run_id: str
) -> CountedWords:
    """Add the chunks' counts up and remember what they were of.

    Raises:
        EmptyCorpus: there is not a single word to train on.
        CorruptFile: counts are damaged; they are forgotten and can be counted again.
        DiskFull: no space left.
    """
    words = add_up(corpus, request, workspace)
    table = words.table
    keep_corpus_record(workspace, corpus.readings)
    catalogue = open_registry(workspace).catalogue
    catalogue.remember_count_table(
        CountTable(
            table.key, table.counts_digest, words.corpus_digest, table.rows, table.total, run_id
        )
    )
    catalogue.step_reached(run_id, "combine counts", words.corpus_digest, table.counts_digest)
    return words


def add_up(corpus: CountedCorpus, request: TrainingRequest, workspace: Workspace) -> CountedWords:
    """Add the chunks' counts up; errors as `combine_counts`."""
    reading = request.reading.digest
    placed = [(shard_key(chunk.digest, reading), base) for chunk, base in positions(corpus)]
    keys = tuple(key for key, _ in placed)
    store = WordCountStore(workspace)
    seen = store.statistics(keys)
    if not seen.words:
        raise _empty(request, seen)
    table = store.combine([ShardRef(key, position_base=base) for key, base in placed])
    return CountedWords(table, digest_of_corpus(corpus.readings), keys, seen)


def _empty(request: TrainingRequest, seen: ShardStatistics) -> EmptyCorpus:
    places = ", ".join(request.paths[:3]) + (", …" if len(request.paths) > 3 else "")
    if seen.held_out_bytes:
        return EmptyCorpus(
            f"all {seen.held_out_bytes:,} bytes of {places} were held out for evaluation",
            "a corpus that leaves something to train on",
            "type the same command with `--held-out 0`",
        )
    return EmptyCorpus(
        f"there is not a single word in {places}",
        "files with some text beside special tokens",
        f"look at them: `wc -c {request.paths[0]}`",
    )
