"""Drift of new text from the text that a version was made for, with intervals.

Words are the pre-tokens of the version's own split pattern; each distinct one is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts, WordSum, count_spans
from bpeline.tokenizer_core.encoding import spans_of_lengths
from bpeline.tokenizer_core.errors import EmptyCorpus
from bpeline.tokenizer_core.evaluation.measuring import (
    Interval,
    percentile_interval,
    resampled_change,
)
from bpeline.tokenizer_core.evaluation.metric_names import (
    BYTES_PER_TOKEN,
    CONFIDENCE,
    FEWEST_RESAMPLED,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

# Thresholds for new frequent words. Counts below 20 are uncertain by a quarter or more, and a word
# in one or two places is a topic, not a change.
LEAST_COUNT = 20
PER_MILLION = 10
TIMES_TRAINED = 10
LEAST_BLOCKS = 3

_WORDS_AT_A_TIME = 1 << 18
Sum = TypeVar("Sum", int, NDArray[np.int64])  # a total, or one value per block

MANY_TOKENS = 4  # a word of this many tokens is badly covered by the vocab
_DRAWS = 200  # random halves; each draw sums some hundred thousand counts
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

# metric → definition; B, T, W: bytes, tokens and words (occurrences of pre-tokens) of the text.
DRIFT_DEFINITIONS: Mapping[str, str] = {
    BYTES_PER_TOKEN: "B / T",
    TOKENS_PER_WORD: "T / W",
    CONTINUED: "share of W that takes 2 tokens or more",
    MANY: f"share of W that takes {MANY_TOKENS} tokens or more",
    UNSEEN: "share of W that does not occur in training at all",
    DIVERGENCE: "Jensen–Shannon divergence from the words of training, bits; all words",
    DIVERGENCE_AT_SIZE: "the same for random parts of equal size of the new and the own text",
    EXCESS_DIVERGENCE: "the difference of these two: bits beyond chance",
    NEW_FREQUENT: "share of W that are new frequent words",
    NEW_COST: "share of T that these would save as single tokens",
}


@dataclass(frozen=True, slots=True, eq=False)
class TextSample:
    """Documents of a text with their words, in blocks of adjacent documents.

    Adjacent documents are similar, so they are resampled together: blocks of about the cube root
    of n documents (Künsch 1989; length after Hall, Horowitz & Jing 1995).

    Attributes:
        rows, blocks, counts: int64 ``[n]``: word ``rows[i]`` of ``words`` occurs ``counts[i]``
            times in block ``blocks[i]``; one entry per word and block.
    """

    documents: int
    block_bytes: NDArray[np.int64]  # [blocks]
    words: WordCounts  # the distinct words of the sample
    rows: NDArray[np.int64]
    blocks: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def bytes(self) -> int:
        return int(self.block_bytes.sum())

    @property
    def blocks_of_words(self) -> NDArray[np.int64]:
        """int64: the number of blocks in which each word occurs."""
        return np.bincount(self.rows, minlength=len(self.words)).astype(np.int64)

    def sums(self, values: NDArray[Any] | None = None) -> NDArray[np.int64]:
        """int64 ``[blocks]``: Σ count · value over the words of each block.

        ``values`` are integers or bool, by row of ``words``; None for 1.
        """
        weights = self.counts if values is None else self.counts * values[self.rows]
        sums = np.bincount(self.blocks, weights, len(self.block_bytes))
        return sums.astype(np.int64)  # exact: a sample is far below 2^53


def sample_of(documents: Sequence[bytes], pattern: SplitPattern) -> TextSample:
    """Count the words of documents block by block; empty documents are skipped."""
    documents = [word for word in documents if word]
    length = max(1, round(len(documents) ** (1 / 3)))
    ids: dict[bytes, int] = {}
    sizes, rows, counts = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for begin in range(0, len(documents), length):
        block = documents[begin : begin + length]
        text = Text.of(b"".join(block))
        counted = count_spans(text, spans_of_lengths(block), pattern)
        sizes.append(text.size)
        words = counted.words()
        rows.append(
            np.fromiter((ids.setdefault(word, len(ids)) for word in words), np.int64, len(words))
        )
        counts.append(counted.counts)
    blocks = np.repeat(np.arange(len(sizes)), list(map(len, rows[1:])))
    every, each = np.concatenate(rows), np.concatenate(counts)
    totals = np.bincount(every, each, len(ids)).astype(np.int64)
    return TextSample(
        documents=len(documents),
        block_bytes=np.array(sizes, np.int64),
        words=WordCounts.from_mapping(dict(zip(ids, totals.tolist(), strict=True)), pattern),
        rows=every,
        blocks=blocks.astype(np.int64),
        counts=each,
    )


def counts_in(table: WordCounts, words: WordCounts) -> NDArray[np.int64]:
    """The count of each word in a table of the same pattern, by row of ``words``."""
    if not len(words) or not len(table):
        return np.zeros(len(words), np.int64)
    # `words` comes first in the sum, so its words keep their rows, and the increase of their
    # counts is what the table has.
    numbered = replace(words, first_positions=np.arange(len(words), dtype=np.int64))
    after = np.arange(len(words), len(words) + len(table), dtype=np.int64)
    both = WordSum(words.pattern)
    both.add(numbered)
    both.add(replace(table, first_positions=after))
    return both.result().counts[: len(words)] - words.counts


def word_divergence(first: WordCounts, second: WordCounts) -> float:
    """The Jensen–Shannon divergence of two word distributions (Lin 1991), in bits.

    ½ Σ p log₂(p/m) + ½ Σ q log₂(q/m) with m = (p + q) / 2, over the words of either, without
    smoothing. 0 for equal shares, 1 without a common word. A small text is farther from a large one
    by chance alone (see `DIVERGENCE_AT_SIZE`).
    """
    return divergence(counts_in(first, second), first.total, second.counts)


def divergence(first: NDArray[np.int64], first_total: int, second: NDArray[np.int64]) -> float:
    """`word_divergence` for aligned counts, of words or anything else.

    ``first_total`` includes rows with 0 in ``second``, which may be missing in both.
    """
    is_present = second > 0
    in_first, in_second = first[is_present], second[is_present]
    p, q = in_first / first_total, in_second / in_second.sum()
    middle, seen = (p + q) / 2, p > 0
    bits = float((q * np.log2(q / middle)).sum())
    bits += float((p[seen] * np.log2(p[seen] / middle[seen])).sum())
    # Items that only the first has contribute their share: log₂(p / (p / 2)) = 1.
    bits += (first_total - int(in_first.sum())) / first_total
    return min(1.0, max(0.0, bits / 2))


def divergence_draws(
    trained: WordCounts, samples: Sequence[TextSample], draws: int, seed: int
) -> list[NDArray[np.float64]]:
    """The divergence from training of random parts of samples, all of one size.

    Random blocks of each sample are drawn without replacement until they have half as many words as
    the smallest sample. So the bias of small texts is equal in all, and the spread of random halves
    is that of the whole (McCarthy 1969); for larger samples the spread is overestimated.

    Returns:
        For each sample float64 ``[draws]``, bits.
    """
    size = min(one.words.total for one in samples) / 2
    results = []
    for number, sample in enumerate(samples):
        random = np.random.default_rng([seed, number])
        in_training, total = counts_in(trained, sample.words), trained.total
        words_of_block = sample.sums()
        bits = np.empty(draws)
        for draw in range(draws):
            order = random.permutation(len(words_of_block))
            enough = int(np.searchsorted(np.cumsum(words_of_block[order]), size)) + 1
            chosen = np.zeros(len(order), np.bool_)
            chosen[order[:enough]] = True
            taken = chosen[sample.blocks]
            counts = np.bincount(sample.rows[taken], sample.counts[taken], len(sample.words))
            bits[draw] = divergence(in_training, total, counts.astype(np.int64))
        results.append(bits)
    return results


def tokens_of_words(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64]:
    """int64: the number of tokens of each word; each distinct word is encoded once."""
    parts = [np.zeros(0, np.int64)]
    for begin in range(0, len(words), _WORDS_AT_A_TIME):
        some = words.between(begin, begin + _WORDS_AT_A_TIME)
        ends = tokenizer.encoder.encode_words(some.words())[1]
        parts.append(np.diff(ends, prepend=0).astype(np.int64))
    return np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class NewWord:
    """A word that is frequent in a new text and was rare or missing in training."""

    word: bytes
    count: int  # occurrences in the new text
    trained: int  # occurrences in training
    times: float  # its share of the new text over (trained + 1) / (words of training + 1)
    tokens: int  # tokens per occurrence

    @property
    def saved(self) -> int:
        """Tokens that its occurrences would save as a single token."""
        return self.count * (self.tokens - 1)


def new_frequent_words(
    words: WordCounts,
    in_training: NDArray[np.int64],
    training_total: int,
    tokens: NDArray[np.int64],
    sample: TextSample,
) -> tuple[NewWord, ...]:
    """Find new frequent words, sorted by the tokens they would save.

    Frequent: at least `LEAST_COUNT` occurrences and `PER_MILLION` per million, in at least
    `LEAST_BLOCKS` blocks of the sample (one long document repeats its own names). New: at least
    `TIMES_TRAINED` times its share of training, see `NewWord.times`.

    Args:
        words, sample: of the new text.
        in_training, tokens: int64, by row of ``words``.
        training_total: occurrences of all words of training.
    """
    least = max(LEAST_COUNT, PER_MILLION * words.total / 1e6)
    usual = (in_training + 1) / (training_total + 1)
    times = words.counts / words.total / usual
    rows = np.flatnonzero((words.counts >= least) & (times >= TIMES_TRAINED)).astype(np.int64)
    if not len(rows):
        return ()
    # With the number of blocks as counts, the sum counts blocks.
    spread = counts_in(replace(sample.words, counts=sample.blocks_of_words), words.take(rows))
    rows = rows[spread >= LEAST_BLOCKS]
    new_words = [
        NewWord(word, count, int(in_training[row]), float(times[row]), int(tokens[row]))
        for row, (word, count) in zip(rows, words.take(rows).items(), strict=True)
    ]
    return tuple(sorted(new_words, key=lambda one: (-one.saved, -one.count, one.word)))


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A metric of new text and of the version's own text.

    Draws are one per replicate, in random order; a value without draws counts as exact.
    """

    new: float
    own: float | None = None  # None if unknown or meaningless
    documents: int = 0  # resampled documents of the new text
    new_draws: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    own_draws: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def difference(self) -> float | None:
        return None if self.own is None else self.new - self.own

    def interval(self, confidence: float = CONFIDENCE) -> Interval | None:
        """The percentile interval of the difference, or of ``new``; None without draws."""
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
        """Distance to a bound; negative if the figure is beyond it.

        With a confidence, the better end of the interval of that distance.

        Args:
            limit: the bound; None: ``own``, worse by ``tolerance`` of itself.
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
    """The text that a version was made for."""

    trained: WordCounts | None  # the training words; None if their counts are gone
    sample: TextSample | None  # held-out documents
    recorded: Mapping[str, float] = field(default_factory=dict)  # metric → value, if no sample


@dataclass(frozen=True, slots=True, eq=False)
class TextDrift:
    """The figures of a version on one new text."""

    figures: Mapping[str, Figure]  # by metric, the known ones of `DRIFT_DEFINITIONS`
    new_words: tuple[NewWord, ...]  # the most expensive first; empty without training counts
    documents: int  # of the sample of the new text
    bytes: int  # this and the next three are of the whole new text, the denominators
    tokens: int
    words: int
    distinct_words: int


def drift_of(
    tokenizer: Tokenizer, own: OwnText, words: WordCounts, size: int, sample: TextSample
) -> TextDrift:
    """Measure new text against the text that a version was made for.

    Values are of all words. Their intervals come from the samples, whose blocks are resampled
    independently of each other (bootstrap, Efron 1979). Tokens between words, such as sentence
    marks, do not count.

    Args:
        words, size, sample: words, bytes and sampled documents of the new text.

    Raises:
        EmptyCorpus: the new text has no words.
    """
    if not len(words) or not sample.documents:
        raise EmptyCorpus(
            "there are no words in the new text",
            "expected at least one document with text",
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
    """metric → (numerator, denominator), summed by ``add`` over all occurrences."""
    total, words = add(tokens), add(np.ones_like(tokens))
    fractions = {
        BYTES_PER_TOKEN: (size, total),
        TOKENS_PER_WORD: (total, words),
        CONTINUED: (add(tokens >= 2), words),
        MANY: (add(tokens >= MANY_TOKENS), words),
    }
    if seen is not None:
        fractions[UNSEEN] = add(seen == 0), words
    return fractions


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Sums of a sample by block: metric → (numerator, denominator)."""

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
        """Compute the sums; ``new_words`` defaults to those of the sample."""
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
        """Bootstrap draws around ``value``, in random order."""
        if self.documents < FEWEST_RESAMPLED:
            return np.zeros(0)
        part, whole = self.sums[metric]
        draws = resampled_change(whole, part).draws + 1  # Σ part / Σ whole of every replicate
        draws = value + (draws - self.value(metric)) * _expansion(len(whole))
        return np.random.default_rng([_SEED, seed]).permutation(draws)


def _expansion(blocks: int) -> float:
    """Widening of percentile intervals of few blocks (Hesterberg 2015).

    √(n / (n − 1)) times the 97.5 % quantile of Student's t over the normal one, to first order.
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
        if not before:  # rule of three: 0 of n is compatible with 3 / n (95 %)
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
