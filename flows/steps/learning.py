"""The one place that tells byte-level BPE, which can stop anywhere, from the other algorithms."""

from __future__ import annotations

from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.merge_learning import LearnedMerges, learn_merges
from bpeline.flows.steps.token_learning import LearnedTokens, learn_tokens
from bpeline.registry.workspace import Workspace

Learned = LearnedMerges | LearnedTokens


def learn(words: CountedWords, request: TrainingRequest, workspace: Workspace) -> Learned:
    """Learn what the request asks for; see `learn_merges` and `learn_tokens` for errors."""
    if request.algorithm == BYTE_BPE:
        return learn_merges(words, request, workspace)
    return learn_tokens(words, request, workspace)
