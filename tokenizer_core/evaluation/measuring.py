"""Measurement of tokenizers on documents, in sums that can be added; bootstrap.

One pass over the text serves any number of tokenizers and all of `metrics`, in little memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from operator import ne

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts, WordSum, count_spans
from bpeline.tokenizer_core.encoding import encode_contents, in_batches, spans_of_lengths
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metric_names import CONFIDENCE
from bpeline.tokenizer_core.kernels.encoding.decode_ids import (
    CHARS,
    LINES,
    SUMS,
    WORDS,
    measure_spans,
)
from bpeline.tokenizer_core.text import Text, refuse_invalid_utf8
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import SpecialPolicy

PART_BYTES = 1 << 22  # documents encoded at a time
_ORDINARY = SpecialPolicy({})
_REPLICATES = 2000
_SEED = 20_240_229  # fixed: the same documents give the same intervals
_MOST_UNITS = 2_000
_AT_A_TIME = 200  # replicates; divides their number


@dataclass(frozen=True, slots=True)
class TextSize:
    """The size of a text, the denominators of metrics."""

    documents: int = 0
    bytes: int = 0
    chars: int = 0  # code points
    words: int = 0  # maximal runs of characters that are not white space (`str.split`)
    lines: int = 0  # ended by a line feed or by the end of a document

    def __add__(self, other: TextSize) -> TextSize:
        return TextSize(*map(int.__add__, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Measurement of one tokenizer on some text; special tokens are ordinary text.

    Attributes:
        occurrences: int64, by id.
        document_tokens: int64 ``[documents]``.
        words: the distinct pre-tokens of the tokenizer's own pattern.
        roundtrip_failures: documents d with decode(encode(d)) ≠ d.
        encode_seconds: CPU time of one thread with warm caches (the first part is encoded twice),
            ids as NumPy arrays; wall time if the pattern runs in other processes.
        decode_seconds: CPU time of decoding the same ids to bytes, document by document, warm.
    """

    text: TextSize
    occurrences: NDArray[np.int64]
    document_tokens: NDArray[np.int64]
    words: WordCounts
    roundtrip_failures: int
    encode_seconds: float
    decode_seconds: float

    @property
    def tokens(self) -> int:
        return int(self.document_tokens.sum())


def measure(tokenizers: Sequence[Tokenizer], documents: Iterable[bytes]) -> list[Measured]:
    """Encode documents (UTF-8) with every tokenizer, `PART_BYTES` at a time."""
    size = TextSize()
    words = {tokenizer.pattern: WordSum(tokenizer.pattern) for tokenizer in tokenizers}
    running = [_Sum(tokenizer) for tokenizer in tokenizers]
    for part in in_batches(documents, PART_BYTES):
        text, spans = Text.of(b"".join(part)), spans_of_lengths(part)
        refuse_invalid_utf8(text)
        for pattern, counted in words.items():
            counted.add(count_spans(text, spans, pattern).shifted(size.bytes))
        sums = np.zeros(SUMS, np.int64)
        measure_spans(text.data, spans, sums)
        size += TextSize(len(spans), text.size, *sums[[CHARS, WORDS, LINES]].tolist())
        for tokenizer in running:
            tokenizer.add(part)
    word_counts = {pattern: counted.result() for pattern, counted in words.items()}
    return [
        tokenizer.result(size, word_counts[tokenizer.tokenizer.pattern]) for tokenizer in running
    ]


def added(parts: Sequence[Measured]) -> Measured:
    """Combine measurements of one tokenizer on several texts (at least one)."""
    if len(parts) == 1:
        return parts[0]
    words, text = WordSum(parts[0].words.pattern), TextSize()
    for part in parts:
        words.add(part.words.shifted(text.bytes))
        text += part.text
    return Measured(
        text,
        np.sum([part.occurrences for part in parts], axis=0),
        np.concatenate([part.document_tokens for part in parts]),
        words.result(),
        sum(part.roundtrip_failures for part in parts),
        sum(part.encode_seconds for part in parts),
        sum(part.decode_seconds for part in parts),
    )


class _Sum:
    """Running sums of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.occurrences = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
        self.tokens: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        self.failures = 0
        self.encode_seconds = self.decode_seconds = 0.0
        self._clock = time.thread_time if tokenizer.pattern.has_kernel else time.perf_counter

    def add(self, part: list[bytes]) -> None:
        encoder, decode = self.tokenizer.encoder, self.tokenizer.decode_bytes
        first = len(self.tokens) == 1
        if first:
            encode_contents(encoder, part, _ORDINARY)
        begun = self._clock()
        ids, edges = encode_contents(encoder, part, _ORDINARY)
        self.encode_seconds += self._clock() - begun
        self.occurrences += np.bincount(ids, minlength=len(self.occurrences))
        self.tokens.append(np.diff(edges))
        each = [ids[begin:end] for begin, end in pairwise(edges.tolist())]
        if first:
            list(map(decode, each))
        begun = time.thread_time()
        decoded = list(map(decode, each))
        self.decode_seconds += time.thread_time() - begun
        self.failures += sum(map(ne, decoded, part))

    def result(self, text: TextSize, words: WordCounts) -> Measured:
        tokens = np.concatenate(self.tokens)
        seconds = self.encode_seconds, self.decode_seconds
        return Measured(text, self.occurrences, tokens, words, self.failures, *seconds)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value on all documents with its percentile interval."""

    value: float
    low: float
    high: float
    confidence: float  # the share of replicates inside
    documents: int  # number of resampled documents

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval does not contain zero."""
        return self.low > 0 or self.high < 0


def percentile_interval(
    value: float, draws: NDArray[np.float64], confidence: float, documents: int
) -> Interval:
    """The percentile interval (Efron 1979) of a value from its draws."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high), confidence, documents)


@dataclass(frozen=True, slots=True)
class ResampledChange:
    """Σ second / Σ first − 1 of all documents, and of bootstrap replicates."""

    value: float
    draws: NDArray[np.float64]  # sorted, one per replicate
    documents: int

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        return percentile_interval(self.value, self.draws, confidence, self.documents)


def resampled_change(first: NDArray[np.int64], second: NDArray[np.int64]) -> ResampledChange:
    return resampled_changes(first, [second])[0]


def resampled_changes(
    first: NDArray[np.int64], others: Sequence[NDArray[np.int64]]
) -> list[ResampledChange]:
    """Σ other / Σ first − 1 for each of the others, resampled in pairs.

    The bootstrap (Efron 1979): documents are drawn with replacement, each with all of its values.
    Above 2,000 documents, adjacent ones are drawn together in 2,000 groups.

    Args:
        first: int64 ``[documents]``, tokens of each document; their sum is positive.
        others: the same for other tokenizers.
    """
    for other in others:
        if len(first) != len(other) or not int(first.sum()):
            raise InvalidOption(
                f"{len(first)} and {len(other)} documents cannot be compared in pairs",
                "expected the same documents for both, with at least one token",
                "measure both on the same text",
            )
    if not others:
        return []
    sums = resampled_sums(np.stack((first, *others), axis=1))
    before, total = sums[:, 0], first.sum()
    # The ratio of a replicate without tokens is undefined: count it as no change.
    changes = (
        np.divide(after, before, out=np.ones(len(sums)), where=before > 0) - 1
        for after in sums[:, 1:].T
    )
    return [
        ResampledChange(float(other.sum() / total - 1), np.sort(change), len(first))
        for other, change in zip(others, changes, strict=True)
    ]


def resampled_sums(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bootstrap sums over documents, each drawn with all of its values.

    ``values`` is int64 ``[documents, values]`` with sums of at most 2⁵³. Returns float64
    ``[replicates, values]``, exact; the draws depend only on the number of documents.
    """
    documents = len(values)
    units = values.astype(np.float64)
    if documents > _MOST_UNITS:
        begins = np.linspace(0, documents, _MOST_UNITS, endpoint=False).astype(np.int64)
        units = np.add.reduceat(units, begins, axis=0)
    random = np.random.default_rng(_SEED)
    sums = np.empty((_REPLICATES, units.shape[1]))
    cells = _AT_A_TIME * len(units)
    rows = np.arange(0, cells, len(units))[:, np.newaxis]  # one replicate per row
    for begin in range(0, _REPLICATES, _AT_A_TIME):
        drawn = random.integers(len(units), size=(_AT_A_TIME, len(units)))
        often = np.bincount((rows + drawn).ravel(), minlength=cells).reshape(drawn.shape)
        # Exact in any order of summation: all values are integers below 2⁵³.
        sums[begin : begin + _AT_A_TIME] = often.astype(np.float64) @ units
    return sums
