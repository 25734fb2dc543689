"""Continuing the vocabulary of a version, by new tokens or by superwords."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from bpeline.flows.counting import CountedWords
from bpeline.flows.learning.checkpoints import LEARNING_VERSION, LearnedTokens, Listener, learned
from bpeline.flows.requests import TrainingRequest
from bpeline.registry.loading import holds_version, load_tokenizer
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace, share_directory
from bpeline.tokenizer_core.continuation import continue_merges
from bpeline.tokenizer_core.digests import MANIFEST, digest_of
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import prune
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import merges_for, train_superbpe


def continue_tokenizer(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
    listener: Listener,
) -> tuple[Tokenizer, LearnedTokens]:
    """Learn new tokens after those of the extended version."""
    base = load_tokenizer(request.extends, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    tokenizer = continue_merges(
        base,
        counts,
        request.learned_size,
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        on_progress=listener,
    )
    pruned = prune(counts, request.min_word_count)[1]
    merges = tokenizer.vocab_size - base.vocab_size
    return tokenizer, LearnedTokens(directory, merges, request.merges, 0, pruned)


def continuation_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the tokenizer of `continue_tokenizer` depends on besides the counts."""
    return {
        "version": LEARNING_VERSION,
        "extends": request.extends,
        "vocab_size": request.learned_size,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
    }


def learn_superwords(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
    listener: Listener,
) -> tuple[Tokenizer, LearnedTokens]:
    """Learn merges across spaces after the words of a version, with a checkpoint."""
    settings = digest_of(_merge_settings(request))
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    base = load_tokenizer(request.extends, workspace)
    train = partial(
        train_superbpe,
        base,
        WordCountStore(workspace).open_table(words.table),
        request.learned_size,
        transition_size=request.transition_size,
        min_count=request.min_count,
        rules=request.token_rules,
    )
    tokenizer, resumed = learned(workspace, checkpoint, train, listener)
    merges = len(tokenizer.merges)
    wanted = merges_for(request.learned_size, list(base.special_tokens))
    return tokenizer, LearnedTokens(directory, merges, wanted, min(resumed, merges))


def superword_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the tokenizer of `learn_superwords` depends on besides the counts."""
    return {**_merge_settings(request), "vocab_size": request.learned_size}


def _merge_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the superwords, but not their number, depend on besides the counts."""
    return {
        "version": LEARNING_VERSION,
        "superwords": request.extends,
        "pattern": request.reading.pattern.digest,
        "transition_size": request.transition_size,
        "min_count": request.min_count,
        "rules": request.token_rules.digest,
    }


def keep_words(tokenizer: Tokenizer, workspace: Workspace) -> None:
    """Store the files of the tokenizer that superwords continue."""
    directory = workspace.version_directory(tokenizer.digest)
    if not holds_version(workspace, tokenizer.digest):
        bpeline.save(tokenizer, directory)
        share_directory(workspace, directory, MANIFEST)
