"""How far new text has moved from what a version was made for, in figures with intervals.

Every figure is computed from word counts: each distinct word is encoded once. Words are the
pre-tokens of the version's own split pattern. Knows no files, no versions and no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation.bootstrap import (
    Interval,
    percentile_interval,
    resampled_change,
)
from bpeline.tokenizer_core.evaluation.metric_names import (
    BYTES_PER_TOKEN,
    CONFIDENCE,
    FEWEST_RESAMPLED,
)
from bpeline.tokenizer_core.evaluation.word_drift import (
    NewWord,
    TextSample,
    counts_in,
    divergence_draws,
    new_frequent_words,
    tokens_of_words,
    word_divergence,
)

if TYPE_CHECKING:
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.tokenizer import Tokenizer

Sum = TypeVar("Sum", int, NDArray[np.int64])  # of everything, or of each block

MANY_TOKENS = 4  # a word of so many is one the vocab has no good tokens for
_DRAWS = 200  # of halves; each draw adds up some hundred thousand counts
_SEED = 20_240_301

TOKENS_PER_WORD = "words/tokens_per_word"
CONTINUED = "words/continued"
MANY = "words/in_many_tokens"
UNSEEN = "words/unseen"
DIVERGENCE = "words/divergence"
DIVERGENCE_AT_SIZE = "words/divergence_at_size"
EXCESS_DIVERGENCE = "words/excess_divergence"
NEW_FREQUENT = "words/new_frequent"
NEW_COST = "words/new_frequent_cost"

# metric → what it is; B, T, W: bytes, tokens and words (occurrences of pre-tokens) of the text.
DRIFT_DEFINITIONS: Mapping[str, str] = {
    BYTES_PER_TOKEN: "B / T",
    TOKENS_PER_WORD: "T / W",
    CONTINUED: "share of W that takes 2 tokens or more",
    MANY: f"share of W that takes {MANY_TOKENS} tokens or more",
    UNSEEN: "share of W that does not occur in training at all",
    DIVERGENCE: "Jensen–Shannon divergence from the words of training, bits; all words",
    DIVERGENCE_AT_SIZE: "the same of random parts, as large for the version's own text",
    EXCESS_DIVERGENCE: "how much more of it the new text has: bits that are not chance",
    NEW_FREQUENT: "share of W that are words frequent now and new",
    NEW_COST: "share of T that these would save, were each one token",
}


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One metric of new text, beside the same of the version's own.

    Attributes:
        new: of the new text.
        own: of the version's own text; None where that is not known or means nothing.
        documents: how many of the new text the interval rests on.
        new_draws, own_draws: float64, one for each replicate of either, in random order; empty
            where there is none. A value that is known without its documents is taken as exact.
    """

    new: float
    own: float | None = None
    documents: int = 0
    new_draws: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    own_draws: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def difference(self) -> float | None:
        """new − own."""
        return None if self.own is None else self.new - self.own

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """Of the difference, or of the value itself where there is nothing to subtract.

        The percentile interval of the draws; None where there are none.
        """
        if not len(self.new_draws):
            return None
        differences = self.new_draws - self._own_or(0.0)
        value = self.new - (self.own or 0.0)
        return percentile_interval(value, differences, confidence, self.documents)

    def margin(
        self,
        higher_is_better: bool,
        *,
        limit: float | None = None,
        tolerance: float = 0.0,
        confidence: float | None = None,
    ) -> float:
        """How far the figure is on the good side of a bound; below 0 it is beyond it.

        With a confidence, the better end of the interval of that distance: below 0 even this is
        beyond the bound.

        Args:
            higher_is_better: which side is good.
            limit: the bound; None takes ``own``, worse by ``tolerance`` of itself.
            confidence: of the interval.
        """
        sign = 1 if higher_is_better else -1
        share = 1 - sign * tolerance
        if confidence is None or not len(self.new_draws):
            bound = (self.own or 0.0) * share if limit is None else limit
            return sign * (self.new - bound)
        bounds = self._own_or(0.0) * share if limit is None else limit
        return float(np.quantile(sign * (self.new_draws - bounds), (1 + confidence) / 2))

    def _own_or(self, nothing: float) -> NDArray[np.float64] | float:
        if len(self.own_draws):
            return self.own_draws
        return nothing if self.own is None else self.own


@dataclass(frozen=True, slots=True, eq=False)
class OwnText:
    """What is known of the text a version was made for.

    Attributes:
        trained: the words it was trained on; None where their counts are gone.
        sample: text of the same kind that training did not see: documents that were held out;
            None where there is none.
        recorded: metric → value, as measured when the version was made; for metrics that
            ``sample`` cannot give.
    """

    trained: WordCounts | None
    sample: TextSample | None
    recorded: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class TextDrift:
    """What became of a version's figures on one new text.

    Attributes:
        figures: metric → figure; the metrics are those of `DRIFT_DEFINITIONS` that are known.
        new_words: frequent now and new, those that cost most first; empty without counts of
            training.
        documents: of the sample of the new text.
        bytes, tokens, words, distinct_words: of all of the new text: the denominators.
    """

    figures: Mapping[str, Figure]
    new_words: tuple[NewWord, ...]
    documents: int
    bytes: int
    tokens: int
    words: int
    distinct_words: int


def drift_of(
    tokenizer: Tokenizer, own: OwnText, words: WordCounts, size: int, sample: TextSample
) -> TextDrift:
    """Measure new text against what a version was made for.

    The values are those of all words; how sure they are is told by the sample, whose blocks are
    drawn with replacement (the bootstrap, Efron 1979), the version's own likewise and apart from
    it. Tokens that stand between words, such as marks of sentences, do not count.

    Args:
        tokenizer: of the version.
        own: what it was made for.
        words: of the new text.
        size: its bytes.
        sample: documents of the new text.

    Raises:
        EmptyCorpus: there is no word in it.
    """
    if not len(words) or not sample.documents:
        raise EmptyCorpus(
            "there is not a single word in the new text",
            "at least one document with text",
            "name files that hold text",
        )
    tokens = tokens_of_words(tokenizer, words)
    trained = own.trained if own.trained is not None and len(own.trained) else None
    seen, found = None, tuple[NewWord, ...]()
    if trained is not None:
        seen = counts_in(trained, words)
        found = new_frequent_words(words, seen, trained.total, tokens, sample)
    sums = _fractions(size, tokens, seen, lambda values: int(np.dot(words.counts, values)))
    total = sums[TOKENS_PER_WORD][0]
    values = {metric: part / whole for metric, (part, whole) in sums.items()}
    if trained is not None:
        values[NEW_FREQUENT] = sum(one.count for one in found) / words.total
        values[NEW_COST] = sum(one.saved for one in found) / total
    new = _Side.of(tokenizer, trained, sample, found)
    before = None if own.sample is None else _Side.of(tokenizer, trained, own.sample)
    figures = {
        metric: _figure(metric, value, new, before, own.recorded)
        for metric, value in values.items()
    }
    if trained is not None:
        figures |= _divergences(trained, words, sample, own.sample)
    return TextDrift(figures, found, sample.documents, size, total, words.total, len(words))


def _fractions(
    size: Sum,
    tokens: NDArray[np.int64],
    seen: NDArray[np.int64] | None,
    add: Callable[[NDArray[Any]], Sum],
) -> dict[str, tuple[Sum, Sum]]:
    """metric → what is shared, and what it is a share of.

    Args:
        tokens, seen: by word: how many it takes, how often it occurs in training if known.
        add: sums values of words over all their occurrences.
    """
    total, words = add(tokens), add(np.ones_like(tokens))
    found = {
        BYTES_PER_TOKEN: (size, total),
        TOKENS_PER_WORD: (total, words),
        CONTINUED: (add(tokens >= 2), words),
        MANY: (add(tokens >= MANY_TOKENS), words),
    }
    if seen is not None:
        found[UNSEEN] = add(seen == 0), words
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Sums of a sample by block.

    Attributes:
        documents: of the sample.
        sums: metric → (int64, int64), ``[blocks]`` each: what is shared, and what it is a share of.
    """

    documents: int
    sums: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        trained: WordCounts | None,
        sample: TextSample,
        new_words: Sequence[NewWord] | None = None,
    ) -> _Side:
        """Add up what each word is; new words are looked for in the sample where None are given."""
        tokens = tokens_of_words(tokenizer, sample.words)
        seen = None if trained is None else counts_in(trained, sample.words)
        sums = _fractions(sample.block_bytes, tokens, seen, sample.sums)
        if trained is not None and seen is not None:
            if new_words is None:
                new_words = new_frequent_words(sample.words, seen, trained.total, tokens, sample)
            among = {one.word for one in new_words}
            every = sample.words.words()
            new = np.fromiter((word in among for word in every), np.int64, len(every))
            total, words = sums[TOKENS_PER_WORD]
            sums[NEW_FREQUENT] = sample.sums(new), words
            sums[NEW_COST] = sample.sums(new * (tokens - 1)), total
        return cls(sample.documents, sums)

    def value(self, metric: str) -> float:
        part, whole = self.sums[metric]
        return float(part.sum() / whole.sum())

    def draws(self, metric: str, value: float, seed: int) -> NDArray[np.float64]:
        """Of a bootstrap around ``value``, in a random order."""
        if self.documents < FEWEST_RESAMPLED:
            return np.zeros(0)
        part, whole = self.sums[metric]
        draws = resampled_change(whole, part).draws + 1  # Σ part / Σ whole of every replicate
        draws = value + (draws - self.value(metric)) * _expansion(len(whole))
        return np.random.default_rng([_SEED, seed]).permutation(draws)


def _expansion(blocks: int) -> float:
    """By how much the percentile interval of few draws is too narrow (Hesterberg 2015).

    √(n / (n − 1)), and the 97.5 % quantile of Student's t over that of the normal distribution, to
    the first order of 1 / (n − 1).
    """
    freedom = blocks - 1
    return float(np.sqrt(blocks / freedom)) * (1 + 1.21 / freedom)


def _figure(
    metric: str, value: float, new: _Side, own: _Side | None, recorded: Mapping[str, float]
) -> Figure:
    if own is None:
        before, own_draws = recorded.get(metric), np.zeros(0)
    else:
        before = own.value(metric)
        own_draws = own.draws(metric, before, 1)
        if not before:  # none among n means up to 3 / n (95 %); resampling none finds none
            own_draws = np.full(len(own_draws), 3 / own.sums[metric][1].sum())
    return Figure(value, before, new.documents, new.draws(metric, value, 0), own_draws)


def _divergences(
    trained: WordCounts, words: WordCounts, sample: TextSample, own: TextSample | None
) -> dict[str, Figure]:
    figures = {DIVERGENCE: Figure(word_divergence(trained, words))}
    if own is None or min(sample.documents, own.documents) < FEWEST_RESAMPLED:
        return figures
    new_draws, own_draws = divergence_draws(trained, [sample, own], _DRAWS, _SEED)
    values = float(new_draws.mean()), float(own_draws.mean())
    figures[DIVERGENCE_AT_SIZE] = Figure(*values, sample.documents, new_draws, own_draws)
    figures[EXCESS_DIVERGENCE] = Figure(
        values[0] - values[1], None, sample.documents, new_draws - own_draws
    )
    return figures
