"""Buffers that are made once, so that encoding a short text allocates nothing; knows no merges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_span
from bpeline.tokenizer_core.kernels.encoding.word_cache import ROOM
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.automaton import (
    DONE,
    POSITION,
    PROGRESS,
    mark_by_automaton,
)
from bpeline.tokenizer_core.splitting import (
    MASK_KERNELS,
    SplitPattern,
    class_table,
    mark_pre_tokens,
)
from bpeline.tokenizer_core.text import Text

SHORT_TEXT = 1 << 11  # bytes; beyond, what is saved here is lost in the noise
_BLANK = bytes(PADDING)
_NO_MARKS = bytes(SHORT_TEXT // 8 + 16)
_NOTHING = np.zeros(0, np.uint64)  # no gaps, no memo
_FRESH = np.zeros(PROGRESS, np.int64)
_FRESH[POSITION] = -1

Mark = Callable[["ShortBuffers", int], NDArray[np.uint64]]


class ShortBuffers:
    """Text, marks and ids of one call after the other, and views through which Python is quick.

    Attributes:
        text, span, marks, progress, ids: what kernels are given.
    """

    __slots__ = ("_ids", "_marks", "_span", "_text", "ids", "marks", "progress", "span", "text")

    def __init__(self) -> None:
        self.text = np.zeros(SHORT_TEXT + PADDING, np.uint8)
        self.span = np.zeros((1, 2), np.int64)
        self.marks = np.zeros(SHORT_TEXT // 64 + 2, np.uint64)
        self.progress = np.zeros(PROGRESS, np.int64)
        self.ids = np.zeros(SHORT_TEXT + ROOM, np.uint32)
        self._text = self.text.data
        self._span = self.span.reshape(2).data
        self._marks = self.marks.data.cast("B")
        self._ids = self.ids.data

    def encode(
        self, content: bytes, mark: Mark, machine: NDArray[np.int64]
    ) -> tuple[list[int], bool]:
        """The ids of UTF-8 text of at most `SHORT_TEXT` bytes; and whether the cache is full.

        Args:
            mark: from `marking`.
            machine: see `encode_machine`; its scratch is enough for `SHORT_TEXT` bytes.
        """
        size = len(content)
        self._text[: size + PADDING] = content + _BLANK
        self._span[1] = size
        count = encode_span(self.text, mark(self, size), size, machine, self.ids)
        full = count < 0
        return self._ids[: -1 - count if full else count].tolist(), full

    def clear_marks(self, size: int) -> None:
        """Unmark the text up to ``size`` bytes and the block behind it."""
        marked = (size // 64 + 2) * 8
        self._marks[:marked] = _NO_MARKS[:marked]


def marking(pattern: SplitPattern) -> Mark:
    """How pre-tokens of the text in short buffers are marked.

    The kernels are called directly: what `mark_pre_tokens` makes anew for each text takes longer
    than marking a sentence.
    """

    def mark_anyhow(buffers: ShortBuffers, size: int) -> NDArray[np.uint64]:
        return mark_pre_tokens(Text(buffers.text, size), buffers.span, pattern)

    if pattern.name in MASK_KERNELS:
        kernel, options = MASK_KERNELS[pattern.name]
        table = class_table()

        def mark_by_masks(buffers: ShortBuffers, size: int) -> NDArray[np.uint64]:
            buffers.clear_marks(size)
            kernel(buffers.text, size, buffers.span, table, buffers.marks, *options)
            return buffers.marks

        return mark_by_masks
    automaton = None if pattern.drops_gaps else pattern.automaton
    if automaton is None:
        return mark_anyhow
    points, moves, shape = automaton.class_of_point, automaton.moves, automaton.shape

    def mark_with_automaton(buffers: ShortBuffers, size: int) -> NDArray[np.uint64]:
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
