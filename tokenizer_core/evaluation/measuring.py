"""What tokenizers make of documents, in sums that can be added up: tokens, words, round trips.

One pass over the text serves any number of tokenizers and every figure of `metrics`; a part of it
is in memory at a time. Computes no figure itself.
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
from bpeline.tokenizer_core.kernels.encoding.measure_text import (
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


@dataclass(frozen=True, slots=True)
class TextSize:
    """How much text there is: what figures are divided by.

    Attributes:
        documents, bytes, chars: chars are code points.
        words: maximal runs of characters that are not white space (``str.split``).
        lines: ended by line feeds; what stands behind a document's last one is a line too.
    """

    documents: int = 0
    bytes: int = 0
    chars: int = 0
    words: int = 0
    lines: int = 0

    def __add__(self, other: TextSize) -> TextSize:
        return TextSize(*map(int.__add__, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What one tokenizer made of some text. Special tokens in it were ordinary text.

    Attributes:
        text: how much text it was.
        occurrences: int64, by id.
        document_tokens: int64 ``[documents]``.
        words: the distinct pre-tokens of the tokenizer's own pattern.
        roundtrip_failures: documents d with decode(encode(d)) ≠ d.
        encode_seconds: one thread, ids as NumPy arrays; the first part is encoded twice and
            its second time counts, so caches are warm. Of the processor, so that other work beside
            it does not count; where processes of their own match the pattern, of the clock.
        decode_seconds: of the same ids back to bytes, one document after another, as warm; of the
            processor.
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
        """Tokens of all documents."""
        return int(self.document_tokens.sum())


def measure(tokenizers: Sequence[Tokenizer], documents: Iterable[bytes]) -> list[Measured]:
    """Encode documents with every tokenizer.

    Args:
        documents: UTF-8; read once, `PART_BYTES` of them are in memory at a time.

    Returns:
        For each tokenizer what it made of them.

    Raises:
        InvalidUtf8: a document is not UTF-8.
    """
    size = TextSize()
    words = {one.pattern: WordSum(one.pattern) for one in tokenizers}
    made = [_Sum(one) for one in tokenizers]
    for part in in_batches(documents, PART_BYTES):
        text, spans = Text.of(b"".join(part)), spans_of_lengths(part)
        refuse_invalid_utf8(text)
        for pattern, counted in words.items():
            counted.add(count_spans(text, spans, pattern).shifted(size.bytes))
        sums = np.zeros(SUMS, np.int64)
        measure_spans(text.data, spans, sums)
        size += TextSize(len(spans), text.size, *sums[[CHARS, WORDS, LINES]].tolist())
        for one in made:
            one.add(part)
    found = {pattern: counted.result() for pattern, counted in words.items()}
    return [one.result(size, found[one.tokenizer.pattern]) for one in made]


def added(parts: Sequence[Measured]) -> Measured:
    """What a tokenizer made of several texts (at least one), taken as one."""
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
    """The running sums of one tokenizer."""

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
