"""Learning with a merge engine: continued from a checkpoint, saved and told of while it goes on.

Every algorithm that merges comes through here. Knows nothing of bytes, characters or scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import whole_number
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bpeline.tokenizer_core.merging.checkpoint_schedule import CheckpointSchedule
from bpeline.tokenizer_core.merging.progress import Merger, OnProgress, Reporter
from bpeline.tokenizer_core.vocabulary import validate_tie_break

MERGES_PER_CHECKPOINT = 1000
_CALL_SECONDS = 0.03  # of one kernel call: long enough to cost nothing, short for Ctrl-C
_FIRST_CALL = 32  # merges
_DEFAULTS = (
    "the defaults are min_count=2, min_word_count=1, max_token_bytes=None, checkpoint_every=1000"
)


@dataclass(frozen=True, slots=True)
class PrunedWords:
    """What ``min_word_count`` left out.

    Attributes:
        words: distinct words.
        occurrences: of all of them together.
    """

    words: int
    occurrences: int


NOTHING = PrunedWords(0, 0)


def prune(counts: WordCounts, min_word_count: int) -> tuple[WordCounts, PrunedWords]:
    """The words that occur ``min_word_count`` times or more, and what was left out.

    Raises:
        InvalidOption: the least count is no whole number from 1 on.
        EmptyCorpus: no word of several is left.
    """
    min_word_count = whole_number("min_word_count", min_word_count, 1)
    frequent = counts.at_least(min_word_count)
    if min_word_count > 1 and len(counts) and not len(frequent):
        raise EmptyCorpus(
            f"none of {len(counts)} words occurs {min_word_count} times",
            f"min_word_count is at most {int(counts.counts.max())}, the most frequent word's count",
            "choose a smaller min_word_count, or leave it out",
        )
    if frequent is counts:
        return counts, NOTHING
    left_out = len(counts) - len(frequent), counts.total - frequent.total
    return frequent, PrunedWords(*left_out)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedMerges:
    """Merges in order, in the numbering of training.

    Ids below the number of base tokens are these (bytes in `byte_order` of the tie-break, or
    characters); the next ones are the merges.

    Attributes:
        left, right: int32 [n].
        counts: int64 [n]: how often each pair occurred when it was merged.
        exhausted: whether training ended early because no pair was left to merge.
        pruned: the words that ``min_word_count`` left out.
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    counts: NDArray[np.int64]
    exhausted: bool
    pruned: PrunedWords = NOTHING

    def __len__(self) -> int:
        return len(self.left)

    def pairs(self) -> list[tuple[int, int]]:
        """(left id, right id) of each merge."""
        return list(zip(self.left.tolist(), self.right.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Course:
    """How learning goes about it; nothing here changes what is learned.

    Attributes:
        resume_from: a checkpoint of the same counts and settings.
        checkpoint: where to save the merges while learning; the checkpoint before is kept beside
            it. Saved at the end too.
        checkpoint_every: merges between two checkpoints (fewer when they take over a second).
        on_progress: called at most ten times a second and at the end.
    """

    resume_from: Path | str | Checkpoint | None = None
    checkpoint: Path | str | None = None
    checkpoint_every: int = MERGES_PER_CHECKPOINT
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        for name, place in (("resume_from", self.resume_from), ("checkpoint", self.checkpoint)):
            if place is not None and not isinstance(place, (str, PathLike, Checkpoint)):
                raise InvalidOption(
                    f"{name} is {place!r}", "the path of a file", f'{name}="training.checkpoint"'
                )

    @property
    def saved_in(self) -> Path | None:
        """The file of earlier merges, if they are in one."""
        earlier = self.resume_from
        return None if earlier is None or isinstance(earlier, Checkpoint) else Path(earlier)

    @property
    def kept_in(self) -> Path | None:
        """Where to save the merges while learning, if anywhere."""
        return None if self.checkpoint is None else Path(self.checkpoint)


def validate_options(
    merges: int,
    tie_break: str,
    min_count: int,
    min_word_count: int,
    max_token_bytes: int | None = None,
    every: int = MERGES_PER_CHECKPOINT,
) -> None:
    """Refuse options out of range.

    Raises:
        InvalidOption: naming the option and what it may be.
    """
    validate_tie_break(tie_break)
    for name, value, least in (
        ("merges", merges, 0),
        ("min_count", min_count, 1),
        ("min_word_count", min_word_count, 1),
        ("max_token_bytes", 1 if max_token_bytes is None else max_token_bytes, 1),
        ("checkpoint_every", every, 1),
    ):
        whole_number(name, value, least, _DEFAULTS)


def learn_with(
    make_engine: Callable[[], Merger],
    merges: int,
    counts: WordCounts | None,
    settings: str,
    course: Course,
    *,
    given: NDArray[np.int32] | None = None,
    pruned: PrunedWords = NOTHING,
) -> LearnedMerges:
    """Learn until there are ``merges`` merges, those ``given`` and those of a checkpoint included.

    Args:
        make_engine: called unless the checkpoint holds all merges.
        counts: the words, before any were left out; None where no checkpoint is read or saved.
        settings: digest of all else that decides which merges are learned, apart from their number.
        given: int32 [n, 2]: merges that come before all learned ones.
        pruned: what to say was left out.

    Raises:
        InvalidOption: a checkpoint of other counts or settings, or none where one is named.
        CorpusError: counts beyond 64 bits.
        CorruptFile: no whole checkpoint, or one that these counts contradict.
        DiskFull: no space for the checkpoint; the one before is whole.
    """
    saved, kept_in = course.resume_from, course.kept_in
    if saved is not None and not isinstance(saved, Checkpoint):
        saved = load_checkpoint(Path(saved))
    keeps_merges = saved is not None or kept_in is not None
    digests = "", ""
    if keeps_merges:
        assert counts is not None
        digests = counts.digest, settings
    if saved is not None:
        saved.require_same_run(*digests)
        if len(saved) >= merges:
            if kept_in is not None and not kept_in.exists():
                save_checkpoint(kept_in, saved)
            columns = (saved.left[:merges], saved.right[:merges], saved.counts[:merges])
            return LearnedMerges(*columns, False, pruned)
    engine = make_engine()
    schedule = None
    if kept_in is not None:
        held = len(saved) if saved is not None and course.saved_in == kept_in else 0
        nothing = np.zeros(0, np.int32)
        blank = Checkpoint(*digests, nothing, nothing, np.zeros(0, np.int64), engine.base)
        schedule = CheckpointSchedule(kept_in, blank, held, course.checkpoint_every)
    reporter = Reporter(course.on_progress, engine, merges)
    if given is not None:
        _run(engine, len(given), reporter, schedule, given.astype(np.int64))
    if saved is not None:
        pairs = np.stack([saved.left, saved.right], axis=1).astype(np.int64)
        _run(engine, len(saved), reporter, None, pairs)
        if not np.array_equal(engine.learned[: len(saved), 2], saved.counts):
            raise CorruptFile(
                "the merges of the checkpoint do not occur in these word counts as it says",
                "a checkpoint gives the count of each merge, and replaying it must find the same",
                "train again without resume_from, and please report this",
            )
    _run(engine, merges, reporter, schedule, None)
    if schedule is not None:
        schedule.save(engine.learned)
    reporter.finish()
    left, right, found = engine.learned.T
    return LearnedMerges(
        left.astype(np.int32), right.astype(np.int32), found.copy(), len(found) < merges, pruned
    )


def _run(
    engine: Merger,
    goal: int,
    reporter: Reporter,
    schedule: CheckpointSchedule | None,
    given: NDArray[np.int64] | None,
) -> None:
    """Learn (or apply ``given``) until ``goal`` merges, in kernel calls of some 30 ms."""
    pace = _FIRST_CALL
    more = True
    while more and engine.merges_done < goal:
        done = engine.merges_done
        stop = min(goal, done + pace)
        if schedule is not None and schedule.next_stop > done:
            stop = min(stop, schedule.next_stop)
        began = time.monotonic()
        if given is None:
            more = engine.learn(stop)
        else:
            engine.apply(given, stop)
        if stop == done + pace:  # early merges are slow, late ones fast
            change = _CALL_SECONDS / max(time.monotonic() - began, 1e-6)
            pace = max(1, int(pace * min(max(change, 0.25), 4.0)))
        if schedule is not None:
            schedule.look(engine.learned)
        reporter.look()
