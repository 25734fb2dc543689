"""Learned tokens in a cache: loaded if present, else learned, saved and shared."""

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

LEARNING_VERSION = 1  # increase it if the same counts and settings give another tokenizer

Listener = Callable[[TrainingProgress], None]
T = TypeVar("T")


def silent(at: TrainingProgress) -> None:
    """Listener that ignores progress."""


@dataclass(frozen=True, slots=True)
class LearnedPart(ABC):
    """The saved result of learning.

    Attributes:
        place: the checkpoint, which may have more merges than requested; or the directory of a
            tokenizer in bpeline's format.
        merges: number of merges used, or of tokens made by merging.
        wanted: number requested; more than ``merges`` if no pair was left.
    """

    place: Path
    merges: int
    wanted: int
    resumed: int
    pruned: PrunedWords = NOTHING
    development: tuple[DevelopmentText, ...] = field(default=(), kw_only=True)

    def tokenizer(self, request: TrainingRequest) -> Tokenizer:
        """Build the tokenizer, with the reserved ids of the request.

        Raises:
            CorruptFile: the saved result is damaged.
        """
        return with_reserved_slots(self.without_slots(request), request.reserve, request.round_to)

    @abstractmethod
    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """Build the tokenizer without reserved ids."""

    @property
    def stopped_early(self) -> bool:
        return self.merges < self.wanted

    @property
    def what_was_left(self) -> str:
        """Text on rare words left out and merges not learned; may be empty."""
        text = ""
        if self.pruned.words:
            rare, times = self.pruned.words, self.pruned.occurrences
            text += f"; {rare:,} rare words, which occur {times:,} times together, left out"
        if self.stopped_early:
            text += f"; stopped early: no pair is left for the other {self.wanted - self.merges:,}"
        return text


@dataclass(frozen=True, slots=True)
class LearnedTokens(LearnedPart):
    """A tokenizer; ``holding_mark`` counts words that contain the end-of-word mark."""

    holding_mark: int = 0

    @property
    def outcome(self) -> str:
        summary = f"{self.merges:,} tokens made by merging"
        if self.resumed:
            share = "all" if self.resumed == self.merges else f"{self.resumed:,} of them"
            summary += f", {share} learned before"
        if self.holding_mark:
            summary += f"; {self.holding_mark:,} words contain the end-of-word mark"
        return summary + self.what_was_left

    def without_slots(self, request: TrainingRequest) -> Tokenizer:
        """Load the tokenizer."""
        return Tokenizer.load(self.place, "bpeline")


def cached(
    workspace: Workspace, directory: Path, make: Callable[[], tuple[Tokenizer, LearnedTokens]]
) -> LearnedTokens:
    """Return the tokenizer stored in ``directory``, or make, save and share it."""
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
    """Return the figures of a stored tokenizer; None if there is no readable one."""
    try:
        Tokenizer.load(directory, "bpeline")
        figures: dict[str, Any] = bpeline.read_manifest(directory)["provenance"]
    except (MissingSource, CorruptFile, InvalidTokenizer):
        return None
    return figures


def learned(
    workspace: Workspace, checkpoint: Path, train: Callable[..., T], listener: Listener
) -> tuple[T, int]:
    """Continue training from a checkpoint; return the result and the resumed merges.

    Args:
        workspace: its shared store may have a checkpoint of another machine.
        checkpoint: derived from the word counts and from the settings, except for the number of
            merges: fewer merges are a prefix of more.
        train: takes ``resume_from``, ``checkpoint`` and ``on_progress``, see `CheckpointPolicy`.
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
    """Return the number of merges in a checkpoint; 0 if it is missing or unreadable."""
    try:
        return len(load_checkpoint(checkpoint))
    except (CorruptFile, InvalidOption):
        return 0
