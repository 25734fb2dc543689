"""Texts, one after the other, become entries of tables of words; knows no files, no threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting.word_parts import WordParts
from bpeline.tokenizer_core.counting.word_tables import empty_entries
from bpeline.tokenizer_core.kernels.counting.word_walk import (
    ALL_COUNTED,
    FRESH,
    NOWHERE,
    QUEUE,
    WALK,
    add_waiting,
    count_marked,
)
from bpeline.tokenizer_core.kernels.memory.pages import in_lines
from bpeline.tokenizer_core.kernels.tables.word_queue import QUEUE_BYTES
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
_LINE = 8  # int64 of a cache line
_SMALLEST_BOUND = 1 << 21  # entries for twice the words that front and queue can hold


def words_of(text_bytes: int, threads: int = 1, table_bytes: int | None = None) -> WordParts:
    """Where the words of a text go.

    Args:
        text_bytes: about how much text there will be.
        threads: how many count it.
        table_bytes: most memory that the words of one thread take; at least 2 MiB are used.
    """
    fewest, most = _MAIN_BITS
    bits = min(max((text_bytes // _BYTES_PER_WORD).bit_length(), fewest), most)
    bound = None if table_bytes is None else max(table_bytes, _SMALLEST_BOUND)
    return WordParts(bits, threads, bound)


class TextCounter:
    """Counts pre-tokens of any number of texts, given in the order in which the corpus has them.

    Attributes:
        words: the words so far, complete between two calls of `count` of all who share them.
    """

    def __init__(
        self,
        splitter: Splitter,
        words: WordParts,
        pass_on: Callable[[WordParts], WordParts] | None = None,
    ) -> None:
        """A counter that has seen nothing.

        Args:
            splitter: what cuts texts into pre-tokens; threads may share it.
            words: what to add words to; threads may share them unless they have bounds.
            pass_on: takes words that would exceed their bounds, and gives empty ones to go on with;
                so a word may be passed on several times.
        """
        self._splitter, self._pass_on = splitter, pass_on
        parts = len(words.tables)
        self._front = empty_entries(min(words.bits, _FRONT_BITS))
        # Whole lines for each: what another thread writes may lie beside small arrays.
        self._queue = in_lines(4 * QUEUE * parts, np.uint64)
        self._waiting = in_lines(max(2 * parts, _LINE), np.int64)[: 2 * parts].reshape(parts, 2)
        self._ahead = in_lines(QUEUE_BYTES // 8, np.uint64)
        self._walk = in_lines(_LINE, np.int64)[: WALK.itemsize // 8].view(WALK)
        self.words = words

    def count(
        self,
        text: Text,
        spans: NDArray[np.int64],
        anchors: NDArray[np.int64],
        origin: int = 0,
        end: int = NOWHERE,
    ) -> None:
        """Count the pre-tokens of spans of a text.

        Args:
            text: UTF-8, at least within the spans.
            spans: int64 ``[n, 2]``, half-open, ascending, each pre-tokenized by itself.
            anchors: int64 ``[m, 2]``, as in `ChunkText`.
            origin: what to add to the positions that the anchors give; below 2⁶², and behind all
                texts before.
            end: positions in this text are below, those in texts behind it are not, which another
                thread may have counted.
        """
        starts, dropped = self._splitter.mark(text, spans)
        self._walk[:] = np.zeros(1, WALK)
        self._walk["begin"] = FRESH
        place = (anchors, origin, end)
        near = (self._front, self._queue, self._waiting)
        walk = (text.data, starts, dropped, spans, *place, *near, self._ahead, self._walk)
        while (part := count_marked(*walk, self.words.used)) != ALL_COUNTED:
            waiting, waiting_bytes = self._waiting[part].tolist()
            if not self.words.make_room(part, waiting, waiting_bytes):
                self._settle(text, place)
                assert self._pass_on is not None
                self.words = self._pass_on(self.words)
                self._front[:] = 0
        self._settle(text, place)

    def _settle(self, text: Text, place: tuple[NDArray[np.int64], int, int]) -> None:
        """Add all that waits and what the front counted, though tables become crowded."""
        near, part = (self._front, self._queue, self._waiting), 0
        while (part := add_waiting(text.data, *place, *near, self.words.used, part)) != ALL_COUNTED:
            waiting, waiting_bytes = self._waiting[part].tolist()
            hot = int(np.count_nonzero(self._front[4 * part + 2 :: 4 * len(self._waiting)]))
            with self.words.held(part) as table:
                table.make_room_anyway(waiting + hot, waiting_bytes)
        if self._pass_on is not None:
            for table in self.words.tables:
                table.tell()  # that it is not to become more crowded
