"""Memory of the encoder: shared word tables, and a workspace for each thread."""

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
SHORT_TEXT = 1 << 14  # bytes; encoding them holds the interpreter's lock for at most 0.1 ms
_BLANK = bytes(PADDING)
_NO_MARKS = bytes(SHORT_TEXT // 8 + 16)

_FIRST_SLOTS = 1 << 13  # 320 KiB: enough for a few short texts
_LEAST_SLOTS = 4 * BATCH
_MANY_SLOTS = 1 << 19  # larger tables grow by a smaller factor, because unused pages are cleared
_GROWTH, _LATER_GROWTH = 8, 4
_ARENA_OF_SLOT = 32  # bytes; 72 with both tables, and only half of the slots are used
_CACHE_LINE = 64
_KEPT_IDS = 1 << 24  # bytes; enough for pieces of files
_KEPT_SCRATCH = 1 << 20  # bytes; larger scratch is freed after the text that needed it


def scratch_for(longest: int) -> NDArray[np.uint64]:
    """Return scratch memory for merging words of up to ``longest`` bytes."""
    return np.empty(_merging_scratch(max(longest, SHORT_TEXT)), np.uint64)


def _merging_scratch(longest: int) -> int:
    return (LEAST_MERGE_SCRATCH + MERGE_SCRATCH * longest) // 8 + 1


_LEAST_SCRATCH = _merging_scratch(SHORT_TEXT)  # uint64: 0.5 MiB, mostly untouched


class WordTable:
    """Memory of a hash table of words, at most half full.

    Attributes:
        slots: a power of two, or 0.
        places: uint64, zero-initialized; several per slot.
        used: uint64 ``[1]``: number of used slots, in its own cache line.
    """

    __slots__ = ("places", "slots", "used")

    def __init__(self, slots: int, bytes_each: int) -> None:
        self.slots = slots
        self.places = at_cache_line(slots * bytes_each // 8)
        self.used = at_cache_line(_CACHE_LINE // 8)

    def next_slots(self, most: int) -> int:
        """Return the number of slots of the next table; unchanged if this one is not full."""
        if int(self.used[0]) < self.slots // 2:
            return self.slots
        return min((_GROWTH if self.slots < _MANY_SLOTS else _LATER_GROWTH) * self.slots, most)


class Arena:
    """Memory filled from its begin; ``used`` bytes have their own cache line."""

    __slots__ = ("content", "used")

    def __init__(self, size: int) -> None:
        self.content = filled_from_begin(size)
        self.used = at_cache_line(_CACHE_LINE // 8)
        self.used[0] = FIRST_RECORD

    def is_full(self) -> bool:
        return int(self.used[0]) + LARGEST_RECORD > self.content.size


class WordCache:
    """Words and their ids, shared by threads; see `kernels.encoding.word_cache`.

    Words that fit their key are in ``short``, longer ones in ``long``, other data in ``arena``.
    """

    __slots__ = ("arena", "long", "short")

    def __init__(self, short: WordTable, long: WordTable, arena: Arena) -> None:
        self.short, self.long, self.arena = short, long, arena

    @classmethod
    def empty(cls, slots: int, most: int, long_slots: int | None = None) -> WordCache:
        """Create an empty cache of at most ``most`` slots; 0 disables it."""
        long_slots = slots if long_slots is None else long_slots
        tables = WordTable(slots, ENTRY), WordTable(long_slots, LONG_PLACE)
        return cls(*tables, Arena(most * _ARENA_OF_SLOT))

    def following(self, most: int) -> WordCache:
        """Return the cache after a full one: larger with its words, or empty.

        Threads may still add to this one. Tables that do not grow, and the arena, are shared.
        """
        slots, long_slots = self.short.next_slots(most), self.long.next_slots(most)
        if self.arena.is_full() or (slots, long_slots) == (self.short.slots, self.long.slots):
            return self.empty(self.short.slots, most, self.long.slots)
        return self.enlarged(slots, long_slots)

    def enlarged(self, slots: int, long_slots: int) -> WordCache:
        short, long = self.short, self.long
        if slots > short.slots:
            short = WordTable(slots, ENTRY)
            short.used[0] = move_kept(self.short.places, short.places, HASH_KEY)
        if long_slots > long.slots:
            long = WordTable(long_slots, LONG_PLACE)
            long.used[0] = move_long(self.long.places, long.places)
        return WordCache(short, long, self.arena)

    def lend_to(self, record: NDArray[Any]) -> None:
        """Write the addresses of the tables to a `WORKSPACE` record."""
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
    """The word cache of an encoder, shared by its threads.

    Tables start small and grow; a full table of ``most`` words is replaced by an empty one. Threads
    switch to the newest ``table`` when theirs is full.
    """

    __slots__ = ("_most_slots", "table")

    def __init__(self, most: int) -> None:
        # A power of two, with tables at most half full.
        self._most_slots = max(_LEAST_SLOTS, 1 << (2 * most - 1).bit_length()) if most else 0
        self.forget()

    def forget(self) -> None:
        self.table = WordCache.empty(min(_FIRST_SLOTS, self._most_slots), self._most_slots)

    def after(self, full: WordCache) -> WordCache:
        """Return the cache that follows a full one; the first thread creates it."""
        with _replacing:
            if self.table is full:
                self.table = full.following(self._most_slots)
            return self.table


# One lock for all encoders: caches are replaced only a few times per process.
_replacing = threading.Lock()


def _renew_lock() -> None:
    """Reset the lock in a forked child, where no thread holds it."""
    global _replacing
    _replacing = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class ShortBuffers:
    """Reusable buffers for the text, marks and ids of one short text at a time."""

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
        """Encode at most `SHORT_TEXT` bytes; also return whether the cache is full.

        ``mark`` comes from `Splitter.marking_short_texts`; ``workspace`` is a `WORKSPACE` as int64.
        """
        size = len(content)
        self._text[: size + PADDING] = content + _BLANK
        self._span[1] = size
        count = encode_span(self.text, mark(self, size), size, workspace, self.ids)
        full = count < 0
        return listed(self.ids[: -1 - count if full else count]), full

    def clear_marks(self, size: int) -> None:
        """Clear the marks up to ``size`` bytes and in the next block."""
        marked = (size // 64 + 2) * 8
        self._marks[:marked] = _NO_MARKS[:marked]


class TextsAtOnce:
    """Arguments of the kernels in `kernels.encoding.short_texts`. Immutable.

    Args:
        workspace: used only for this.
        cutting: table of classes and options of the kernel.
        ints: Python ints of all ids; see `append_ids`.
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
    """Scratch memory (enough for a short text) and buffers of one thread.

    Attributes:
        record: one `WORKSPACE`: the addresses for kernels; ``fields`` is its int64 view.
        words: the word cache in use.
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
        """Ensure scratch for a pre-token of ``longest`` bytes."""
        if longest <= self.record["longest"][0]:
            return
        wanted = longest // 64 + 1 if self.record["trie"][0] else _merging_scratch(longest)
        self._take_scratch(max(wanted, min(2 * wanted, _KEPT_SCRATCH // 8)))

    def room_for_ids(self, number: int) -> NDArray[np.uint32]:
        """Return reusable memory for ids, because new memory causes page faults."""
        if len(self._ids) < number:
            self._ids = np.empty(number, np.uint32)
        return self._ids

    def shrink(self) -> None:
        if self._ids.nbytes > _KEPT_IDS:
            self._ids = np.empty(0, np.uint32)
        if self.scratch.nbytes > _KEPT_SCRATCH:
            self._take_scratch(_LEAST_SCRATCH)


def at_cache_line(words: int) -> NDArray[np.uint64]:
    """Allocate zeros aligned to a cache line, so that no entry crosses two."""
    room = np.zeros(words + _CACHE_LINE // 8, np.uint64)
    begin = -room.ctypes.data % _CACHE_LINE // 8
    return room[begin : begin + words]
