"""Word counts become a tokenizer over characters, continuing from whatever an earlier run left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import LEARN_MERGES, progress, step
from bpeline.flows.steps.combining import CountedWords
from bpeline.flows.steps.merge_learning import LearnedPart, merges_in
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import (
    Workspace,
    fetch,
    fetch_directory,
    share_directory,
    sharing,
)
from bpeline.tokenizer_core.algorithms import (
    WordPieceSettings,
    character_base,
    frequency_base,
    greedy_longest,
    train_char_bpe,
    train_frequency_bpe,
    train_wordpiece,
    wordpiece_base,
)
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
    MissingSource,
)
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import (
    END_OF_WORD,
    CharacterSettings,
    PrunedWords,
    prune,
)
from bpeline.tokenizer_core.sealed_manifests import MANIFEST
from bpeline.tokenizer_core.tokenizer import Tokenizer

_VERSION = 1  # raised whenever the same counts and settings make another tokenizer than before


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


@step(LEARN_MERGES)
def learn_tokens(
    words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> LearnedTokens:
    """Learn merges with a checkpoint, and keep the tokenizer that they make.

    The places of both follow from the counts and the settings, that of the checkpoint from those
    alone that decide which merges are learned: merges are a prefix order, so it serves every
    number of them.

    Raises:
        InvalidOption: the vocabulary has no room for the characters, or a word holds a mark.
        EmptyCorpus: no word occurs often enough.
        DiskFull: no space left.
    """
    directory = tokenizer_of(words.table.counts_digest, request, workspace)
    fetch_directory(workspace, directory, MANIFEST)
    found = found_in(directory)
    if found is not None:
        merges, wanted, pruned = found["merges"], found["wanted"], PrunedWords(**found["pruned"])
        holding = found.get("holding_mark", 0)
        return LearnedTokens(directory, merges, wanted, merges, pruned, holding)
    counts = WordCountStore(workspace).open_table(words.table)
    pruned = prune(counts, request.min_word_count)[1]
    training = _TRAININGS[request.algorithm](counts, request)
    wanted = _merges_wanted(request, training.base)
    settings = digest_of([request.reading.pattern.digest, training.settings])
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    fetch(workspace, checkpoint)
    resumed = merges_in(checkpoint)
    made = training.train(
        wanted,
        resume_from=checkpoint if resumed else None,
        checkpoint=checkpoint,
        on_progress=sharing(workspace, checkpoint, progress.current().merging),
    )
    # Merges of other parts that make the same text are one token.
    merges = len(made.merges) or made.vocab_size - training.base
    made = training.encoding(made)
    mark = getattr(made.algorithm, "end_of_word", "").encode()
    holding = sum(mark in word for word in counts.words()) if mark else 0
    said = {"merges": merges, "wanted": wanted, "pruned": asdict(pruned), "holding_mark": holding}
    bpeline.save(made, directory, said)
    share_directory(workspace, directory, MANIFEST)
    return LearnedTokens(directory, merges, wanted, min(resumed, merges), pruned, holding)


def tokenizer_of(counts_digest: str, request: TrainingRequest, workspace: Workspace) -> Path:
    """Where the tokenizer of these counts is, or would be, kept."""
    settings = {
        "version": _VERSION,
        "algorithm": request.algorithm,
        "vocab_size": request.learned_size,
        "special_tokens": request.special_tokens,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
        "options": dict(request.options),
    }
    pattern = request.reading.pattern.digest
    return workspace.learned(counts_digest, digest_of([pattern, settings]))


def found_in(directory: Path) -> dict[str, Any] | None:
    """What is said of a finished tokenizer; None where there is none that can be read."""
    try:
        Tokenizer.load(directory, "bpeline")
        said: dict[str, Any] = bpeline.read_manifest(directory)["provenance"]
    except (MissingSource, CorruptFile, InvalidTokenizer):
        return None
    return said


def _merges_wanted(request: TrainingRequest, base: int) -> int:
    """As many merges as were asked for, or as fill the vocabulary."""
    wanted: int = request.options.get("merges", request.learned_size - base)
    if wanted < 0:
        raise InvalidOption(
            f"a vocabulary of {request.vocab_size:,} has no room for {base:,} characters and marks",
            f"--vocab-size is a whole number from {base:,} on; --merges is one from 0 on",
            "leave out rare words with --min-word-count, or ask for more",
        )
    return wanted


@dataclass(frozen=True, slots=True)
class _Training:
    """One algorithm on its counts."""

    base: int  # how many tokens it begins with
    settings: str  # digest of what decides which merges it learns, apart from their number
    train: Callable[..., Tokenizer]  # of so many merges; told of checkpoints and progress by name
    # What the tokenizer becomes when its vocab is not for encoding in merge order.
    encoding: Callable[[Tokenizer], Tokenizer] = lambda made: made


def _char_bpe(counts: WordCounts, request: TrainingRequest) -> _Training:
    options = {name: value for name, value in request.options.items() if name != "merges"}
    least, rarest = request.min_count, request.min_word_count
    specials = request.special_tokens
    marking = options.get("end_of_word", END_OF_WORD), options.get("joined", False)
    encoding = options.pop("encoding", "merges")
    unknown = options.get("unknown", "</u>")

    train = partial(
        train_char_bpe,
        counts,
        tie_break=request.tie_break,
        min_count=least,
        min_word_count=rarest,
        special_tokens=specials,
        **options,
    )
    base = character_base(counts, rarest, special_tokens=specials, **options)
    settings = CharacterSettings(*marking, request.tie_break, least, rarest)
    training = _Training(len(base), settings.digest, train)
    if encoding == "merges":
        return training

    def greedy(made: Tokenizer) -> Tokenizer:
        frequent = prune(counts, rarest)[0]
        return greedy_longest(made, frequent, unknown, as_trained=encoding == "greedy-trained")

    return replace(training, encoding=greedy)


def _frequency_bpe(counts: WordCounts, request: TrainingRequest) -> _Training:
    options = {name: value for name, value in request.options.items() if name != "merges"}
    least, rarest = request.min_count, request.min_word_count
    end_of_word = options.get("end_of_word", END_OF_WORD)

    train = partial(train_frequency_bpe, counts, min_count=least, min_word_count=rarest, **options)
    base = frequency_base(counts, rarest, end_of_word=end_of_word)
    settings = CharacterSettings(end_of_word, False, "first-seen", least, rarest)
    return _Training(len(base), settings.digest, train)


def _wordpiece(counts: WordCounts, request: TrainingRequest) -> _Training:
    least, rarest = request.min_count, request.min_word_count
    specials = request.special_tokens
    marks = {"continuation", "unknown"} & request.options.keys()
    naming = {name: request.options[name] for name in marks}
    base = wordpiece_base(counts, rarest, special_tokens=specials, **naming)

    def train(merges: int, **course: Any) -> Tokenizer:
        return train_wordpiece(
            counts,
            len(base) + merges,
            min_count=least,
            min_word_count=rarest,
            special_tokens=specials,
            **request.options,
            **course,
        )

    settings = WordPieceSettings(request.options.get("score", "ratio"), least, rarest)
    return _Training(len(base), settings.digest, train)


_TRAININGS: dict[str, Callable[[WordCounts, TrainingRequest], _Training]] = {
    "char-bpe": _char_bpe,
    "wordpiece": _wordpiece,
    "frequency-bpe": _frequency_bpe,
}
