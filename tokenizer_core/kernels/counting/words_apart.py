"""Counting the pre-tokens of short texts, each for itself, into rows. No files, no allocation.

Texts stand beside each other in one. The words of each are sought in the first entries of a small
table, and these are empty again when its rows are written.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.counting.word_table import add_to, copy_eights
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.bitmaps import is_marked
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO, key_in
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    HIGH,
    LONG,
    LOW,
    PLACE,
    VALUE,
    key_length,
    put_entry,
    same_bytes,
)
from bpeline.tokenizer_core.kernels.tables.word_queue import (
    ENTRIES,
    HIGHS,
    LOWS,
    WORDS,
    Sought,
    queue_words,
)

_ANY_LENGTH = 1 << 62


@kernel
def seek_near(
    entry: I64, first: I64, behind: I64, low: U64, high: U64, text: I64, place: I64
) -> I64:
    """The entry of a word, or the empty one where it belongs, from one entry on.

    Args:
        first, behind: addresses of the first entry, and behind the last one.
        text, place: its address, and where the word stands in it.
    """
    while True:
        found = load_u64(entry + HIGH)
        if found == high and load_u64(entry + LOW) == low:
            if high < LONG:
                return entry
            other = text + np.int64(load_u64(entry + PLACE))
            if same_bytes(other, text + place, key_length(high)):
                return entry
        elif found == ZERO:
            return entry
        entry += ENTRY
        if entry == behind:
            entry = first


@entry_kernel
def count_apart(
    text: U8s,
    starts: U64s,
    dropped: U64s,
    spans: I64Rows,
    texts: I64Rows,
    table: U64s,
    ahead: U64s,
    hash_key: U64s,
    rows: I64Rows,
    ends: I64s,
) -> None:
    """Count the pre-tokens of each text, whose words become rows in the order of first sight.

    Args:
        text, starts, dropped, spans: as for `count_marked`.
        texts: int64 ``[n, 3]``: which spans each text has, half-open, and how many entries: a power
            of two, more than it can have distinct words.
        table: uint64 ``[4 · m]``, m at least the most entries of a text; no entry is in use, and
            none afterwards.
        ahead: uint64 ``[QUEUE_BYTES / 8]``, zeros at first: see `word_queue`.
        hash_key: `HASH_KEY`.
        rows: int64 ``[m, 3]``, one more than there are pre-tokens: receives of each word where it
            stands first, its length, and how often it occurs.
        ends: int64 ``[n]``: receives how many rows there are up to the end of each text.
    """
    address, first = np.int64(text.ctypes.data), np.int64(table.ctypes.data)
    queue, key = np.int64(ahead.ctypes.data), key_in(hash_key)
    drops, any_length = dropped.size > 0, np.int64(_ANY_LENGTH)
    row = np.int64(0)
    for number in range(len(texts)):
        first_span, behind_span = texts[number, 0], texts[number, 1]
        bytes_ = texts[number, 2] * ENTRY
        slots, behind = np.uint64(bytes_ - ENTRY), first + bytes_
        sought = Sought(queue, first, slots, first, slots, key, any_length, any_length)
        first_row = row
        for span in range(first_span, behind_span):
            begin, end = spans[span, 0], spans[span, 1]
            while begin < end:
                words, begin = queue_words(address, starts, begin, end, sought)
                for word in range(queue, queue + 8 * words, 8):
                    place = np.int64(load_u64(word + WORDS)) - address
                    if drops and is_marked(dropped, place):
                        continue
                    low, high = load_u64(word + LOWS), load_u64(word + HIGHS)
                    entry = np.int64(load_u64(word + ENTRIES))
                    entry = seek_near(entry, first, behind, low, high, address, place)
                    if load_u64(entry + HIGH) != ZERO:
                        add_to(entry, ONE)
                        continue
                    put_entry(entry, low, high, ONE, np.uint64(place))
                    rows[row, 0] = entry
                    row += 1
        for done in range(first_row, row):
            entry = rows[done, 0]
            rows[done, 0] = np.int64(load_u64(entry + PLACE))
            rows[done, 1] = key_length(load_u64(entry + HIGH))
            rows[done, 2] = np.int64(load_u64(entry + VALUE))
            store_u64(entry + HIGH, ZERO)
        ends[number] = row


@entry_kernel
def copy_words(text: U8s, rows: I64Rows, offsets: I64s, word_bytes: U8s) -> None:
    """Copy the words of rows one after the other.

    Args:
        text, rows: as `count_apart` had and left them.
        offsets: int64 ``[n + 1]``: where each word begins, and the last one ends.
        word_bytes: uint8, with eight more bytes than the words have.
    """
    source, target = np.int64(text.ctypes.data), np.int64(word_bytes.ctypes.data)
    for row in range(len(offsets) - 1):
        copy_eights(source + rows[row, 0], target + offsets[row], rows[row, 1])
