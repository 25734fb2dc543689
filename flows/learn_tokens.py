"""Word counts become a tokenizer over characters; what an earlier run finished is taken from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flows.combine_counts import CountedWords
from flows.steps import step
from flows.training_request import TrainingRequest
from registry.word_count_store import WordCountStore
from registry.workspace import Workspace
from tokenizer_core.digests import digest_of
from tokenizer_core.errors import CorruptFile, InvalidOption, InvalidTokenizer, MissingSource
from tokenizer_core.formats import bpeline
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.trainers.characters import (
    train_char_bpe,
    train_frequency_bpe,
    train_wordpiece,
    wordpiece_base,
)
from tokenizer_core.trainers.greedy import greedy_longest
from tokenizer_core.trainers.word_pruning import NOTHING, PrunedWords, prune
from tokenizer_core.word_counts import WordCounts

_VERSION = 1  # raised whenever the same counts and settings make another tokenizer than before


@dataclass(frozen=True, slots=True)
class LearnedTokens:
    """A tokenizer that was trained and saved.

    Attributes:
        directory: holds it in our own format.
        merges: how many tokens merging made.
        wanted: how many were asked for; more than ``merges`` when no pair was left.
        resumed: ``merges`` when an earlier run had made it, else 0.
        pruned: the words that ``min_word_count`` left out.
    """

    directory: Path
    merges: int
    wanted: int
    resumed: int
    pruned: PrunedWords = NOTHING

    @property
    def stopped_early(self) -> bool:
        return self.merges < self.wanted

    @property
    def outcome(self) -> str:
        said = f"{self.merges:,} tokens made by merging"
        if self.resumed:
            said += ", all by an earlier run"
        if self.pruned.words:
            rare, times = self.pruned.words, self.pruned.occurrences
            said += f"; {rare:,} rare words, which occur {times:,} times together, left out"
        if self.stopped_early:
            said += f"; stopped early: no pair is left for the other {self.wanted - self.merges:,}"
        return said

    def tokenizer(self, request: TrainingRequest) -> Tokenizer:
        """The tokenizer.

        Raises:
            CorruptFile: its files were damaged since.
        """
        return bpeline.load(self.directory)


@step(name="learn merges")
def learn_tokens(
    words: CountedWords, request: TrainingRequest, workspace: Workspace
) -> LearnedTokens:
    """Train on the counts, all at once: seconds where byte-level BPE may take minutes.

    A training that is killed here begins this step again; one that is killed later does not, as
    the finished tokenizer lies at a place that follows from the counts and the settings.

    Raises:
        InvalidOption: the vocabulary has no room for the characters, or a word holds a mark.
        EmptyCorpus: no word occurs often enough.
        DiskFull: no space left.
    """
    settings = {
        "version": _VERSION,
        "algorithm": request.algorithm,
        "vocab_size": request.vocab_size,
        "special_tokens": request.special_tokens,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
        "options": dict(request.options),
    }
    key = digest_of([words.table.counts_digest, request.reading.pattern.digest, settings])
    directory = workspace.learned(key[:16])
    found = _found(directory)
    if found is not None:
        merges, wanted, pruned = found["merges"], found["wanted"], PrunedWords(**found["pruned"])
        return LearnedTokens(directory, merges, wanted, merges, pruned)
    counts = WordCountStore(workspace).open_table(words.table)
    pruned = prune(counts, request.min_word_count)[1]
    made, merges, wanted = _TRAINERS[request.algorithm](counts, request)
    bpeline.save(made, directory, {"merges": merges, "wanted": wanted, "pruned": asdict(pruned)})
    return LearnedTokens(directory, merges, wanted, 0, pruned)


def _found(directory: Path) -> dict[str, Any] | None:
    """What is said of a finished tokenizer; None where there is none that can be read."""
    try:
        bpeline.load(directory)
        said: dict[str, Any] = bpeline.read_manifest(directory)["provenance"]
    except (MissingSource, CorruptFile, InvalidTokenizer):
        return None
    return said


_Trained = tuple[Tokenizer, int, int]  # made by merging, and as many as were wanted


def _filled(train: Callable[[int], Tokenizer], request: TrainingRequest) -> _Trained:
    """A tokenizer of the merges that were asked for, or of those that fill the vocabulary."""
    base = train(0).vocab_size
    wanted = request.options.get("merges", request.vocab_size - base)
    if wanted < 0:
        raise InvalidOption(
            f"a vocabulary of {request.vocab_size:,} has no room for {base:,} characters and marks",
            f"--vocab-size is a whole number from {base:,} on; --merges is one from 0 on",
            "leave out rare words with --min-word-count, or ask for more",
        )
    made = train(wanted)
    # Merges of other parts that make the same text are one token.
    merges = len(made.merges) or made.vocab_size - base
    return made, merges, wanted


def _train_char_bpe(counts: WordCounts, request: TrainingRequest) -> _Trained:
    options = {name: value for name, value in request.options.items() if name != "merges"}
    greedy = options.pop("encoding", "merges") == "greedy"
    made, merges, wanted = _filled(
        partial(
            train_char_bpe,
            counts,
            tie_break=request.tie_break,
            min_count=request.min_count,
            min_word_count=request.min_word_count,
            special_tokens=request.special_tokens,
            **options,
        ),
        request,
    )
    if greedy:
        made = greedy_longest(made, counts, request.options.get("unknown", "</u>"))
    return made, merges, wanted


def _train_frequency_bpe(counts: WordCounts, request: TrainingRequest) -> _Trained:
    options = {name: value for name, value in request.options.items() if name != "merges"}
    return _filled(
        partial(
            train_frequency_bpe,
            counts,
            min_count=request.min_count,
            min_word_count=request.min_word_count,
            **options,
        ),
        request,
    )


def _train_wordpiece(counts: WordCounts, request: TrainingRequest) -> _Trained:
    made = train_wordpiece(
        counts,
        request.vocab_size,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        special_tokens=request.special_tokens,
        **request.options,
    )
    marks = {"continuation", "unknown"} & request.options.keys()
    naming = {name: request.options[name] for name in marks}
    base = wordpiece_base(
        counts, request.min_word_count, special_tokens=request.special_tokens, **naming
    )
    return made, made.vocab_size - len(base), request.vocab_size - len(base)


_TRAINERS: dict[str, Callable[[WordCounts, TrainingRequest], _Trained]] = {
    "char-bpe": _train_char_bpe,
    "wordpiece": _train_wordpiece,
    "frequency-bpe": _train_frequency_bpe,
}
