"""Long texts cut by a segmenter: parts that are independent of each other, in several processes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.processors import available_processors
from bpeline.tokenizer_core.splitting.cut_pairs import CutPairs, cut_pairs
from bpeline.tokenizer_core.splitting.regex_processes import SEGMENTER_LIMITS, Cutter, ask
from bpeline.tokenizer_core.splitting.segmenters import Segmenter
from bpeline.tokenizer_core.text import Text

PART = 1 << 17  # bytes: a tenth of a second; the last part of a text keeps one process alone
_ALIGNED = ~7  # bits of a part's first byte begin a byte of the bitmap


def mark_by_segmenter(
    text: Text, spans: NDArray[np.int64], segmenter: Segmenter, starts: NDArray[np.uint64]
) -> None:
    """Set bits of ``starts`` where segments start; as fast as the segmenter on all processors.

    Args:
        text, spans, starts: as for `mark_by_regex`.
        segmenter: what cuts each span by itself.

    Raises:
        SegmenterUnavailable: it is not installed, or not any more as it was.
        PatternExceedsLimit: a part took too long or too much memory.
        WorkerLost: a process cannot be started, or was killed twice.
    """
    cutter = Cutter(segmenter.identity, True, SEGMENTER_LIMITS)
    bitmap = starts.view(np.uint8)

    def segment(part: NDArray[np.int64]) -> tuple[int, NDArray[np.uint8]]:
        base = int(part[0, 0]) & _ALIGNED
        return base >> 3, ask(cutter, text.data[base : int(part[-1, 1])], part - base)

    parts = list(_parts(text, spans, cut_pairs(segmenter.blocks)))
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
    text: Text, spans: NDArray[np.int64], pairs: CutPairs | None
) -> Iterator[NDArray[np.int64]]:
    """Spans, none of them empty, in groups of about `PART` bytes; long ones are divided."""
    assert pairs is not None
    content = text.data[: text.size].data
    gathered: list[tuple[int, int]] = []
    size = 0
    for begin, end in spans[spans[:, 0] < spans[:, 1]].tolist():
        while begin < end:
            cut = end
            if size + end - begin > PART:
                found = pairs.first(content, begin + max(PART - size, 1), end)
                cut = found if found > 0 else end
            gathered.append((begin, cut))
            size += cut - begin
            begin = cut
            if size >= PART:
                yield np.array(gathered, np.int64)
                gathered, size = [], 0
    if gathered:
        yield np.array(gathered, np.int64)
