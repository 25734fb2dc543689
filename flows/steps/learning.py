"""Learning by any algorithm: byte-level BPE, which can stop anywhere, is told from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.flows.steps.chunk_plan import plan_chunks
from bpeline.flows.steps.combining import CountedWords, add_up
from bpeline.flows.steps.continuing import continue_tokenizer
from bpeline.flows.steps.counting import count_words
from bpeline.flows.steps.merge_learning import LearnedMerges, learn_merges
from bpeline.flows.steps.parity_learning import learn_alike
from bpeline.flows.steps.superword_learning import learn_superwords
from bpeline.flows.steps.token_learning import LearnedTokens, learn_tokens
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.tokenizer import Tokenizer

Learned = LearnedMerges | LearnedTokens


def learn(words: CountedWords, request: TrainingRequest, workspace: Workspace) -> Learned:
    """Learn what the request asks for.

    For errors see `learn_merges`, `learn_alike`, `learn_tokens`, `continue_tokenizer` and
    `learn_superwords`.
    """
    if request.transition_size:
        return learn_superwords(words, request, workspace)
    if request.continued_ids:
        return continue_tokenizer(words, request, workspace)
    if request.serves_alike:
        return learn_alike(words, request, workspace)
    if request.algorithm == BYTE_BPE:
        return learn_merges(words, request, workspace)
    return learn_tokens(words, request, workspace)


def learned_from(parameters: Mapping[str, Any], registry: Registry) -> tuple[WordCounts, Tokenizer]:
    """The words of a training and the tokenizer they make; what is known is not made again."""
    told = {key: value for key, value in parameters.items() if key != "workspace"}
    request, workspace = TrainingRequest.checked(**told), registry.workspace
    plan = plan_chunks(request, registry)
    words = add_up(count_words(plan, request, registry), request, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    return counts, learn(words, request, workspace).tokenizer(request)
