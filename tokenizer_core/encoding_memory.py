"""What one thread at a time writes to while it encodes; knows no merges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.encode_machine import (
    ARENA,
    ARENA_BYTES,
    ARENA_USED,
    CACHE,
    CACHE_END,
    CACHE_SHIFT,
    LIMIT,
    LONGEST,
    QUEUE,
    SCRATCH,
    TRIE,
    USED,
)
from tokenizer_core.kernels.encode_text import BATCH, QUEUE_BYTES
from tokenizer_core.kernels.encode_word import LONG_SCRATCH, SHORT_SCRATCH, SHORT_WORD
from tokenizer_core.kernels.word_cache import ENTRY
from tokenizer_core.kernels.word_table import move_words
from tokenizer_core.short_texts import SHORT_TEXT, ShortBuffers

_FIRST_SLOTS = 1 << 12  # 128 KiB of entries: what a few short texts need
_LEAST_SLOTS = 4 * BATCH
_GROWTH = 4
_CACHE_LINE = 64
_KEPT_SCRATCH = 1 << 20  # bytes; more is given back after the text that needed it
_LEAST_SCRATCH = (SHORT_SCRATCH + LONG_SCRATCH * SHORT_TEXT) // 8  # uint64: 66 KiB


class Workspace:
    """A cache of words, scratch, and buffers for short texts.

    The cache begins small, grows as it fills, and forgets everything when it is full and may not
    grow: words that matter are soon met again.

    Args:
        machine: int64 ``[MACHINE]``: the tables that all threads read; copied.
        cache_words: how many words are remembered; 0: none.

    Attributes:
        machine: int64 ``[MACHINE]``: the addresses of all of it, as kernels want them.
        scratch: uint64; always enough for a short text.
        short: buffers for short texts.
    """

    __slots__ = ("_arena", "_entries", "_most_slots", "_queue", "machine", "scratch", "short")

    def __init__(self, machine: NDArray[np.int64], cache_words: int) -> None:
        self.machine = machine.copy()
        self.short = ShortBuffers()
        self._queue = np.zeros(QUEUE_BYTES // 8, np.uint64)
        self.machine[QUEUE] = self._queue.ctypes.data
        self._most_slots = _slots_for(cache_words)
        self._entries = np.zeros(0, np.uint64)
        self._arena = np.zeros(0, np.uint8)
        self.machine[LIMIT] = 1 << 62
        if cache_words:
            self._take_cache(min(_FIRST_SLOTS, self._most_slots))
        self._take_scratch(_LEAST_SCRATCH)

    def make_room(self) -> None:
        """Grow the cache; where it may not grow, forget everything."""
        slots = self._entries.size // 4
        if slots < self._most_slots:
            self._take_cache(min(_GROWTH * slots, self._most_slots))
            return
        self._entries.fill(0)
        self.machine[USED] = self.machine[ARENA_USED] = 0

    def _take_cache(self, slots: int) -> None:
        entries = _at_cache_line(4 * slots)
        arena = np.empty(ENTRY * slots, np.uint8)
        if self._entries.size:
            move_words(self._entries, entries)
            used = int(self.machine[ARENA_USED])
            arena[:used] = self._arena[:used]
            self.machine[USED] = np.count_nonzero(entries[1::4])  # the arena may have been full
        self._entries, self._arena = entries, arena
        self.machine[CACHE] = entries.ctypes.data
        self.machine[CACHE_END] = entries.ctypes.data + ENTRY * slots
        self.machine[CACHE_SHIFT] = 65 - slots.bit_length()
        self.machine[LIMIT] = slots // 2
        self.machine[ARENA] = arena.ctypes.data
        self.machine[ARENA_BYTES] = arena.size

    def _take_scratch(self, words: int) -> None:
        self.scratch = np.empty(words, np.uint64)
        self.machine[SCRATCH] = self.scratch.ctypes.data
        if self.machine[TRIE]:
            self.machine[LONGEST] = 64 * words - 1
        else:
            self.machine[LONGEST] = max(SHORT_WORD, (8 * words - SHORT_SCRATCH) // LONG_SCRATCH)

    def grow_scratch(self, longest: int) -> None:
        """Make scratch large enough for a pre-token of ``longest`` bytes."""
        if longest <= self.machine[LONGEST]:
            return
        wanted = longest // 64 + 1
        if not self.machine[TRIE]:
            wanted = (SHORT_SCRATCH + LONG_SCRATCH * longest) // 8 + 1
        self._take_scratch(max(wanted, min(2 * wanted, _KEPT_SCRATCH // 8)))

    def shrink(self) -> None:
        """Give back scratch that few texts need."""
        if self.scratch.nbytes > _KEPT_SCRATCH:
            self._take_scratch(_LEAST_SCRATCH)


def _slots_for(words: int) -> int:
    """A power of two, so that the table is at most half full."""
    return max(_LEAST_SLOTS, 1 << (2 * words - 1).bit_length()) if words else 0


def _at_cache_line(words: int) -> NDArray[np.uint64]:
    """Zeros that begin at a cache line, so that no entry lies across two."""
    room = np.zeros(words + _CACHE_LINE // 8, np.uint64)
    begin = -room.ctypes.data % _CACHE_LINE // 8
    return room[begin : begin + words]
