"""Long texts cut by a segmenter: parts that are independent of each other, in several processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting.cut_pairs import CutPairs
from bpeline.tokenizer_core.splitting.regex_processes import SEGMENTER_LIMITS, Cutter, ask
from bpeline.tokenizer_core.splitting.sentences import SentenceBreaks
from bpeline.tokenizer_core.text import Text

PART = 1 << 17  # bytes: a tenth of a second; the last part of a text keeps one process alone
_ALIGNED = ~7  # bits of a part's first byte begin a byte of the bitmap


def mark_by_segmenter(
    text: Text,
    spans: NDArray[np.int64],
    segmenter: str,
    cuts: CutPairs | SentenceBreaks,
    starts: NDArray[np.uint64],
) -> None:
    """Set bits of ``starts`` where segments start; as fast as the segmenter on all processors.

    Args:
        text, spans, starts: as for `mark_by_regex`.
        segmenter: what cuts each span by itself: its identity, or `punkt_model.as_text`.
        cuts: where a span may be divided.

    Raises:
        SegmenterUnavailable: it is not installed, or not any more as it was.
        PatternExceedsLimit: a part took too long or too much memory.
        WorkerLost: a process cannot be started, or was killed twice.
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
            # Neighbours may share a byte of the bitmap, so one thread writes. After an error the
            # parts that wait are cancelled.
            for place, marks in threads.map(segment, parts):
                bitmap[place : place + marks.size] |= marks


def _parts(
    text: Text, spans: NDArray[np.int64], cuts: CutPairs | SentenceBreaks
) -> Iterator[NDArray[np.int64]]:
    """Spans, none of them empty, in groups of about `PART` bytes; long ones are divided."""
    content = text.data[: text.size].data
    gathered: list[tuple[int, int]] = []
    size = 0
    for begin, end in spans[spans[:, 0] < spans[:, 1]].tolist():
        span, first = content[begin:end], begin
        while begin < end:
            cut = end
            if size + end - begin > PART:
                found = cuts.first(span, begin - first + max(PART - size, 1), end - first)
                cut = first + found if found > 0 else end
            gathered.append((begin, cut))
            size += cut - begin
            begin = cut
            if size >= PART:
                yield np.array(gathered, np.int64)
                gathered, size = [], 0
    if gathered:
        yield np.array(gathered, np.int64)
