"""Word counts become merges, continuing from whatever an earlier run left behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import LEARN_MERGES, progress, step
from bpeline.flows.steps.combining import CountedWords
from bpeline.registry.loading import load_tokenizer
from bpeline.registry.records import DevelopmentText
from bpeline.registry.version_files import holds_version, load_verified
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace, fetch, share_grown, sharing
from bpeline.tokenizer_core.derived import with_reserved_slots
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.merging import NOTHING, PrunedWords, TrainingProgress, load_checkpoint
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import NO_RULES, TokenRules, bpe, extended, merges_to_continue
from bpeline.tokenizer_core.vocabulary import byte_order, token_bytes, vocab_from_merges

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LearnedPart(ABC):
    """What learning made and saved.

    Attributes:
        place: the checkpoint, which may hold more merges than were asked for; or the directory of
            a tokenizer in our own format.
        merges: how many merges count, or how many tokens merging made.
        wanted: how many were asked for; more than ``merges`` when no pair was left.
        resumed: how many an earlier run had learned.
        pruned: the words that ``min_word_count`` left out.
        development: the texts that said which language each merge serves; empty as a rule.
    """

    place: Path
    merges: int
    wanted: int
    resumed: int
    pruned: PrunedWords = NOTHING
    development: tuple[DevelopmentText, ...] = field(default=(), kw_only=True)

    def tokenizer(self, request: TrainingRequest) -> Tokenizer:
        """The tokenizer this makes, with the slots that the request reserves.

        Raises:
            CorruptFile: what was saved was damaged since.
        """
        return with_reserved_slots(self.without_slots(request), request.reserve, request.round_to)

    @abstractmethod
    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """The tokenizer as it was learned."""

    @property
    def stopped_early(self) -> bool:
        return self.merges < self.wanted

    @property
    def what_was_left(self) -> str:
        """The rest of a sentence: rare words left out, merges that found no pair."""
        said = ""
        if self.pruned.words:
            rare, times = self.pruned.words, self.pruned.occurrences
            said += f"; {rare:,} rare words, which occur {times:,} times together, left out"
        if self.stopped_early:
            said += f"; stopped early: no pair is left for the other {self.wanted - self.merges:,}"
        return said


@dataclass(frozen=True, slots=True)
class LearnedMerges(LearnedPart):
    """Merges of byte-level BPE.

    Attributes:
        base: the files of the version whose merges come first.
        rules: what every token that they make was checked against.
    """

    base: Path | None = None
    rules: TokenRules = NO_RULES

    @property
    def outcome(self) -> str:
        said = f"{self.merges:,} merges"
        if self.resumed:
            said += f", {self.resumed:,} of them from the checkpoint"
        if self.rules:
            said += f"; each token: {self.rules}"
        return said + self.what_was_left

    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """The tokenizer these merges make.

        Raises:
            CorruptFile: the checkpoint was damaged since.
            InvalidTokenizer: a token that the request forbids, which is a defect.
        """
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


@step(LEARN_MERGES)
def learn_merges(
    words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> LearnedMerges:
    """Learn merges with a checkpoint that any later run over the same counts continues.

    The checkpoint's place follows from the counts and from the settings that decide which merges
    are learned. The vocabulary size is not among them: merges are a prefix order.

    Raises:
        EmptyCorpus: no word occurs often enough.
        DiskFull: no space; the checkpoint before is kept.
    """
    return learned_merges(words, request, workspace, progress.current().merging)


def learned_merges(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    listener: Callable[[TrainingProgress], object] = lambda at: None,
) -> LearnedMerges:
    """As `learn_merges`, for a step of its own or as a part of another, whose progress differs."""
    assert not request.forbid_from, "flows.steps.with_findings writes the findings out"
    given, base = given_merges(request, workspace)
    rules = request.token_rules
    checkpoint = checkpoint_of(words.table.counts_digest, request, workspace, given)
    fetch(workspace, checkpoint)
    resumed = merges_in(checkpoint)
    if resumed >= request.merges and request.min_word_count == 1:
        share_grown(workspace, checkpoint)
        count = request.merges
        return LearnedMerges(checkpoint, count, count, count, base=base, rules=rules)
    learned = bpe.learn_merges(
        WordCountStore(workspace).open_table(words.table),
        request.merges,
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        max_token_bytes=request.max_token_bytes,
        given=given,
        rules=rules,
        resume_from=checkpoint if resumed else None,
        checkpoint=checkpoint,
        on_progress=sharing(workspace, checkpoint, listener),
        threads=request.workers,
    )
    share_grown(workspace, checkpoint)
    return LearnedMerges(
        checkpoint,
        len(learned),
        request.merges,
        min(resumed, len(learned)),
        learned.pruned,
        base,
        rules,
    )


def given_merges(
    request: TrainingRequest, workspace: Workspace
) -> tuple[NDArray[np.int32] | None, Path | None]:
    """The merges that come before those that are learned; where the version lies that has them.

    Those of the required tokens, or of the version that is extended; None where there are none.
    """
    if not request.extends:
        return request.given, None
    base = workspace.version_directory(request.extends)
    if holds_version(workspace, request.extends):
        tokenizer = load_verified(base, request.extends)
    else:
        tokenizer = load_tokenizer(request.extends, workspace)  # and keeps its files
    return merges_to_continue(tokenizer, request.tie_break), base


def checkpoint_of(
    counts_digest: str,
    request: TrainingRequest,
    workspace: Workspace,
    given: NDArray[np.int32] | None,
) -> Path:
    """Where the merges of these counts are, or would be, kept."""
    settings = bpe.settings_digest(
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        max_token_bytes=request.max_token_bytes,
        given=given,
        rules=request.token_rules,
    )
    return workspace.checkpoint(counts_digest, settings)


def merges_in(checkpoint: Path) -> int:
    """How many merges can be continued from; a checkpoint that cannot be read is none."""
    try:
        return len(load_checkpoint(checkpoint))
    except (CorruptFile, InvalidOption):
        return 0
