"""Learning by any algorithm: byte-level BPE stores merges, others a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.counting import CountedWords, add_up, count_words, plan_chunks
from bpeline.flows.learning.checkpoints import (
    LearnedTokens,
    Listener,
    cached,
    figures_in,
    merges_in,
    silent,
)
from bpeline.flows.learning.continuation import (
    continuation_settings,
    continue_tokenizer,
    learn_superwords,
    superword_settings,
)
from bpeline.flows.learning.merges import LearnedMerges, checkpoint_of, learn_alike, learn_merges
from bpeline.flows.learning.tokens import learn_tokens, token_settings
from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.flows.running import progress
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Learned = LearnedMerges | LearnedTokens


@dataclass(frozen=True, slots=True)
class _Learner:
    """An algorithm whose tokenizer is stored."""

    make: Callable[
        [CountedWords, TrainingRequest, Workspace, Path, Listener],
        tuple[Tokenizer, LearnedTokens],
    ]
    settings: Callable[[TrainingRequest], object]

    def directory(self, counts_digest: str, request: TrainingRequest, workspace: Workspace) -> Path:
        return workspace.learned(counts_digest, digest_of(self.settings(request)))


_SUPERWORDS = _Learner(learn_superwords, superword_settings)
_CONTINUATION = _Learner(continue_tokenizer, continuation_settings)
_TOKENS = _Learner(learn_tokens, token_settings)


def _learner_of(request: TrainingRequest) -> _Learner | None:
    """Return the learner, or None if merges are stored instead of a tokenizer."""
    if request.transition_size:
        return _SUPERWORDS
    if request.continued_ids:
        return _CONTINUATION
    return None if request.algorithm == BYTE_BPE else _TOKENS


def learn(words: CountedWords, request: TrainingRequest, workspace: Workspace) -> Learned:
    """Learn the tokens of a request; for errors see the function of each algorithm."""
    return learn_unwatched(words, request, workspace, progress.current().merging)


def learn_unwatched(
    words: CountedWords, request: TrainingRequest, workspace: Workspace, listener: Listener = silent
) -> Learned:
    """Like `learn`, but as a part of another step, without its progress."""
    learner = _learner_of(request)
    if learner is not None:
        make = learner.make
        directory = learner.directory(words.table.counts_digest, request, workspace)
        return cached(
            workspace, directory, lambda: make(words, request, workspace, directory, listener)
        )
    learn_by = learn_alike if request.serves_alike else learn_merges
    return learn_by(words, request, workspace, listener)


def kept_merges(
    counts_digest: str,
    request: TrainingRequest,
    workspace: Workspace,
    given: NDArray[np.int32] | None,
) -> tuple[int, bool]:
    """Return the number of stored merges, and whether they are a finished tokenizer."""
    if request.serves_alike:
        return 0, False  # the path depends on the counts of each source
    learner = _learner_of(request)
    if learner is None:
        return merges_in(checkpoint_of(counts_digest, request, workspace, given)), False
    figures = figures_in(learner.directory(counts_digest, request, workspace))
    return (0, False) if figures is None else (int(figures["merges"]), True)


def learned_from(parameters: Mapping[str, Any], registry: Registry) -> tuple[WordCounts, Tokenizer]:
    """Return the words of a training and its tokenizer, from caches if possible."""
    fields = {key: value for key, value in parameters.items() if key != "workspace"}
    request, workspace = TrainingRequest.checked(**fields), registry.workspace
    plan = plan_chunks(request, registry)
    words = add_up(count_words(plan, request, registry), request, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    return counts, learn(words, request, workspace).tokenizer(request)
