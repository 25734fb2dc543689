"""A tokenizer of others is continued from word counts; what a run before learned is taken over."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import LEARN_MERGES, progress, step
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.token_learning import LearnedTokens, found_in
from bpeline.registry.loading import load_tokenizer
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace, fetch_directory, share_directory
from bpeline.tokenizer_core.continuation import continue_merges
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import PrunedWords, prune
from bpeline.tokenizer_core.sealed_manifests import MANIFEST

_VERSION = 1  # raised whenever the same counts and settings make another tokenizer than before


@step(LEARN_MERGES)
def continue_tokenizer(
    words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> LearnedTokens:
    """Learn new tokens behind those of the tokenizer that the request extends, and keep it.

    Raises:
        InvalidOption: the tokenizer cannot be continued.
        EmptyCorpus: no word occurs often enough.
        DiskFull: no space left.
    """
    directory = continued_of(words.table.counts_digest, request, workspace)
    wanted = request.merges
    fetch_directory(workspace, directory, MANIFEST)
    if (found := found_in(directory)) is not None:
        made, pruned = found["merges"], PrunedWords(**found["pruned"])
        return LearnedTokens(directory, made, wanted, made, pruned)
    base = load_tokenizer(request.extends, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    tokenizer = continue_merges(
        base,
        counts,
        request.learned_size,
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        on_progress=progress.current().merging,
    )
    pruned = prune(counts, request.min_word_count)[1]
    made = tokenizer.vocab_size - base.vocab_size
    bpeline.save(tokenizer, directory, {"merges": made, "wanted": wanted, "pruned": asdict(pruned)})
    share_directory(workspace, directory, MANIFEST)
    return LearnedTokens(directory, made, wanted, 0, pruned)


def continued_of(counts_digest: str, request: TrainingRequest, workspace: Workspace) -> Path:
    """Where the tokenizer of these counts is, or would be, kept."""
    settings = {
        "version": _VERSION,
        "extends": request.extends,
        "vocab_size": request.learned_size,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
    }
    return workspace.learned(counts_digest, digest_of(settings))
