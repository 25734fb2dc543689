"""Learning by any algorithm: byte-level BPE stores merges, others a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.counting import CountedWords, add_up, count_words, plan_chunks
from bpeline.flows.learning.checkpoints import (
    LEARNING_VERSION,
    LearnedTokens,
    Listener,
    cached,
    figures_in,
    learned,
    merges_in,
    silent,
)
from bpeline.flows.learning.merges import LearnedMerges, checkpoint_of, learn_alike, learn_merges
from bpeline.flows.requests import BYTE_BPE, TrainingRequest
from bpeline.flows.running import progress
from bpeline.registry.loading import holds_version, load_tokenizer
from bpeline.registry.opening import Registry
from bpeline.registry.word_counts import WordCountStore
from bpeline.registry.workspace import Workspace, share_directory
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
from bpeline.tokenizer_core.continuation import continue_merges
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import MANIFEST, digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.merging import END_OF_WORD, CharacterSettings, prune
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import merges_for, train_superbpe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Learned = LearnedMerges | LearnedTokens


# Learns a tokenizer that is stored in the directory.
_Learner = Callable[
    [CountedWords, TrainingRequest, Workspace, Path, Listener], tuple[Tokenizer, LearnedTokens]
]


def _learner_of(request: TrainingRequest) -> tuple[_Learner, object] | None:
    """Return the learner and its settings; None if merges are stored instead of a tokenizer."""
    if request.transition_size:
        return learn_superwords, superword_settings(request)
    if request.continued_ids:
        return continue_tokenizer, continuation_settings(request)
    return None if request.algorithm == BYTE_BPE else (learn_tokens, token_settings(request))


def learn(words: CountedWords, request: TrainingRequest, workspace: Workspace) -> Learned:
    """Learn the tokens of a request; for errors see the function of each algorithm."""
    return learn_unwatched(words, request, workspace, progress.current().merging)


def learn_unwatched(
    words: CountedWords, request: TrainingRequest, workspace: Workspace, listener: Listener = silent
) -> Learned:
    """Like `learn`, but as a part of another step, without its progress."""
    learner = _learner_of(request)
    if learner is not None:
        make, settings = learner
        directory = workspace.learned(words.table.counts_digest, digest_of(settings))
        return cached(
            workspace, directory, lambda: make(words, request, workspace, directory, listener)
        )
    learn_by = learn_alike if request.serves_alike else learn_merges
    return learn_by(words, request, workspace, listener)


def kept_merges(
    counts_digest: str,
    request: TrainingRequest,
    workspace: Workspace,
    given: NDArray[np.int32] | None,
) -> tuple[int, bool]:
    """Return the number of stored merges, and whether they are a finished tokenizer."""
    if request.serves_alike:
        return 0, False  # the path depends on the counts of each source
    learner = _learner_of(request)
    if learner is None:
        return merges_in(checkpoint_of(counts_digest, request, workspace, given)), False
    figures = figures_in(workspace.learned(counts_digest, digest_of(learner[1])))
    return (0, False) if figures is None else (int(figures["merges"]), True)


def learned_from(parameters: Mapping[str, Any], registry: Registry) -> tuple[WordCounts, Tokenizer]:
    """Return the words of a training and its tokenizer, from caches if possible."""
    fields = {key: value for key, value in parameters.items() if key != "workspace"}
    request, workspace = TrainingRequest.checked(**fields), registry.workspace
    plan = plan_chunks(request, registry)
    words = add_up(count_words(plan, request, registry), request, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    return counts, learn(words, request, workspace).tokenizer(request)


def continue_tokenizer(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
    listener: Listener,
) -> tuple[Tokenizer, LearnedTokens]:
    """Learn new tokens after those of the extended version."""
    base = load_tokenizer(request.extends, workspace)
    counts = WordCountStore(workspace).open_table(words.table)
    tokenizer = continue_merges(
        base,
        counts,
        request.learned_size,
        tie_break=request.tie_break,
        min_count=request.min_count,
        min_word_count=request.min_word_count,
        on_progress=listener,
    )
    pruned = prune(counts, request.min_word_count)[1]
    merges = tokenizer.vocab_size - base.vocab_size
    return tokenizer, LearnedTokens(directory, merges, request.merges, 0, pruned)


def continuation_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the tokenizer of `continue_tokenizer` depends on besides the counts."""
    return {
        "version": LEARNING_VERSION,
        "extends": request.extends,
        "vocab_size": request.learned_size,
        "tie_break": request.tie_break,
        "min_count": request.min_count,
        "min_word_count": request.min_word_count,
    }


def learn_superwords(
    words: CountedWords,
    request: TrainingRequest,
    workspace: Workspace,
    directory: Path,
    listener: Listener,
) -> tuple[Tokenizer, LearnedTokens]:
    """Learn merges across spaces after the words of a version, with a checkpoint."""
    settings = digest_of(_merge_settings(request))
    checkpoint = workspace.checkpoint(words.table.counts_digest, settings)
    base = load_tokenizer(request.extends, workspace)
    train = partial(
        train_superbpe,
        base,
        WordCountStore(workspace).open_table(words.table),
        request.learned_size,
        transition_size=request.transition_size,
        min_count=request.min_count,
        rules=request.token_rules,
    )
    tokenizer, resumed = learned(workspace, checkpoint, train, listener)
    merges = len(tokenizer.merges)
    wanted = merges_for(request.learned_size, list(base.special_tokens))
    return tokenizer, LearnedTokens(directory, merges, wanted, min(resumed, merges))


def superword_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the tokenizer of `learn_superwords` depends on besides the counts."""
    return {**_merge_settings(request), "vocab_size": request.learned_size}


def _merge_settings(request: TrainingRequest) -> dict[str, object]:
    """Return what the superwords, but not their number, depend on besides the counts."""
    return {
        "version": LEARNING_VERSION,
        "superwords": request.extends,
        "pattern": request.reading.pattern.digest,
        "transition_size": request.transition_size,
        "min_count": request.min_count,
        "rules": request.token_rules.digest,
    }


def keep_words(tokenizer: Tokenizer, workspace: Workspace) -> None:
    """Store the files of the tokenizer that superwords continue."""
    directory = workspace.version_directory(tokenizer.digest)
    if not holds_version(workspace, tokenizer.digest):
        bpeline.save(tokenizer, directory)
        share_directory(workspace, directory, MANIFEST)


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
