"""Learning merges of byte-level BPE, also with parity between sources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bpeline.flows.counting import CountedWords
from bpeline.flows.learning.checkpoints import LearnedPart, Listener, learned, merges_in, silent
from bpeline.flows.requests import TrainingRequest
from bpeline.registry.loading import holds_version, load_tokenizer, load_verified
from bpeline.registry.records import DevelopmentText
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.counting import WordCounts, count_texts, documents_of
from bpeline.tokenizer_core.digests import DocumentDigest
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.merging import NOTHING, PrunedWords, load_checkpoint
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import (
    NO_RULES,
    TokenRules,
    bpe,
    extended,
    learn_parity_merges,
    merges_to_continue,
    parity_digest,
)
from bpeline.tokenizer_core.vocabulary import byte_order, token_bytes, vocab_from_merges

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LearnedMerges(LearnedPart):
    """Merges of byte-level BPE; ``base`` is the directory of the version they follow."""

    base: Path | None = None
    rules: TokenRules = NO_RULES

    @property
    def outcome(self) -> str:
        summary = f"{self.merges:,} merges"
        if self.resumed:
            summary += f", {self.resumed:,} of them from the checkpoint"
        if self.rules:
            summary += f"; each token: {self.rules}"
        return summary + self.what_was_left

    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """Build the tokenizer from the merges."""
        order = byte_order(request.tie_break)
        left = right = np.empty(0, np.int32)
        if self.merges:
            saved = load_checkpoint(self.place)
            left, right = saved.left[: self.merges], saved.right[: self.merges]
        pairs = list(zip(left.tolist(), right.tolist(), strict=True))
        if self.rules:
            self.rules.prove(token_bytes(pairs, order))
        if self.base is not None:
            base = load_verified(self.base, request.extends)
            return extended(base, pairs, request.tie_break)
        made = vocab_from_merges(left, right, order, request.special_tokens)
        return Tokenizer(made.vocab, made.merges, made.special_tokens, request.pattern)


def learn_merges(
    words: CountedWords, request: TrainingRequest, workspace: Workspace, listener: Listener = silent
) -> LearnedMerges:
    """Learn merges with a checkpoint, which later runs over the same counts continue."""
    assert not request.forbid_from, "flows.evaluation.with_forbidden_tokens writes the findings out"
    initial, base = initial_merges(request, workspace)
    wanted, rules = request.merges, request.token_rules

    def train(resume_from: Path | None, **course: Any) -> tuple[int, PrunedWords]:
        if request.min_word_count == 1 and resume_from and merges_in(resume_from) >= wanted:
            return wanted, NOTHING  # without reading the words
        result = bpe.learn_merges(
            WordCountStore(workspace).open_table(words.table),
            wanted,
            tie_break=request.tie_break,
            min_count=request.min_count,
            min_word_count=request.min_word_count,
            max_token_bytes=request.max_token_bytes,
            given=initial,
            rules=rules,
            resume_from=resume_from,
            **course,
        )
        return len(result), result.pruned

    checkpoint = checkpoint_of(words.table.counts_digest, request, workspace, initial)
    (merges, pruned), resumed = learned(workspace, checkpoint, train, listener)
    return LearnedMerges(checkpoint, merges, wanted, min(resumed, merges), pruned, base, rules)


def initial_merges(
    request: TrainingRequest, workspace: Workspace
) -> tuple[NDArray[np.int32] | None, Path | None]:
    """Return the initial merges (or None), and the extended version's path (or None).

    The initial merges are those of the required tokens or of the extended version.
    """
    if not request.extends:
        return request.given, None
    base = workspace.version_directory(request.extends)
    if holds_version(workspace, request.extends):
        tokenizer = load_verified(base, request.extends)
    else:
        tokenizer = load_tokenizer(request.extends, workspace)  # also stores its files
    return merges_to_continue(tokenizer, request.tie_break), base


def checkpoint_of(
    counts_digest: str,
    request: TrainingRequest,
    workspace: Workspace,
    given: NDArray[np.int32] | None,
) -> Path:
    """Return the path of the checkpoint for these counts, which may not exist yet."""
    settings = bpe.settings_digest(
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        max_token_bytes=request.max_token_bytes,
        given=given,
        rules=request.token_rules,
    )
    return workspace.checkpoint(counts_digest, settings)


def learn_alike(
    words: CountedWords, request: TrainingRequest, workspace: Workspace, listener: Listener
) -> LearnedMerges:
    """Learn merges, each for the language with the worst compression."""
    initial, base = initial_merges(request, workspace)
    store = WordCountStore(workspace)
    languages = _own_counts(words, request, store)
    development, read = _development_counts(request)
    options: dict[str, Any] = {
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
        "max_token_bytes": request.max_token_bytes,
        "given": initial,
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
    """Return the separate counts of each named source."""
    keys = {source_counted.source: source_counted.table_key for source_counted in words.sources}
    counts: dict[str, WordCounts] = {}
    for source in request.named_sources:
        handle = store.table(keys.get(source.name, ""))
        if handle is None:
            raise EmptyCorpus(
                f"there is not a single word in the source {source.name}",
                "expected text in each source, because --parity balances their compression",
                f"leave {source.name} out, or check its files: a file of two sources belongs to "
                "the first",
            )
        counts[source.name] = store.open_table(handle)
    return counts


def _development_counts(
    request: TrainingRequest,
) -> tuple[dict[str, WordCounts] | None, tuple[DevelopmentText, ...]]:
    """Return the word counts of the development texts, and records of the texts."""
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
                "expected text for each source, because --parity balances their compression",
                f"name files that contain text: `--parity-dev {source.name}=FILES`",
            ) from error
        text = DevelopmentText(
            source.name, source.files, content.digest, content.documents, content.bytes
        )
        read.append(text)
    return counts, tuple(read)
