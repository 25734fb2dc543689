"""What learning made: looked up where an earlier run kept it, else learned, kept and shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bpeline.flows.requests import TrainingRequest
from bpeline.registry.records import DevelopmentText
from bpeline.registry.workspace import (
    Workspace,
    fetch,
    fetch_directory,
    share_directory,
    share_grown,
    sharing,
)
from bpeline.tokenizer_core.derived import with_reserved_slots
from bpeline.tokenizer_core.digests import MANIFEST
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
    MissingSource,
)
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import NOTHING, PrunedWords, TrainingProgress, load_checkpoint
from bpeline.tokenizer_core.tokenizer import Tokenizer

LEARNING_VERSION = 1  # increase it when the same counts and settings make another tokenizer

Listener = Callable[[TrainingProgress], None]
T = TypeVar("T")


def silent(at: TrainingProgress) -> None:
    """The listener that ignores progress."""


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
class LearnedTokens(LearnedPart):
    """A tokenizer of another algorithm.

    Attributes:
        holding_mark: distinct words that hold the mark of the end of a word.
    """

    holding_mark: int = 0

    @property
    def outcome(self) -> str:
        said = f"{self.merges:,} tokens made by merging"
        if self.resumed:
            share = "all" if self.resumed == self.merges else f"{self.resumed:,} of them"
            said += f", {share} learned before"
        if self.holding_mark:
            said += f"; {self.holding_mark:,} words hold the mark of the end of a word"
        return said + self.what_was_left

    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """The tokenizer.

        Raises:
            CorruptFile: its files were damaged since.
        """
        return Tokenizer.load(self.place, "bpeline")


def cached(
    workspace: Workspace, directory: Path, make: Callable[[], tuple[Tokenizer, LearnedTokens]]
) -> LearnedTokens:
    """Return the tokenizer kept in ``directory``; if there is none, make, save and share it.

    Args:
        workspace: its store may have the directory.
        directory: follows from the word counts and the settings.
        make: returns the tokenizer and the figures of its learning.

    Raises:
        DiskFull: no space left.
    """
    fetch_directory(workspace, directory, MANIFEST)
    figures = figures_in(directory)
    if figures is not None:
        merges, pruned = figures["merges"], PrunedWords(**figures["pruned"])
        holding_mark = figures.get("holding_mark", 0)
        return LearnedTokens(directory, merges, figures["wanted"], merges, pruned, holding_mark)
    tokenizer, tokens = make()
    figures = {
        "merges": tokens.merges,
        "wanted": tokens.wanted,
        "pruned": asdict(tokens.pruned),
        "holding_mark": tokens.holding_mark,
    }
    bpeline.save(tokenizer, directory, figures)
    share_directory(workspace, directory, MANIFEST)
    return tokens


def figures_in(directory: Path) -> dict[str, Any] | None:
    """The figures of a tokenizer that `cached` saved; None if there is no readable one."""
    try:
        Tokenizer.load(directory, "bpeline")
        figures: dict[str, Any] = bpeline.read_manifest(directory)["provenance"]
    except (MissingSource, CorruptFile, InvalidTokenizer):
        return None
    return figures


def learned(
    workspace: Workspace, checkpoint: Path, train: Callable[..., T], listener: Listener
) -> tuple[T, int]:
    """Train on from a checkpoint, save and share it; return the result and the merges resumed.

    Args:
        workspace: its store may have a checkpoint that another machine wrote.
        checkpoint: follows from the word counts and the settings that decide which merges are
            learned, not how many: merges are a prefix order.
        train: takes ``resume_from``, ``checkpoint`` and ``on_progress``, see `merging.Course`.
        listener: called with the progress.

    Raises:
        DiskFull: no space; the checkpoint before is kept.
    """
    fetch(workspace, checkpoint)
    resumed = merges_in(checkpoint)
    result = train(
        resume_from=checkpoint if resumed else None,
        checkpoint=checkpoint,
        on_progress=sharing(workspace, checkpoint, listener),
    )
    share_grown(workspace, checkpoint)
    return result, resumed


def merges_in(checkpoint: Path) -> int:
    """How many merges can be continued from; a checkpoint that cannot be read is none."""
    try:
        return len(load_checkpoint(checkpoint))
    except (CorruptFile, InvalidOption):
        return 0
