"""The one place that tells byte-level BPE, which can stop anywhere, from the other algorithms."""

from __future__ import annotations

from flows.training.algorithm_options import BYTE_BPE
from flows.training.combine_counts import CountedWords
from flows.training.learn_merges import LearnedMerges, learn_merges
from flows.training.learn_tokens import LearnedTokens, learn_tokens
from flows.training.training_request import TrainingRequest
from registry.workspace.workspace import Workspace

Learned = LearnedMerges | LearnedTokens


def learn(words: CountedWords, request: TrainingRequest, workspace: Workspace) -> Learned:
    """Learn what the request asks for; see `learn_merges` and `learn_tokens` for errors."""
    if request.algorithm == BYTE_BPE:
        return learn_merges(words, request, workspace)
    return learn_tokens(words, request, workspace)
