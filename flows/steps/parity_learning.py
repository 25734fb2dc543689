"""Merges that serve the named sources of a corpus alike, continued from what a run before left."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.learned import Listener, learned
from bpeline.flows.steps.merge_learning import LearnedMerges, given_merges
from bpeline.registry.records import DevelopmentText
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts, count_texts, documents_of
from bpeline.tokenizer_core.digests import DocumentDigest
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.training import learn_parity_merges, parity_digest


def learn_alike(
    words: CountedWords, request: TrainingRequest, workspace: Workspace, listener: Listener
) -> LearnedMerges:
    """Learn merges, each for the source that is worst off, with a checkpoint.

    Raises:
        EmptyCorpus: a source, or its development text, without a word.
        CorpusError: development text that cannot be read.
        DiskFull: no space; the checkpoint before is kept.
    """
    given, base = given_merges(request, workspace)
    store = WordCountStore(workspace)
    languages = _own_counts(words, request, store)
    development, read = _development_counts(request)
    options: dict[str, Any] = {
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
        "max_token_bytes": request.max_token_bytes,
        "given": given,
    }
    settings = parity_digest(languages, request.parity_rule, development, **options)
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    train = partial(
        learn_parity_merges,
        languages,
        request.merges,
        request.parity_rule,
        development=development,
        together=store.open_table(words.table),
        **options,
    )
    result, resumed = learned(workspace, checkpoint, train, listener)
    merges = len(result)
    resumed = min(resumed, merges)
    return LearnedMerges(
        checkpoint, merges, request.merges, resumed, result.pruned, base, development=read
    )


def _own_counts(
    words: CountedWords, request: TrainingRequest, store: WordCountStore
) -> dict[str, WordCounts]:
    """The counts of each named source alone."""
    keys = {one.source: one.table_key for one in words.sources}
    found: dict[str, WordCounts] = {}
    for source in request.named_sources:
        handle = store.table(keys.get(source.name, ""))
        if handle is None:
            raise EmptyCorpus(
                f"there is not a single word in the source {source.name}",
                "some text of each source that is to be served alike",
                f"leave {source.name} out, or name its files: one that two sources name is of the "
                "first",
            )
        found[source.name] = store.open_table(handle)
    return found


def _development_counts(
    request: TrainingRequest,
) -> tuple[dict[str, WordCounts] | None, tuple[DevelopmentText, ...]]:
    """The words of the texts that say who is worst off, and what these were; None without any."""
    texts = request.development_sources
    if not texts:
        return None, ()
    counts, read = {}, []
    for source in texts:
        reading = request.evaluation_reading
        reading = replace(reading, text_field=source.text_field or reading.text_field)
        content = DocumentDigest()
        try:
            counts[source.name] = count_texts(
                content.watching(documents_of(source.found(), reading)),
                pattern=reading.pattern,
                special_tokens=reading.special_tokens,
                workers=request.workers,
            )
        except EmptyCorpus as error:
            raise EmptyCorpus(
                f"there is not a single word in the development text of {source.name}",
                "text of each source that is to be served alike",
                f"name files that hold text: `--parity-dev {source.name}=FILES`",
            ) from error
        made = DevelopmentText(
            source.name, source.files, content.digest, content.documents, content.bytes
        )
        read.append(made)
    return counts, tuple(read)
