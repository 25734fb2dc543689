"""Texts, one after the other, become entries of one table of words; knows no files, no threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_tables import WordTable, empty_entries
from bpeline.tokenizer_core.kernels.counting.word_walk import (
    FRESH,
    QUEUE,
    WALK,
    add_waiting,
    count_marked,
)
from bpeline.tokenizer_core.splitting import Splitter
from bpeline.tokenizer_core.text import Text

TABLE_BYTES = 256 << 20
"""Most memory that the words of one worker take before they are passed on: room for some 2.5
million words, and for 128 MiB of words above 15 bytes."""

# The front table fits the second-level cache of a core; the main table begins as large as the text
# suggests, but not so large that touching its fresh memory costs more than growing later.
_FRONT_BITS = 13
_MAIN_BITS = 10, 19
_BYTES_PER_WORD = 16  # of text for each distinct word, as a first guess
_SMALLEST_BOUND = 1 << 21  # entries for twice the words that front and queue can hold


class TextCounter:
    """Counts pre-tokens of any number of texts, given in the order in which the corpus has them.

    Attributes:
        table: the words so far, complete between two calls of `count`.
    """

    def __init__(
        self,
        splitter: Splitter,
        pass_on: Callable[[WordTable], None],
        text_bytes: int,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        """A counter that has seen nothing.

        Args:
            splitter: what cuts texts into pre-tokens; threads may share it.
            pass_on: takes the table when it would exceed ``table_bytes``; counting goes on with
                an empty one, so a word may be passed on several times.
            text_bytes: about how much text there will be.
            table_bytes: see `WordTable`; at least 2 MiB are used.
        """
        fewest, most = _MAIN_BITS
        self._splitter, self._pass_on = splitter, pass_on
        self._table_bytes = max(table_bytes, _SMALLEST_BOUND)
        self._bits = min(max((text_bytes // _BYTES_PER_WORD).bit_length(), fewest), most)
        self._front = empty_entries(min(self._bits, _FRONT_BITS))
        self._queue = np.zeros(4 * QUEUE, np.uint64)
        self._walk = np.zeros(1, WALK)
        self.table = WordTable(self._bits, self._table_bytes)

    def count(
        self,
        text: Text,
        spans: NDArray[np.int64],
        anchors: NDArray[np.int64],
        origin: int = 0,
    ) -> None:
        """Count the pre-tokens of spans of a text.

        Args:
            text: UTF-8, at least within the spans.
            spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
            anchors: int64 ``[m, 2]``, as in `ChunkText`.
            origin: what to add to the positions that the anchors give; below 2⁶², and behind all
                texts before.
        """
        starts, dropped = self._splitter.mark(text, spans)
        self._walk[:] = np.zeros(1, WALK)
        self._walk["word"] = FRESH
        place = (text.data, starts, dropped, spans, anchors, origin)
        near = (self._front, self._queue, self._walk)
        while not count_marked(*place, *near, *self._main, self.table.limit):
            if not self.table.make_room(*self._waiting):
                self._settle(text, anchors, origin)
                self._pass_on(self.table)
                self.table = WordTable(self._bits, self._table_bytes)
                self._front[:] = 0
        self._settle(text, anchors, origin)

    def _settle(self, text: Text, anchors: NDArray[np.int64], origin: int) -> None:
        hot = int(np.count_nonzero(self._front[2::4]))
        waiting, arena_bytes = self._waiting
        self.table.make_room_anyway(waiting + hot, arena_bytes)
        near = (self._front, self._queue, self._walk)
        add_waiting(text.data, anchors, origin, *near, *self._main)

    @property
    def _waiting(self) -> tuple[int, int]:
        """Entries that wait in the queue, and bytes that their long words want of the arena."""
        return int(self._walk["waiting"][0]), int(self._walk["waiting_bytes"][0])

    @property
    def _main(self) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[Any]]:
        return self.table.entries, self.table.arena, self.table.used
