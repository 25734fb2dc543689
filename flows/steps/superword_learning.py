"""Superwords are learned behind the words of a version; what a run before learned is taken over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import LEARN_MERGES, progress, step
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.merge_learning import merges_in
from bpeline.flows.steps.token_learning import LearnedTokens, found_in
from bpeline.registry.loading import load_tokenizer
from bpeline.registry.version_files import holds_version
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace, fetch, fetch_directory, share_directory, sharing
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import NOTHING, TrainingProgress
from bpeline.tokenizer_core.sealed_manifests import MANIFEST
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import merges_for, train_superbpe

_VERSION = 1  # raised whenever the same counts and settings make another tokenizer than before


@step(LEARN_MERGES)
def learn_superwords(
    words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> LearnedTokens:
    """Learn merges across spaces, with a checkpoint, and keep the tokenizer that they make.

    Raises:
        InvalidOption: the version cannot be continued, or has no such size.
        InvalidSpecialToken: a special token became a token.
        DiskFull: no space left.
    """
    return learned_superwords(words, request, workspace, progress.current().merging)


def learned_superwords(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    listener: Callable[[TrainingProgress], object] = lambda at: None,
) -> LearnedTokens:
    """As `learn_superwords`, as a part of another step, whose progress differs."""
    directory = superwords_of(words.table.counts_digest, request, workspace)
    fetch_directory(workspace, directory, MANIFEST)
    if (found := found_in(directory)) is not None:
        made = int(found["merges"])
        return LearnedTokens(directory, made, int(found["wanted"]), made)
    checkpoint = workspace.checkpoint(words.table.counts_digest, digest_of(_settings(request)))
    fetch(workspace, checkpoint)
    resumed = merges_in(checkpoint)
    base = load_tokenizer(request.extends, workspace)
    wanted = merges_for(request.learned_size, list(base.special_tokens))
    tokenizer = train_superbpe(
        base,
        WordCountStore(workspace).open_table(words.table),
        request.learned_size,
        transition_size=request.transition_size,
        min_count=request.min_count,
        rules=request.token_rules,
        resume_from=checkpoint if resumed else None,
        checkpoint=checkpoint,
        on_progress=sharing(workspace, checkpoint, listener),
    )
    made = len(tokenizer.merges)
    said = {"merges": made, "wanted": wanted, "pruned": asdict(NOTHING)}
    bpeline.save(tokenizer, directory, said)
    share_directory(workspace, directory, MANIFEST)
    return LearnedTokens(directory, made, wanted, min(resumed, made))


def keep_words(tokenizer: Tokenizer, workspace: Workspace) -> None:
    """Keep the files of a tokenizer that superwords are learned behind, registered or not."""
    directory = workspace.version_directory(tokenizer.digest)
    if not holds_version(workspace, tokenizer.digest):
        bpeline.save(tokenizer, directory)
        share_directory(workspace, directory, MANIFEST)


def superwords_of(counts_digest: str, request: TrainingRequest, workspace: Workspace) -> Path:
    """Where the tokenizer of these counts is, or would be, kept."""
    settings = {**_settings(request), "vocab_size": request.learned_size}
    return workspace.learned(counts_digest, digest_of(settings))


def _settings(request: TrainingRequest) -> dict[str, object]:
    """What decides, besides the counts, which merges are learned; not how many."""
    return {
        "version": _VERSION,
        "superwords": request.extends,
        "pattern": request.reading.pattern.digest,
        "transition_size": request.transition_size,
        "min_count": request.min_count,
        "rules": request.token_rules.digest,
    }
