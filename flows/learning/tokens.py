"""Learning tokenizers over characters, continued from checkpoints."""

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
    """Learn merges of characters with a checkpoint; return the resulting tokenizer."""
    counts = WordCountStore(workspace).open_table(words.table)
    pruned = prune(counts, request.min_word_count)[1]
    training = _TRAININGS[request.algorithm](counts, request)
    wanted = _merges_wanted(request, training.base)
    settings = digest_of([request.reading.pattern.digest, training.settings])
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    train = partial(training.train, wanted)
    tokenizer, resumed = learned(workspace, checkpoint, train, listener)
    # Different merges that produce the same text share one token.
    merges = len(tokenizer.merges) or tokenizer.vocab_size - training.base
    tokenizer = training.encoding(tokenizer)
    mark = getattr(tokenizer.algorithm, "end_of_word", "").encode()
    holding_mark = sum(mark in word for word in counts.words()) if mark else 0
    resumed = min(resumed, merges)
    return tokenizer, LearnedTokens(directory, merges, wanted, resumed, pruned, holding_mark)


def token_settings(request: TrainingRequest) -> list[object]:
    """Return what the tokenizer of `learn_tokens` depends on besides the counts."""
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
    """Return the number of merges requested, or the number that fills the vocabulary."""
    wanted: int = request.options.get("merges", request.learned_size - base)
    if wanted < 0:
        raise InvalidOption(
            f"a vocabulary of {request.vocab_size:,} has no room for {base:,} characters and marks",
            f"expected --vocab-size of {base:,} or more, and --merges of 0 or more",
            "leave out rare words with --min-word-count, or increase the size",
        )
    return wanted


@dataclass(frozen=True, slots=True)
class _Training:
    """One algorithm with its counts."""

    base: int  # number of initial tokens
    settings: str  # digest of everything but the number of merges that decides the merges
    train: Callable[..., Tokenizer]  # takes the number of merges, then checkpoint options by name
    # Converts a tokenizer whose vocab is not used with its merges.
    encoding: Callable[[Tokenizer], Tokenizer] = lambda tokenizer: tokenizer


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
