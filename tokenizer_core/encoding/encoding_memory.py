"""What threads write to while they encode: shared tables of words, and workspaces of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_span
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    LEAST_MERGE_SCRATCH,
    MERGE_SCRATCH,
)
from bpeline.tokenizer_core.kernels.encoding.short_texts import SHORT
from bpeline.tokenizer_core.kernels.encoding.word_cache import (
    FIRST_RECORD,
    LARGEST_RECORD,
    LONG_PLACE,
    ROOM,
    move_kept,
    move_long,
)
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import filled_from_begin
from bpeline.tokenizer_core.kernels.memory.python_objects import TOGETHER, listed
from bpeline.tokenizer_core.kernels.scanning.automaton import PROGRESS
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.word_keys import ENTRY
from bpeline.tokenizer_core.kernels.tables.word_queue import BATCH, QUEUE_BYTES
from bpeline.tokenizer_core.splitting import MarkShort

ShortKernel = Callable[[int, int, int, int], int]
SHORT_TEXT = 1 << 14  # bytes; no thread waits longer for the interpreter's lock than 0.1 ms
_BLANK = bytes(PADDING)
_NO_MARKS = bytes(SHORT_TEXT // 8 + 16)

_FIRST_SLOTS = 1 << 13  # 320 KiB: what a few short texts need
_LEAST_SLOTS = 4 * BATCH
_MANY_SLOTS = 1 << 19  # from where on tables grow by less: their pages are cleared, and never used
_GROWTH, _LATER_GROWTH = 8, 4
_ARENA_OF_SLOT = 32  # bytes; with both tables 72, and only half the slots are used
_CACHE_LINE = 64
_KEPT_IDS = 1 << 24  # bytes: those of pieces of files
_KEPT_SCRATCH = 1 << 20  # bytes; more is given back after the text that needed it


def scratch_for(longest: int) -> NDArray[np.uint64]:
    """Scratch for merging words of up to ``longest`` bytes one after the other."""
    return np.empty(_merging_scratch(max(longest, SHORT_TEXT)), np.uint64)


def _merging_scratch(longest: int) -> int:
    return (LEAST_MERGE_SCRATCH + MERGE_SCRATCH * longest) // 8 + 1


_LEAST_SCRATCH = _merging_scratch(SHORT_TEXT)  # uint64: 0.5 MiB, of which little is touched


class WordTable:
    """Memory of a table of words, at most half of which may be in use.

    Attributes:
        slots: a power of two, or 0.
        places: uint64, zeros, some for each slot.
        used: uint64 ``[1]``: how many slots are in use, in a cache line of its own.
    """

    __slots__ = ("places", "slots", "used")

    def __init__(self, slots: int, bytes_each: int) -> None:
        self.slots = slots
        self.places = at_cache_line(slots * bytes_each // 8)
        self.used = at_cache_line(_CACHE_LINE // 8)

    def next_slots(self, most: int) -> int:
        """How many there are next, which is as many as now where it is not full."""
        if int(self.used[0]) < self.slots // 2:
            return self.slots
        return min((_GROWTH if self.slots < _MANY_SLOTS else _LATER_GROWTH) * self.slots, most)


class Arena:
    """Memory that is filled from its begin.

    Attributes:
        content: uint8.
        used: uint64 ``[1]``: how many bytes are in use, in a cache line of its own.
    """

    __slots__ = ("content", "used")

    def __init__(self, size: int) -> None:
        self.content = filled_from_begin(size)
        self.used = at_cache_line(_CACHE_LINE // 8)
        self.used[0] = FIRST_RECORD

    def is_full(self) -> bool:
        return int(self.used[0]) + LARGEST_RECORD > self.content.size


class WordCache:
    """Words and their ids, in memory that threads share: see `kernels.encoding.word_cache`.

    Args:
        short, long: tables of words of their own key, and of longer ones.
        arena: what is neither's.
    """

    __slots__ = ("arena", "long", "short")

    def __init__(self, short: WordTable, long: WordTable, arena: Arena) -> None:
        self.short, self.long, self.arena = short, long, arena

    @classmethod
    def empty(cls, slots: int, most: int, long_slots: int | None = None) -> WordCache:
        """One that knows no words.

        Args:
            slots: of the tables at first. most: when they do not grow any more. 0: nothing is ever
                remembered.
            long_slots: of the second table, where it is another number.
        """
        long_slots = slots if long_slots is None else long_slots
        tables = WordTable(slots, ENTRY), WordTable(long_slots, LONG_PLACE)
        return cls(*tables, Arena(most * _ARENA_OF_SLOT))

    def following(self, most: int) -> WordCache:
        """What follows when this is full: larger tables with its words, or none of them.

        Threads may go on adding to this one. What a table of the two has no need to leave, and the
        arena, both have in common from now on.
        """
        slots, long_slots = self.short.next_slots(most), self.long.next_slots(most)
        if self.arena.is_full() or (slots, long_slots) == (self.short.slots, self.long.slots):
            return self.empty(self.short.slots, most, self.long.slots)
        return self.enlarged(slots, long_slots)

    def enlarged(self, slots: int, long_slots: int) -> WordCache:
        """The same words in tables of so many slots, which may be as many as now."""
        short, long = self.short, self.long
        if slots > short.slots:
            short = WordTable(slots, ENTRY)
            short.used[0] = move_kept(self.short.places, short.places, HASH_KEY)
        if long_slots > long.slots:
            long = WordTable(long_slots, LONG_PLACE)
            long.used[0] = move_long(self.long.places, long.places)
        return WordCache(short, long, self.arena)

    def lend_to(self, record: NDArray[Any]) -> None:
        """Write the tables' addresses where kernels look for them."""
        tables = (
            ("cache", self.short, ENTRY, ENTRY),
            ("long", self.long, LONG_PLACE, 2 * LONG_PLACE),
        )
        for name, table, bytes_each, begins in tables:
            size, address = bytes_each * table.slots, table.places.ctypes.data
            record[name] = address
            record[f"{name}_end"] = address + size
            record[f"{name}_slots"] = max(size - begins, 0)
            record[f"{name}_used"] = table.used.ctypes.data
            record[f"{name}_limit"] = table.slots // 2 if table.slots else 1 << 62
        record["arena"] = self.arena.content.ctypes.data
        record["arena_bytes"] = self.arena.content.size
        record["arena_used"] = self.arena.used.ctypes.data


class SharedWords:
    """The words that all threads of an encoder have met.

    Tables begin small, grow as they fill, and are replaced by empty ones when one is full and may
    not grow: words that matter are soon met again.

    Args:
        most: how many words are remembered; 0: none.

    Attributes:
        table: the newest one. Threads change over to it when theirs is full.
    """

    __slots__ = ("_most_slots", "table")

    def __init__(self, most: int) -> None:
        # A power of two, so that tables are at most half full.
        self._most_slots = max(_LEAST_SLOTS, 1 << (2 * most - 1).bit_length()) if most else 0
        self.forget()

    def forget(self) -> None:
        """Replace the table by an empty one; calls that are encoding keep theirs."""
        self.table = WordCache.empty(min(_FIRST_SLOTS, self._most_slots), self._most_slots)

    def after(self, full: WordCache) -> WordCache:
        """The table that follows one that is full; made by the first thread that asks."""
        with _replacing:
            if self.table is full:
                self.table = full.following(self._most_slots)
            return self.table


# One for all encoders: tables are replaced a few times in the life of a process.
_replacing = threading.Lock()


def _renew_lock() -> None:
    """In a forked child nobody is replacing a table, whatever the lock says."""
    global _replacing
    _replacing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class ShortBuffers:
    """Text, marks and ids of one call after the other, and views through which Python is quick.

    Attributes:
        text, span, marks, progress, ids: what kernels are given.
    """

    __slots__ = ("_marks", "_span", "_text", "ids", "marks", "progress", "span", "text")

    def __init__(self) -> None:
        self.text = np.zeros(SHORT_TEXT + PADDING, np.uint8)
        self.span = np.zeros((1, 2), np.int64)
        self.marks = np.zeros(SHORT_TEXT // 64 + 2, np.uint64)
        self.progress = np.zeros(PROGRESS, np.int64)
        self.ids = np.zeros(SHORT_TEXT + ROOM, np.uint32)
        self._text = self.text.data
        self._span = self.span.reshape(2).data
        self._marks = self.marks.data.cast("B")

    def encode(
        self, content: bytes, mark: MarkShort, workspace: NDArray[np.int64]
    ) -> tuple[list[int], bool]:
        """The ids of UTF-8 text of at most `SHORT_TEXT` bytes; and whether the cache is full.

        Args:
            mark: of `Splitter.marking_short_texts`.
            workspace: fields of a `WORKSPACE`; its scratch is enough for `SHORT_TEXT` bytes.
        """
        size = len(content)
        self._text[: size + PADDING] = content + _BLANK
        self._span[1] = size
        count = encode_span(self.text, mark(self, size), size, workspace, self.ids)
        full = count < 0
        return listed(self.ids[: -1 - count if full else count]), full

    def clear_marks(self, size: int) -> None:
        """Unmark the text up to ``size`` bytes and the block behind it."""
        marked = (size // 64 + 2) * 8
        self._marks[:marked] = _NO_MARKS[:marked]


class TextsAtOnce:
    """What kernels need that encode a text in one call: see `kernels.encoding.short_texts`.

    It never changes after it is made, so that threads may put another in its place.

    Args:
        workspace: what encodes; used for nothing else.
        kernel: one of `short_texts`.
        cutting: the table of classes, and the options of the kernel.
        ints: those of all ids; see `append_ids`.

    Attributes:
        address: of one `SHORT`.
        encode: the kernel.
        words: the table of words in use.
    """

    __slots__ = ("_held", "address", "encode", "words")

    def __init__(
        self,
        workspace: Workspace,
        kernel: ShortKernel,
        cutting: tuple[NDArray[np.uint8], tuple[int, ...]],
        ints: list[int],
    ) -> None:
        buffers, classes = workspace.short, cutting[0]
        record, room = np.zeros(1, SHORT), np.zeros(TOGETHER, np.int64)
        for field, array in (
            ("text", buffers.text),
            ("marks", buffers.marks),
            ("ids", buffers.ids),
            ("classes", classes),
            ("workspace", workspace.record),
            ("room_for_ints", room),
        ):
            record[field] = array.ctypes.data
        record["room"], record["ints"] = SHORT_TEXT, id(ints)
        record["digits"], record["first"], record["second"] = cutting[1]
        self._held = workspace, classes, ints, record, room
        self.address: int = record.ctypes.data
        self.encode = kernel
        self.words = workspace.words


class Workspace:
    """What one thread at a time needs: scratch, always enough for a short text, and buffers.

    Args:
        record: one `WORKSPACE`: the tables that all threads read; copied.
        words: the table of words, which threads share.

    Attributes:
        record: one `WORKSPACE`: the addresses of all of it, as kernels want them.
        fields: the record as int64, which a kernel is handed sooner.
        words: the table in use.
        short: buffers for short texts.
    """

    __slots__ = ("_ids", "_queue", "fields", "record", "scratch", "short", "words")

    def __init__(self, record: NDArray[Any], words: WordCache) -> None:
        self.record = record.copy()
        self.fields = self.record.view(np.int64)
        self.short = ShortBuffers()
        self._ids = np.empty(0, np.uint32)
        self._queue = at_cache_line(QUEUE_BYTES // 8)
        self.record["queue"] = self._queue.ctypes.data
        self.use(words)
        self._take_scratch(_LEAST_SCRATCH)

    def use(self, words: WordCache) -> None:
        """Go on with another table of words."""
        self.words = words
        words.lend_to(self.record)

    def _take_scratch(self, words: int) -> None:
        self.scratch = np.empty(words, np.uint64)
        self.record["scratch"] = self.scratch.ctypes.data
        if self.record["trie"][0]:
            self.record["longest"] = 64 * words - 1
        else:
            self.record["longest"] = (8 * words - LEAST_MERGE_SCRATCH) // MERGE_SCRATCH

    def grow_scratch(self, longest: int) -> None:
        """Make scratch large enough for a pre-token of ``longest`` bytes."""
        if longest <= self.record["longest"][0]:
            return
        wanted = longest // 64 + 1 if self.record["trie"][0] else _merging_scratch(longest)
        self._take_scratch(max(wanted, min(2 * wanted, _KEPT_SCRATCH // 8)))

    def room_for_ids(self, number: int) -> NDArray[np.uint32]:
        """Memory for ids until the workspace is given back; the same as before, if it is enough.

        What is asked of the C library and freed again for each piece of a file may go back to the
        system each time, and is cleared page by page when it comes again.
        """
        if len(self._ids) < number:
            self._ids = np.empty(number, np.uint32)
        return self._ids

    def shrink(self) -> None:
        """Give back scratch that few texts need."""
        if self._ids.nbytes > _KEPT_IDS:
            self._ids = np.empty(0, np.uint32)
        if self.scratch.nbytes > _KEPT_SCRATCH:
            self._take_scratch(_LEAST_SCRATCH)


def at_cache_line(words: int) -> NDArray[np.uint64]:
    """Zeros that begin at a cache line, so that no entry lies across two."""
    room = np.zeros(words + _CACHE_LINE // 8, np.uint64)
    begin = -room.ctypes.data % _CACHE_LINE // 8
    return room[begin : begin + words]
