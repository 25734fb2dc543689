"""The one seam between split patterns and their consumers: text and spans in, a bitmap out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.cl100k import mark_cl100k
from bpeline.tokenizer_core.kernels.scanning.gpt2 import mark_gpt2
from bpeline.tokenizer_core.kernels.scanning.o200k import mark_o200k
from bpeline.tokenizer_core.splitting.regex_processes import mark_by_regex
from bpeline.tokenizer_core.splitting.segmented_text import mark_by_segmenter
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.splitting.unicode_classes import class_table
from bpeline.tokenizer_core.text import Text

# By name of the pattern a kernel, and what it is told. Of `mark_cl100k`: how many numbers make a
# pre-token; whether white space at the end of a span is one pre-token; whether combining marks are
# letters. Of `mark_o200k`: how many numbers; whether contractions belong to the word before.
MASK_KERNELS: dict[str | None, tuple[Callable[..., bool], tuple[int | bool, ...]]] = {
    "gpt2": (mark_gpt2, ()),
    "cl100k": (mark_cl100k, (3, True, False)),
    "llama3": (mark_cl100k, (3, False, False)),
    "qwen2": (mark_cl100k, (1, False, False)),
    "qwen3.5": (mark_cl100k, (1, False, True)),
    "o200k": (mark_o200k, (3, True)),
    "tekken": (mark_o200k, (1, False)),
}


def mark_pre_tokens(
    text: Text, spans: NDArray[np.int64], pattern: SplitPattern
) -> NDArray[np.uint64]:
    """Mark where pre-tokens start.

    A pre-token ends at the next start or at its span's end. Spans are independent of each other:
    a pattern sees the end of its span as the end of the text.

    Args:
        text: valid UTF-8 (at least within the spans).
        spans: int64 of shape [n, 2], half-open byte ranges between characters, not overlapping.

    Returns:
        uint64 of shape [size // 64 + 2]: bit ``i & 63`` of word ``i >> 6`` is set iff a pre-token
        starts at byte ``i``. Zero outside the spans; every non-empty span's begin is set.

    Raises:
        IndexError: a span lies outside of the text, or ends before it begins.
        InvalidPattern: the pattern drops text: see `mark_kept_and_dropped`.
        PatternExceedsLimit, WorkerLost: see `mark_by_regex`.
        SegmenterUnavailable: see `mark_by_segmenter`.
    """
    pattern.require_every_byte()
    return mark_kept_and_dropped(text, spans, pattern)[0]


def mark_kept_and_dropped(
    text: Text, spans: NDArray[np.int64], pattern: SplitPattern
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Mark where pre-tokens start, and which of them are none because the pattern drops them.

    Args:
        text, spans: as for `mark_pre_tokens`.

    Returns:
        Two bitmaps. The first is that of `mark_pre_tokens`, where a dropped stretch starts and
        ends like a pre-token. In the second the starts of dropped stretches are set; it is empty
        (size 0) when the pattern drops nothing.

    Raises:
        IndexError: a span lies outside of the text, or ends before it begins.
        PatternExceedsLimit, WorkerLost: see `mark_by_regex`.
        SegmenterUnavailable: see `mark_by_segmenter`.
    """
    spans = np.ascontiguousarray(spans, np.int64)
    starts = np.zeros(text.size // 64 + 2, np.uint64)
    dropped = np.zeros(starts.size if pattern.drops_gaps else 0, np.uint64)
    if pattern.name in MASK_KERNELS:
        kernel, options = MASK_KERNELS[pattern.name]
        within = kernel(text.data, text.size, spans, class_table(), starts, *options)
    elif (automaton := pattern.automaton) is not None:
        within = automaton.mark(text, spans, starts, dropped)
    else:
        begins, ends = spans[:, 0], spans[:, 1]
        within = bool(((begins >= 0) & (begins <= ends) & (ends <= text.size)).all())
        if within and (segmenter := pattern.segmenter) is not None:
            mark_by_segmenter(text, spans, segmenter, starts)
        elif within:
            mark_by_regex(text, spans, pattern.regex, starts)
    if not within:
        raise IndexError(f"a span lies outside of the text of {text.size} bytes")
    return starts, dropped


def pre_tokens(text: str, pattern: str | SplitPattern) -> list[str]:
    """The pre-tokens of ``text`` as strings, for people and tests.

    Joined they give the text back, unless the pattern drops what lies between.
    """
    whole = Text.of(text.encode())
    starts, dropped = mark_kept_and_dropped(
        whole, np.array([[0, whole.size]], np.int64), SplitPattern.parse(pattern)
    )
    edges, left_out = _positions(starts), set(_positions(dropped))
    return [
        whole.bytes(begin, end).decode()
        for begin, end in pairwise([*edges, whole.size])
        if begin not in left_out
    ]


def _positions(bitmap: NDArray[np.uint64]) -> list[int]:
    positions: list[int] = np.flatnonzero(
        np.unpackbits(bitmap.view(np.uint8), bitorder="little")
    ).tolist()
    return positions
