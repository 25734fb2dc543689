"""A queue of words to look up, whose table entries are prefetched."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import addresses as memory
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ONE, ZERO, HashKey, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    ENTRY,
    INLINE,
    long_word_key,
    short_word_key,
)

LANES = 8  # words
PLACES = 2 * memory.BLOCK  # bytes: the offset of each word in a block, then the length of each

_LONGEST_TOLD = 255  # bytes; the last word of a block may be longer
_KEY = 16  # bytes of a key: low and high
_ROUNDS = 2  # of AES: after two rounds each bit depends on all bits of a key
_EVENS = [0, 8, 2, 10, 4, 12, 6, 14]  # of two vectors of keys: the low halves, alternating

_I8, _I32, _I64 = map(ir.IntType, (8, 32, 64))
_BYTES = ir.VectorType(_I8, memory.BLOCK)
_BITS = ir.VectorType(ir.IntType(1), memory.BLOCK)
_NUMBERS = ir.VectorType(_I64, LANES)
_PAIR = ir.VectorType(_I64, 2)
_EIGHT_BYTES = ir.VectorType(_I8, LANES)


def _shuffled(builder: Any, vectors: list[Any], places: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(places)), places)
    return builder.shuffle_vector(vectors[0], vectors[-1], mask)


def _in_turn(builder: Any, vector: ir.VectorType, *values: Any) -> Any:
    whole = ir.Constant(vector, ir.Undefined)
    for place, value in enumerate(values):
        whole = builder.insert_element(whole, value, ir.Constant(_I32, place))
    repeated = [place % len(values) for place in range(vector.count)]
    return _shuffled(builder, [whole], repeated)


def _hashed(builder: Any, keys: Any, hash_key: Any) -> Any:
    """Hash each key in a vector; the hash is the lower half of the result."""
    name = {2: "llvm.x86.aesni.aesenc", LANES: "llvm.x86.aesni.aesenc.512"}[keys.type.count]
    keys = builder.xor(keys, hash_key)
    for _ in range(_ROUNDS):
        keys = memory.by_name(builder, name, keys.type, keys, hash_key)
    return keys


@intrinsic
def _mix_by_aes(_context: Any, low: Any, high: Any, hash_key: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = (builder.extract_value(arguments[2], place) for place in range(2))
        key = _in_turn(builder, _PAIR, *arguments[:2])
        hashed = _hashed(builder, key, _in_turn(builder, _PAIR, *parts))
        return builder.extract_element(hashed, ir.Constant(_I32, 0))

    return types.uint64(types.uint64, types.uint64, hash_key), generate


# ``queue_hash(low, high, key)``: the hash that `queue_eight` computes, of one key. Without these
# SIMD instructions it is `mix`.
queue_hash = _mix_by_aes if memory.HAS_SIMD else mix


@intrinsic
def find_words(_context: Any, starts: Any, stop: Any, places: Any) -> Any:
    """``find_words(starts, stop, places)``: find words that begin in 64 bytes of text.

    Returns a uint64 mask of the words longer than `INLINE`; bits after the last word are undefined.

    Args:
        starts: uint64 mask of the first bytes of words, at least one.
        stop: int64, end of the last word, relative to the block.
        places: int64, address of `PLACES` bytes that receive the offsets and lengths of words. The
            length of the last word is clipped to 255.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        starts, stop, places = arguments
        counted = ir.Constant(_BYTES, list(range(memory.BLOCK)))

        def places_of(bits: Any, behind: Any) -> Any:
            name = "llvm.x86.avx512.mask.compress.v64i8"
            return memory.by_name(
                builder, name, _BYTES, counted, behind, builder.bitcast(bits, _BITS)
            )

        most = ir.Constant(_I64, _LONGEST_TOLD)
        clipped = builder.select(builder.icmp_unsigned("<", stop, most), stop, most)
        ends = _in_turn(builder, _BYTES, builder.trunc(clipped, _I8))
        others = builder.and_(starts, builder.sub(starts, ir.Constant(_I64, 1)))
        begins = places_of(starts, memory.filled(0))
        lengths = builder.sub(places_of(others, ends), begins)
        for vector in (begins, lengths):
            builder.store(vector, memory.pointer(builder, places, _BYTES), align=1)
            places = builder.add(places, ir.Constant(_I64, memory.BLOCK))
        return builder.bitcast(builder.icmp_unsigned(">", lengths, memory.filled(INLINE)), _I64)

    return types.uint64(types.uint64, types.int64, types.int64), generate


@intrinsic
def queue_eight(
    _context: Any,
    block: Any,
    places: Any,
    columns: Any,
    column: Any,
    table: Any,
    slots: Any,
    hash_key: Any,
) -> Any:
    """Queue eight words, by SIMD.

    Rows of words above `INLINE` bytes and unused rows receive meaningless keys. Their entry is
    the first of the table, so that no other cache line is loaded for nothing.

    Args:
        block: int64, address of 64 bytes of text, and 64 more.
        places: int64, address of the first word's offset, from `find_words`.
        columns: int64, address of the first of four columns of numbers, which receive eight each:
            addresses of words, low and high of their keys, addresses of entries.
        column: int64, bytes from one column to the next.
        table, slots, hash_key: see `Sought`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block, places, columns, column, table, slots, hash_key = arguments
        next_block = builder.add(block, ir.Constant(_I64, memory.BLOCK))
        text = memory.load_block(builder, block), memory.load_block(builder, next_block)
        lengths_at = builder.add(places, ir.Constant(_I64, memory.BLOCK))
        begins, lengths = (
            builder.load(memory.pointer(builder, at, _EIGHT_BYTES), align=1, typ=_EIGHT_BYTES)
            for at in (places, lengths_at)
        )
        within = ir.Constant(_BYTES, [place % _KEY for place in range(memory.BLOCK)])
        top = ir.Constant(_BYTES, [255 * (place % _KEY == INLINE) for place in range(memory.BLOCK)])
        key = _in_turn(
            builder, _NUMBERS, *(builder.extract_value(hash_key, place) for place in range(2))
        )
        keys, hashes = [], []
        for first in range(2):  # even words, then odd words
            words = [2 * (place // _KEY) + first for place in range(memory.BLOCK)]
            of_key = _shuffled(builder, [lengths], words)
            at = builder.add(_shuffled(builder, [begins], words), within)
            content = memory.looked_up(builder, at, *text)
            inside = builder.icmp_unsigned("<", within, of_key)
            content = builder.select(inside, content, memory.filled(0))
            content = builder.or_(content, builder.and_(of_key, top))
            keys.append(builder.bitcast(content, _NUMBERS))
            hashes.append(_hashed(builder, keys[-1], key))
        offsets = builder.and_(
            _shuffled(builder, hashes, _EVENS), _in_turn(builder, _NUMBERS, slots)
        )
        short = builder.icmp_unsigned("<=", lengths, ir.Constant(_EIGHT_BYTES, [INLINE] * LANES))
        offsets = builder.select(short, offsets, ir.Constant(_NUMBERS, [0] * LANES))
        for vector in (
            builder.add(builder.zext(begins, _NUMBERS), _in_turn(builder, _NUMBERS, block)),
            _shuffled(builder, keys, _EVENS),
            _shuffled(builder, keys, [place + 1 for place in _EVENS]),
            builder.add(offsets, _in_turn(builder, _NUMBERS, table)),
        ):
            builder.store(vector, memory.pointer(builder, columns, _NUMBERS), align=1)
            columns = builder.add(columns, column)
        return memory.NO_RESULT

    columns = [types.int64] * 5
    return types.void(*columns, types.uint64, hash_key), generate


BATCH = 128  # enough queued words; the rest of the same 64 bytes of text is queued as well
MOST_QUEUED = BATCH + 64
# Columns of the queue: addresses of words, low and high of their keys, addresses of the first
# entries to compare. A word too long for the table has its length for low, a high that no key has,
# and an entry that is never filled. Up to eight rows are written at a time, hence the extra ones.
COLUMN = 8 * (MOST_QUEUED + LANES)
WORDS, LOWS, HIGHS, ENTRIES = 0, COLUMN, 2 * COLUMN, 3 * COLUMN
_NEVER_FILLED = 4 * COLUMN
_PLACES = _NEVER_FILLED + 2 * ENTRY
QUEUE_BYTES = _PLACES + PLACES
LONG_HASH = np.uint64(29)


class Sought(NamedTuple):
    """The queue and the tables in which its words are looked up.

    Attributes:
        queue: address of `QUEUE_BYTES`, initially zero.
        table: address of the table of short words.
        slots: mask of the bits of `queue_hash` that are the byte offset of the first entry.
        long: address of the table of words that are not their own key.
        long_slots: like ``slots``, of the low part of the key shifted by `LONG_HASH`.
        kept: length in bytes of the longest word that the tables hold; 0: they hold none.
        longest: length in bytes of the longest word that may be queued.
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
    """Word starts in a block of marks, up to and including ``end``."""
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
    return (block << 6) + memory.trailing_zeros(bits)


@kernel
def queue_word(row: I64, low: U64, high: U64, entry: I64) -> None:
    """Write a row of the queue except for the address of the word."""
    memory.store_u64(row + LOWS, low)
    memory.store_u64(row + HIGHS, high)
    memory.store_u64(row + ENTRIES, np.uint64(entry))


@kernel
def queue_long(row: I64, word: I64, length: I64, sought: Sought) -> bool:
    """Queue a word that is not its own key or not cached; returns False if too long."""
    if length <= sought.kept:
        low, high = long_word_key(word, length, sought.key)
        entry = sought.long + np.int64((low >> LONG_HASH) & sought.long_slots)
        memory.prefetch_non_temporal(entry)
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
    first = row = sought.queue
    enough = first + 8 * BATCH
    inline = min(np.int64(INLINE), sought.kept)
    word = base + start
    block, last = start >> 6, end >> 6
    bits = starts_in(marks, block, end) & ((ALL - ONE) << np.uint64(start & 63))
    while True:
        place = base + (block << 6)
        while bits != ZERO:
            stop = place + memory.trailing_zeros(bits)
            bits &= bits - ONE
            length = stop - word
            if length <= inline:
                low, high = short_word_key(word, length)
                entry = sought.table + np.int64(queue_hash(low, high, sought.key) & sought.slots)
                memory.prefetch_non_temporal(entry)
                queue_word(row, low, high, entry)
            elif not queue_long(row, word, length, sought):
                return (row - first) >> 3, word - base
            memory.store_u64(row + WORDS, np.uint64(word))
            row += 8
            word = stop
        block += 1
        if row >= enough or block > last:
            return (row - first) >> 3, word - base
        bits = starts_in(marks, block, end)


@kernel
def queue_by_simd(base: I64, marks: U64s, start: I64, end: I64, sought: Sought) -> tuple[I64, I64]:
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
            stop = (ahead << 6) + memory.trailing_zeros(following)
        number, place = memory.ones_in(bits), base + (block << 6)
        long = find_words(bits, stop - (block << 6), places)
        # Sixteen at once: the end of a shorter loop would be mispredicted too often.
        queue_eight(place, places, row, column, table, slots, key)
        queue_eight(place, places + LANES, row + 8 * LANES, column, table, slots, key)
        for at in range(0, 16 * LANES, 8):
            memory.prefetch_non_temporal(np.int64(memory.load_u64(row + ENTRIES + at)))
        for done in range(2 * LANES, number, LANES):
            more = row + 8 * done
            queue_eight(place, places + done, more, column, table, slots, key)
            for at in range(0, 8 * LANES, 8):
                memory.prefetch_non_temporal(np.int64(memory.load_u64(more + ENTRIES + at)))
        row_end = row + 8 * number
        memory.store_u64(row_end + WORDS, np.uint64(base + stop))
        if sought.kept == 0:
            long = ALL
        long &= ALL >> np.uint64(64 - number)
        while long != ZERO:
            at = row + 8 * memory.trailing_zeros(long)
            long &= long - ONE
            word, next_word = memory.load_u64(at + WORDS), memory.load_u64(at + WORDS + 8)
            if not queue_long(at, np.int64(word), np.int64(next_word - word), sought):
                return (at - queue) >> 3, np.int64(word) - base
        row = row_end
        if row >= queue + 8 * BATCH or stop == end:
            return (row - queue) >> 3, stop
        block, bits = ahead, following


# ``queue_words(base, marks, start, end, sought)``: queue the next words of a span. Returns their
# number, at most `MOST_QUEUED`, and the start of the next word. No words before the end of the span
# mean that the next one is too long.
queue_words = queue_by_simd if memory.HAS_SIMD else queue_one_by_one
