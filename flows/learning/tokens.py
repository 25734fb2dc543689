"""Word counts become a tokenizer over characters, continuing from whatever an earlier run left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bpeline.flows.counting import CountedWords
from bpeline.flows.learning.checkpoints import LEARNING_VERSION, LearnedTokens, Listener, learned
from bpeline.flows.requests import TrainingRequest
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace
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
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.merging import END_OF_WORD, CharacterSettings, prune
from bpeline.tokenizer_core.tokenizer import Tokenizer


def learn_tokens(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
    listener: Listener,
) -> tuple[Tokenizer, LearnedTokens]:
    """Learn merges of characters with a checkpoint; return the tokenizer that they make.

    Raises:
        InvalidOption: the vocabulary has no room for the characters, or a word holds a mark.
        EmptyCorpus: no word occurs often enough.
        DiskFull: no space left.
    """
    counts = WordCountStore(workspace).open_table(words.table)
    pruned = prune(counts, request.min_word_count)[1]
    training = _TRAININGS[request.algorithm](counts, request)
    wanted = _merges_wanted(request, training.base)
    settings = digest_of([request.reading.pattern.digest, training.settings])
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    train = partial(training.train, wanted)
    tokenizer, resumed = learned(workspace, checkpoint, train, listener)
    # Merges of other parts that make the same text are one token.
    merges = len(tokenizer.merges) or tokenizer.vocab_size - training.base
    tokenizer = training.encoding(tokenizer)
    mark = getattr(tokenizer.algorithm, "end_of_word", "").encode()
    holding_mark = sum(mark in word for word in counts.words()) if mark else 0
    resumed = min(resumed, merges)
    return tokenizer, LearnedTokens(directory, merges, wanted, resumed, pruned, holding_mark)


def token_settings(request: TrainingRequest) -> list[object]:
    """What decides, besides the counts, which tokenizer `learn_tokens` makes."""
    settings = {
        "version": LEARNING_VERSION,
        "algorithm": request.algorithm,
        "vocab_size": request.learned_size,
        "special_tokens": request.special_tokens,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
        "options": dict(request.options),
    }
    return [request.reading.pattern.digest, settings]


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
