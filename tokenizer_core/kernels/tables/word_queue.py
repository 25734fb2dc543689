"""The next words of a text, each with its key and where a search for it begins; knows no values.

While the entries of these words are loaded from memory, the next ones are found and hashed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u64,
    ones_in,
    prefetch_non_temporal,
    store_u64,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.simd import HAS_SIMD
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ONE, ZERO, HashKey
from bpeline.tokenizer_core.kernels.tables.simd_words import (
    LANES,
    PLACES,
    find_words,
    queue_eight,
    queue_hash,
)
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    INLINE,
    long_word_key,
    short_word_key,
)

BATCH = 128  # queued words that are enough; those in the same 64 bytes of text come along
MOST_QUEUED = BATCH + 64
# Columns of the queue: addresses of words, low and high of their keys, addresses of the entries
# they are sought in first. A word that is too long to be kept has its length for low, a high that
# no key has, and an entry that is never filled. Eight rows at a time may be written.
COLUMN = 8 * (MOST_QUEUED + LANES)
WORDS, LOWS, HIGHS, ENTRIES = 0, COLUMN, 2 * COLUMN, 3 * COLUMN
_NEVER_FILLED = 4 * COLUMN
_PLACES = _NEVER_FILLED + 2 * ENTRY
QUEUE_BYTES = _PLACES + PLACES
LONG_HASH = np.uint64(29)


class Sought(NamedTuple):
    """Where words are sought.

    Attributes:
        queue: address of `QUEUE_BYTES`, zeros at first.
        table, slots: address of a table; those bits of `queue_hash` that say behind how many bytes
            of it a search begins.
        long, long_slots: the same of words that are not their own key, and of bits of their low
            from `LONG_HASH` on.
        key: of the hashes.
        kept: bytes of the longest word that the table holds; 0: none.
        longest: bytes of the longest word that may be queued.
    """

    queue: I64
    table: I64
    slots: U64
    long: I64
    long_slots: U64
    key: HashKey
    kept: I64
    longest: I64


@kernel
def starts_in(marks: U64s, block: I64, end: I64) -> U64:
    """Bits of a block of marks, up to ``end``, which is one more start."""
    bits = marks[block]
    if block == end >> 6:
        stop = ONE << np.uint64(end & 63)
        bits = (bits & (stop - ONE)) | stop
    return bits


@kernel
def next_start(marks: U64s, after: I64, end: I64) -> I64:
    """First marked position in (after, end), or ``end``."""
    block = (after + 1) >> 6
    bits = starts_in(marks, block, end) & (ALL << np.uint64((after + 1) & 63))
    while bits == ZERO:
        block += 1
        bits = starts_in(marks, block, end)
    return (block << 6) + trailing_zeros(bits)


@kernel
def queue_word(row: I64, low: U64, high: U64, entry: I64) -> None:
    """Write a row, but for the address of the word."""
    store_u64(row + LOWS, low)
    store_u64(row + HIGHS, high)
    store_u64(row + ENTRIES, np.uint64(entry))


@kernel
def queue_long(row: I64, word: I64, length: I64, sought: Sought) -> bool:
    """The same for a word that is not its own key, or not held; False: it is too long."""
    if length <= sought.kept:
        low, high = long_word_key(word, length, sought.key)
        entry = sought.long + np.int64((low >> LONG_HASH) & sought.long_slots)
        prefetch_non_temporal(entry)
        queue_word(row, low, high, entry)
    elif length <= sought.longest:
        queue_word(row, np.uint64(length), ALL, sought.queue + _NEVER_FILLED)
    else:
        return False
    return True


@kernel
def queue_one_by_one(
    base: I64, marks: U64s, start: I64, end: I64, sought: Sought
) -> tuple[I64, I64]:
    """`queue_words`, for all processors."""
    first = row = sought.queue
    enough = first + 8 * BATCH
    inline = min(np.int64(INLINE), sought.kept)
    word = base + start
    block, last = start >> 6, end >> 6
    bits = starts_in(marks, block, end) & ((ALL - ONE) << np.uint64(start & 63))
    while True:
        place = base + (block << 6)
        while bits != ZERO:
            stop = place + trailing_zeros(bits)
            bits &= bits - ONE
            length = stop - word
            if length <= inline:
                low, high = short_word_key(word, length)
                entry = sought.table + np.int64(queue_hash(low, high, sought.key) & sought.slots)
                prefetch_non_temporal(entry)
                queue_word(row, low, high, entry)
            elif not queue_long(row, word, length, sought):
                return (row - first) >> 3, word - base
            store_u64(row + WORDS, np.uint64(word))
            row += 8
            word = stop
        block += 1
        if row >= enough or block > last:
            return (row - first) >> 3, word - base
        bits = starts_in(marks, block, end)


@kernel
def queue_by_simd(base: I64, marks: U64s, start: I64, end: I64, sought: Sought) -> tuple[I64, I64]:
    """`queue_words`, by `simd_words`."""
    queue, table, slots, key = sought.queue, sought.table, sought.slots, sought.key
    column, places = np.int64(COLUMN), queue + _PLACES
    block, last = start >> 6, end >> 6
    begin = ONE << np.uint64(start & 63)
    bits = (starts_in(marks, block, end) | begin) & (ZERO - begin)
    row = queue
    while True:
        ahead, following, stop = block, ZERO, end
        if block == last:
            bits &= (ONE << np.uint64(end & 63)) - ONE
        else:
            while following == ZERO:
                ahead += 1
                following = starts_in(marks, ahead, end)
            stop = (ahead << 6) + trailing_zeros(following)
        number, place = ones_in(bits), base + (block << 6)
        long = find_words(bits, stop - (block << 6), places)
        # Sixteen at once: a loop that ends after one or two rounds is guessed wrongly too often.
        queue_eight(place, places, row, column, table, slots, key)
        queue_eight(place, places + LANES, row + 8 * LANES, column, table, slots, key)
        for at in range(0, 16 * LANES, 8):
            prefetch_non_temporal(np.int64(load_u64(row + ENTRIES + at)))
        for done in range(2 * LANES, number, LANES):
            more = row + 8 * done
            queue_eight(place, places + done, more, column, table, slots, key)
            for at in range(0, 8 * LANES, 8):
                prefetch_non_temporal(np.int64(load_u64(more + ENTRIES + at)))
        behind = row + 8 * number
        store_u64(behind + WORDS, np.uint64(base + stop))
        if sought.kept == 0:
            long = ALL
        long &= ALL >> np.uint64(64 - number)
        while long != ZERO:
            at = row + 8 * trailing_zeros(long)
            long &= long - ONE
            word, next_word = load_u64(at + WORDS), load_u64(at + WORDS + 8)
            if not queue_long(at, np.int64(word), np.int64(next_word - word), sought):
                return (at - queue) >> 3, np.int64(word) - base
        row = behind
        if row >= queue + 8 * BATCH or stop == end:
            return (row - queue) >> 3, stop
        block, bits = ahead, following


# ``queue_words(base, marks, start, end, sought)``: put the next words of a span into the queue.
# Returns how many, at most `MOST_QUEUED`, and where the next one starts: before the end of the span
# there are none only where the next word is too long.
queue_words = queue_by_simd if HAS_SIMD else queue_one_by_one
