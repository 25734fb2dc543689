"""Learning by any algorithm: byte-level BPE, which can stop anywhere, is told from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.flows.steps.chunk_plan import plan_chunks
from bpeline.flows.steps.combining import CountedWords, add_up
from bpeline.flows.steps.continuing import continue_tokenizer, continued_of
from bpeline.flows.steps.counting import count_words
from bpeline.flows.steps.merge_learning import (
    LearnedMerges,
    checkpoint_of,
    learn_merges,
    merges_in,
)
from bpeline.flows.steps.parity_learning import learn_alike
from bpeline.flows.steps.superword_learning import learn_superwords, superwords_of
from bpeline.flows.steps.token_learning import LearnedTokens, found_in, learn_tokens, tokenizer_of
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


def kept_merges(
    counts_digest: str,
    request: TrainingRequest,
    workspace: Workspace,
    given: NDArray[np.int32] | None,
) -> tuple[int, bool]:
    """How many merges of these counts `learn` finds, and whether they are a finished tokenizer.

    Args:
        given: the merges that come first, see `given_merges`.
    """
    if request.serves_alike:
        return 0, False  # the place depends on the counts of each source
    if request.transition_size:
        place = superwords_of(counts_digest, request, workspace)
    elif request.continued_ids:
        place = continued_of(counts_digest, request, workspace)
    elif request.algorithm == BYTE_BPE:
        return merges_in(checkpoint_of(counts_digest, request, workspace, given)), False
    else:
        place = tokenizer_of(counts_digest, request, workspace)
    found = found_in(place)
    return (0, False) if found is None else (int(found["merges"]), True)


def learned_from(parameters: Mapping[str, Any], registry: Registry) -> tuple[WordCounts, Tokenizer]:
    """The words of a training and the tokenizer they make; what is known is not made again."""
    told = {key: value for key, value in parameters.items() if key != "workspace"}
    request, workspace = TrainingRequest.checked(**told), registry.workspace
    plan = plan_chunks(request, registry)
    words = add_up(count_words(plan, request, registry), request, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    return counts, learn(words, request, workspace).tokenizer(request)
