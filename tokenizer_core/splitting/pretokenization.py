"""`Splitter`: marks the pre-tokens of a text in a bitmap, for any split pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.kernels.scanning.automaton import (
    DONE,
    POSITION,
    PROGRESS,
    mark_by_automaton,
)
from bpeline.tokenizer_core.kernels.scanning.cl100k import mark_cl100k
from bpeline.tokenizer_core.kernels.scanning.gpt2 import mark_gpt2
from bpeline.tokenizer_core.kernels.scanning.o200k import mark_o200k
from bpeline.tokenizer_core.kernels.scanning.superwords import mark_superwords
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.splitting.regex_processes import (
    SEGMENTER_LIMITS,
    Cutter,
    ask,
    mark_by_regex,
    mark_matches,
)
from bpeline.tokenizer_core.splitting.regex_spellings import KERNELS
from bpeline.tokenizer_core.splitting.regex_syntax import class_table
from bpeline.tokenizer_core.splitting.segmenters import (
    Punkt,
    SentenceBreaks,
    as_text,
    sentences_between,
)
from bpeline.tokenizer_core.splitting.split_automaton import (
    CutPairs,
    SplitAutomaton,
    cut_pairs,
)
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern, SplitStep
from bpeline.tokenizer_core.text import Text

MaskKernel = tuple[Callable[..., bool], tuple[int | bool, ...]]
_MARKING: dict[str, Callable[..., bool]] = {
    "gpt2": mark_gpt2,
    "cl100k": mark_cl100k,
    "o200k": mark_o200k,
    "superwords": mark_superwords,
}
MASK_KERNELS: dict[str, MaskKernel] = {
    known_by: (_MARKING[kernel], told) for known_by, (kernel, told) in KERNELS.items()
}

PART = 1 << 17  # bytes per request: a tenth of a second
_ALIGNED = ~7  # rounds a position down, so that bitmaps of parts begin at a whole byte

_NOTHING = np.zeros(0, np.uint64)  # no gaps, no memo, no classes
_FRESH = np.zeros(PROGRESS, np.int64)
_FRESH[POSITION] = -1
_FEW_BYTES = 1 << 19  # below this, finding sentences in this process is faster


def mark_in_steps(
    text: Text, spans: NDArray[np.int64], steps: Sequence[tuple[SplitStep, SplitAutomaton]]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Split spans by each step in order; the bitmaps of `Splitter.mark`."""
    pieces = spans[spans[:, 0] < spans[:, 1]]
    pieces = pieces[np.argsort(pieces[:, 0])]
    left_out = [np.zeros(0, np.int64)]
    for step, automaton in steps:
        pieces, dropped = _cut_by(text, pieces, step, automaton)
        left_out.append(dropped)
    out = np.concatenate(left_out)
    return bits_at(text.size, np.append(pieces[:, 0], out)), bits_at(text.size, out)


def _cut_by(
    text: Text, pieces: NDArray[np.int64], step: SplitStep, automaton: SplitAutomaton
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.zeros(text.size // 64 + 2, np.uint64)
    gaps = np.zeros(starts.size, np.uint64)
    automaton.mark(text, np.ascontiguousarray(pieces), starts, gaps)
    begins = np.flatnonzero(np.unpackbits(starts.view(np.uint8), bitorder="little"))
    between = gaps.view(np.uint8)[begins >> 3] >> (begins & 7).astype(np.uint8) & 1 > 0
    matched = between if step.invert else ~between
    firsts = np.searchsorted(begins, pieces[:, 0])  # every piece begins one
    limits = np.repeat(pieces[:, 1], np.diff(np.append(firsts, begins.size)))
    if step.drops:
        return _up_to(begins, limits, text.size)[~matched], begins[matched]
    before = np.append(False, matched[:-1])
    if step.behavior == "Isolated":
        joined = np.zeros(begins.size, np.bool_)
    elif step.behavior == "MergedWithPrevious":
        joined = matched & ~before
    elif step.behavior == "MergedWithNext":
        joined = before & ~matched
    else:
        joined = before == matched
    joined[firsts] = False
    return _up_to(begins[~joined], limits[~joined], text.size), begins[:0]


def _up_to(begins: NDArray[np.int64], limits: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.stack((begins, np.minimum(np.append(begins[1:], size), limits)), axis=1)


def bits_at(size: int, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A bitmap as in `Splitter.mark`, for a text of ``size`` bytes."""
    flags = np.zeros((size // 64 + 2) * 64, np.bool_)
    flags[positions] = True
    return np.packbits(flags, bitorder="little").view(np.uint64)


def mark_by_segmenter(
    text: Text,
    spans: NDArray[np.int64],
    segmenter: str,
    cuts: CutPairs | SentenceBreaks,
    starts: NDArray[np.uint64],
) -> None:
    """Set the bits in ``starts`` where segments start, using all processors.

    ``segmenter`` is an identity or a Punkt model (`segmenters.as_text`); ``cuts`` may divide spans.
    For other arguments see `mark_by_regex`.
    """
    cutter = Cutter(segmenter, True, SEGMENTER_LIMITS)
    bitmap = starts.view(np.uint8)

    def segment(part: NDArray[np.int64]) -> tuple[int, NDArray[np.uint8]]:
        base = int(part[0, 0]) & _ALIGNED
        return base >> 3, ask(cutter, text.data[base : int(part[-1, 1])], part - base)

    parts = list(_parts(text, spans, cuts))
    if len(parts) == 1:
        place, marks = segment(parts[0])
        bitmap[place : place + marks.size] |= marks
    elif parts:
        with ThreadPoolExecutor(min(len(parts), available_processors())) as threads:
            # Parts may share a byte of the bitmap, so only this thread writes.
            for place, marks in threads.map(segment, parts):
                bitmap[place : place + marks.size] |= marks


def _parts(
    text: Text, spans: NDArray[np.int64], cuts: CutPairs | SentenceBreaks
) -> Iterator[NDArray[np.int64]]:
    content = text.data[: text.size].data
    gathered: list[tuple[int, int]] = []
    size = 0
    for begin, end in spans[spans[:, 0] < spans[:, 1]].tolist():
        span, first = content[begin:end], begin
        while begin < end:
            cut = end
            if size + end - begin > PART:
                offset = cuts.first(span, begin - first + max(PART - size, 1), end - first)
                cut = first + offset if offset > 0 else end
            gathered.append((begin, cut))
            size += cut - begin
            begin = cut
            if size >= PART:
                yield np.array(gathered, np.int64)
                gathered, size = [], 0
    if gathered:
        yield np.array(gathered, np.int64)


class ShortText(Protocol):
    """Reusable buffers for one short text after the other.

    Attributes:
        text: uint8, the text and `PADDING` bytes.
        span: int64 ``[1, 2]``: the whole text.
        marks: uint64: output bitmap.
        progress: int64 ``[PROGRESS]``.
    """

    text: NDArray[np.uint8]
    span: NDArray[np.int64]
    marks: NDArray[np.uint64]
    progress: NDArray[np.int64]

    def clear_marks(self, size: int) -> None:
        """Clear the marks of ``size`` bytes and of the block after them."""


MarkShort = Callable[[ShortText, int], NDArray[np.uint64]]


class Splitter:
    """Splits text by one pattern; thread-safe.

    The first text selects what runs the pattern: a kernel, an automaton, a segmenter or ``regex``.
    """

    def __init__(self, pattern: SplitPattern) -> None:
        self.pattern = pattern
        self._drops = pattern.drops_gaps
        self._masks = MASK_KERNELS.get(pattern.name or pattern.regex)
        # Splits each sentence, if the pattern finds sentences first.
        self._within = None if pattern.sentences is None else Splitter(pattern.within(None))
        if self._within is not None:
            self._masks = None
        self._classes = class_table() if self._masks else _NOTHING

    @property
    def is_native(self) -> bool:
        """Whether compiled code splits, 100 times as fast as segmenters and ``regex``."""
        if self._within is not None:
            return False
        return bool(self._masks or self._steps) or self._automaton is not None

    @cached_property
    def _steps(self) -> list[tuple[SplitStep, SplitAutomaton]]:
        return [(step, step.automaton) for step in self.pattern.steps]

    @cached_property
    def _automaton(self) -> SplitAutomaton | None:
        return self.pattern.automaton

    def mark(
        self, text: Text, spans: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Mark the starts of pre-tokens, and of text that the pattern drops.

        A pre-token ends at the next start or at the end of its span. Spans are independent: a
        pattern sees the end of a span as the end of the text.

        Args:
            text: valid UTF-8, at least within the spans.
            spans: int64 ``[n, 2]``: half-open byte ranges between characters, not overlapping.

        Returns:
            two bitmaps, uint64 ``[size // 64 + 2]``. In the first, bit ``i & 63`` of word ``i >>
            6`` is set if a pre-token or dropped text starts at byte ``i``, so at the start of each
            span that is not empty. The second marks the starts of dropped text; it has size 0 if
            the pattern drops nothing.

        Raises:
            IndexError: a span outside of the text, or with its end before its start.
            PatternExceedsLimit, WorkerLost, SegmenterUnavailable: see `regex_processes`.
        """
        spans = np.ascontiguousarray(spans, np.int64)
        if self._within is not None:
            return self._mark_in_sentences(text, spans, self._within)
        starts = np.zeros(text.size // 64 + 2, np.uint64)
        dropped = np.zeros(starts.size if self._drops else 0, np.uint64)
        if self._masks:
            kernel, options = self._masks
            within = kernel(text.data, text.size, spans, self._classes, starts, *options)
        elif (automaton := self._automaton) is not None:
            within = automaton.mark(text, spans, starts, dropped)
        else:
            begins, ends = spans[:, 0], spans[:, 1]
            within = bool(((begins >= 0) & (begins <= ends) & (ends <= text.size)).all())
            if within and (segmenter := self.pattern.segmenter) is not None:
                blocks = cut_pairs(segmenter.blocks)
                assert blocks is not None
                mark_by_segmenter(text, spans, segmenter.identity, blocks, starts)
            elif within and self._steps:
                starts, left_out = mark_in_steps(text, spans, self._steps)
                dropped = left_out if self._drops else dropped
            elif within:
                mark_by_regex(text, spans, self.pattern.regex, starts)
        if not within:
            raise IndexError(f"a span is outside of the text of {text.size} bytes")
        return starts, dropped

    def _mark_in_sentences(
        self, text: Text, spans: NDArray[np.int64], within: Splitter
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        assert self.pattern.sentences is not None
        sentences = sentence_spans(text, spans, self.pattern.sentences)
        starts, dropped = within.mark(text, sentences)
        filled = spans[spans[:, 0] < spans[:, 1]]
        gaps = np.union1d(np.setdiff1d(sentences[:, 1], filled[:, 1]), filled[:, 0])
        gaps = np.setdiff1d(gaps, sentences[:, 0])
        bits = bits_at(text.size, gaps)
        return starts | bits, (dropped | bits) if dropped.size else bits

    def mark_every_byte(self, text: Text, spans: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The starts of `mark`; raises `InvalidPattern` if the pattern drops text."""
        if self._drops:
            self.pattern.require_every_byte()
        return self.mark(text, spans)[0]

    def edges(self, text: Text) -> NDArray[np.int64]:
        """Start of each pre-token, then the size of the text: int64 ``[n + 1]``."""
        starts = self.mark_every_byte(text, np.array([[0, text.size]], np.int64))
        return np.append(_positions(starts), text.size)

    @property
    def masks(self) -> MaskKernel | None:
        """The mask kernel that runs the pattern and its arguments, if any."""
        return self._masks

    @property
    def classes(self) -> NDArray[Any]:
        """Character classes for mask kernels; empty without one."""
        return self._classes

    def marking_short_texts(self) -> MarkShort:
        """A function that marks the pre-tokens of the text in short buffers.

        It calls the kernel directly: the allocations of `mark` cost more than marking a sentence.
        """

        def mark_anyhow(buffers: ShortText, size: int) -> NDArray[np.uint64]:
            return self.mark_every_byte(Text(buffers.text, size), buffers.span)

        if self._masks:
            kernel, options = self._masks
            table = self._classes

            def mark_by_masks(buffers: ShortText, size: int) -> NDArray[np.uint64]:
                buffers.clear_marks(size)
                kernel(buffers.text, size, buffers.span, table, buffers.marks, *options)
                return buffers.marks

            return mark_by_masks
        automaton = None if self._drops else self._automaton
        if automaton is None:
            return mark_anyhow
        points, moves, shape = automaton.class_of_point, automaton.moves, automaton.shape

        def mark_with_automaton(buffers: ShortText, size: int) -> NDArray[np.uint64]:
            buffers.clear_marks(size)
            buffers.progress[:] = _FRESH
            status = mark_by_automaton(
                buffers.text,
                size,
                buffers.span,
                points,
                moves,
                shape,
                buffers.marks,
                _NOTHING,
                _NOTHING,
                buffers.progress,
            )
            return buffers.marks if status == DONE else mark_anyhow(buffers, size)

        return mark_with_automaton


def sentence_spans(text: Text, spans: NDArray[np.int64], punkt: Punkt) -> NDArray[np.int64]:
    """Sentences in spans of a text, without the white space between them.

    Long texts are divided at sentence ends and processed in parallel. Spans and result are int64
    ``[n, 2]``: byte ranges that do not overlap.
    """

    def mark_sentences(filled: NDArray[np.int64]) -> NDArray[np.uint64]:
        starts = np.zeros(text.size // 64 + 2, np.uint64)
        if int(np.diff(filled).sum()) > _FEW_BYTES:
            mark_by_segmenter(text, filled, as_text(punkt.tables), SentenceBreaks(punkt), starts)
        elif len(filled):
            marks = mark_matches(text.data[: text.size], filled, punkt.spans_in, lambda _: None)
            starts.view(np.uint8)[: marks.size] |= marks
        return starts

    return sentences_between(text, spans, mark_sentences)


def mark_pre_tokens(
    text: Text, spans: NDArray[np.int64], pattern: SplitPattern
) -> NDArray[np.uint64]:
    """`Splitter.mark_every_byte` for one text."""
    return Splitter(pattern).mark_every_byte(text, spans)


def mark_kept_and_dropped(
    text: Text, spans: NDArray[np.int64], pattern: SplitPattern
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """`Splitter.mark` for one text."""
    return Splitter(pattern).mark(text, spans)


def pre_tokens(text: str, pattern: str | SplitPattern) -> list[str]:
    """The pre-tokens of ``text``; they join to the text unless the pattern drops some."""
    checks.text("text", text)
    whole = Text.of(text.encode())
    starts, dropped = mark_kept_and_dropped(
        whole, np.array([[0, whole.size]], np.int64), SplitPattern.parse(pattern)
    )
    edges, left_out = _positions(starts).tolist(), set(_positions(dropped).tolist())
    return [
        whole.bytes(begin, end).decode()
        for begin, end in pairwise([*edges, whole.size])
        if begin not in left_out
    ]


def _positions(bitmap: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little"))
