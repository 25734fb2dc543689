"""Laying out words as symbols and finding the first pairs.

All words lie in one array of cells: a separator, the first word, a separator, the second word, …
and a last separator. A symbol is the id of a base token: of a byte, or of a character.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u32, prefetch
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    I8s,
    I32s,
    I64Planes,
    I64Rows,
    I64s,
    Int,
    U8s,
    U16s,
    U32Rows,
)
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    CELL_BITS,
    INSIDE,
    NARROW,
    PAGE_BITS,
    SEPARATOR,
    Weights,
)
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, HashKey, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    pair_key,
    slot_of,
)

AHEAD = 16  # words between asking for one and laying it out
SUM, OCCURRING = 0, 1  # of `count_dense_pairs`
OF_INSIDE, OF_SEPARATOR = 2, 3  # of `close_up`; their bits: no tag of a token, changes sides


@kernel
def symbol_at(cells: U16s, high: I8s, position: Int) -> I64:
    """The symbol at a position: an id, or a negative number.

    Indices are unsigned, here and wherever an occurrence is looked at: of a signed one is asked
    first whether it is negative.
    """
    place = np.uint64(position)
    low = np.int64(cells[place])
    if high.size > 0:
        return (np.int64(high[place]) << CELL_BITS) | low
    return low - (np.int64(low >= NARROW) << CELL_BITS)


@kernel
def put_symbol(cells: U16s, high: I8s, position: Int, symbol: Int) -> None:
    place = np.uint64(position)
    cells[place] = np.uint16(symbol & 0xFFFF)
    if high.size > 0:
        high[place] = np.int8(symbol >> CELL_BITS)


@kernel
def run_at(weights: Weights, run: I64, position: Int) -> I64:
    """The run that a position lies in, of a run that is not behind it."""
    while weights.starts[np.uint64(run + 1)] <= position:
        run += 1
    return run


@kernel
def run_of(weights: Weights, position: Int) -> I64:
    """The run that a position lies in."""
    page = np.uint64(position) >> np.uint64(PAGE_BITS)
    return run_at(weights, np.int64(weights.pages[page]), position)


@kernel
def weight_at(weights: Weights, position: Int) -> I64:
    """How often the word at a position occurs."""
    return weights.counts[np.uint64(run_of(weights, position))]


@entry_kernel
def lay_out_words(
    content: U8s,
    wide: bool,
    offsets: I64s,
    chosen: I64s,
    ids: I32s,
    cells: U16s,
    high: I8s,
    begin: I64,
    text: U8s,
    width: I64,
) -> None:
    """Write the chosen words, in the order given, into ``cells`` from a separator on.

    Args:
        content, wide, offsets: all words; word i is ``content[offsets[i]:offsets[i + 1]]``, where
            each value is a byte, or, if wide, four bytes.
        chosen: indices of words.
        ids: the symbol of each value in ``content``.
        cells, high: see `MergeState`; 1 + Σ(length + 1) of them are written.
        begin: where the first separator goes.
        text: [cells · width, or more, or 0] the symbols as big-endian numbers of ``width`` bytes,
            where tokens will be compared.
    """
    position = begin + 1
    values = np.int64(content.ctypes.data)
    put_symbol(cells, high, begin, np.int64(SEPARATOR))
    for index in range(chosen.size):
        if index + AHEAD < chosen.size:  # words lie anywhere
            prefetch(values + (offsets[np.uint64(chosen[np.uint64(index + AHEAD)])] << (2 * wide)))
        word = chosen[np.uint64(index)]
        for source in range(offsets[np.uint64(word)], offsets[np.uint64(word + 1)]):
            place = np.uint64(source)
            value = np.uint64(load_u32(values + 4 * source)) if wide else np.uint64(content[place])
            symbol = np.int64(ids[value])
            put_symbol(cells, high, position, symbol)
            if text.size > 0:
                for byte in range(width):
                    text[position * width + byte] = (symbol >> (8 * (width - 1 - byte))) & 0xFF
            position += 1
        put_symbol(cells, high, position, np.int64(SEPARATOR))
        position += 1


@kernel
def dense_row(cells: U16s, position: Int) -> np.uint16:
    """Where a symbol stands in a table of all of them: a separator first, then tokens by id.

    Unsigned, so no index is looked at for being negative.
    """
    return np.uint16(cells[np.uint64(position)] + 1)


@entry_kernel
def count_dense_pairs(cells: U16s, weights: Weights, begin: I64, end: I64, sums: I64Planes) -> None:
    """Add up, for each pair of tokens, its count and its occurrences, which have one cell each.

    No branch depends on a symbol: separators are counted too, for nobody.

    Args:
        cells: see `MergeState`; there are less than `NARROW` tokens.
        begin, end: the cells in which pairs are looked for.
        sums: [tokens + 1, tokens + 1, 2] `SUM` and `OCCURRING` by `dense_row` of left and right.
    """
    left = dense_row(cells, begin)
    position = begin + 1
    run = np.int64(weights.pages[begin >> PAGE_BITS])
    while position < end:
        run = run_at(weights, run, position)
        count = weights.counts[run]
        stop = min(end, np.int64(weights.starts[run + 1]))
        for place in range(position, stop):
            right = dense_row(cells, place)
            sums[left, right, SUM] += count
            sums[left, right, OCCURRING] += 1
            left = right
        position = stop


@entry_kernel
def collect_dense_pairs(
    cells: U16s, begin: I64, end: I64, places: U32Rows, unwanted: I64, arena: I32s
) -> None:
    """Write the positions of each pair into its segment of the arena.

    As in `count_dense_pairs`, no branch depends on a symbol: what is not wanted is written too,
    to one place.

    Args:
        places: [tokens + 1, tokens + 1] by `dense_row` of left and right where the pair's next
            position goes, or ``unwanted``.
        unwanted: a place of the arena that belongs to no segment.
    """
    left = dense_row(cells, begin)
    for position in range(begin + 1, end):
        right = dense_row(cells, position)
        place = places[left, right]
        arena[np.uint64(place)] = position - 1
        places[left, right] = place + np.uint32(place != unwanted)
        left = right


@entry_kernel
def add_up_pairs(
    cells: U16s,
    high: I8s,
    weights: Weights,
    begin: I64,
    end: I64,
    sums: I64s,
    hash_key: HashKey,
) -> None:
    """Add the count of each occurrence of a pair to the sum that the pair's hash numbers.

    No pair occurs more often than its sum, which it may share with others.

    Args:
        begin, end: the cells in which pairs are looked for.
        sums: int64 ``[2^b]``, zeros.
    """
    shift = shift_for(sums.size)
    left = symbol_at(cells, high, begin)
    run = np.int64(weights.pages[begin >> PAGE_BITS])
    for position in range(begin + 1, end):
        right = symbol_at(cells, high, position)
        if left >= 0 and right >= 0:
            run = run_at(weights, run, position)
            number = mix(pair_key(left, right), ZERO, hash_key) >> shift
            sums[number] += weights.counts[run]
        left = right


@entry_kernel
def count_sparse_pairs(
    cells: U16s,
    high: I8s,
    weights: Weights,
    begin: I64,
    end: I64,
    sums: I64s,
    least: I64,
    size: I64,
    pairs: I64Rows,
    slots: I32s,
    hash_key: HashKey,
) -> tuple[I64, I64]:
    """Add up count and `LENGTH` of each pair in a table of rows.

    Args:
        begin, end: the cells in which pairs are looked for.
        sums: of `add_up_pairs`; pairs whose sum is below ``least`` are passed over.
        size: rows in use.

    Returns:
        The cell to go on from, which is ``end`` unless the table is full, and the rows in use.
    """
    shift = shift_for(sums.size)
    run = np.int64(weights.pages[begin >> PAGE_BITS])
    for position in range(begin + 1, end):
        left = symbol_at(cells, high, position - 1)
        right = symbol_at(cells, high, position)
        if left < 0 or right < 0:
            continue
        key = pair_key(left, right)
        if sums[mix(key, ZERO, hash_key) >> shift] < least:
            continue
        slot = slot_of(pairs, slots, hash_key, key)
        row = np.int64(slots[slot])
        if row == EMPTY:
            if size == pairs.shape[0]:
                return position - 1, size
            row = np.int64(size)
            pairs[row, KEY] = key
            pairs[row, COUNT] = 0
            pairs[row, LENGTH] = 0
            slots[slot] = row
            size += 1
        run = run_at(weights, run, position)
        pairs[row, COUNT] += weights.counts[run]
        pairs[row, LENGTH] += 1
    return end, size


@entry_kernel
def collect_sparse_pairs(
    cells: U16s,
    high: I8s,
    begin: I64,
    end: I64,
    pairs: I64Rows,
    slots: I32s,
    hash_key: HashKey,
    next_place: I64s,
    arena: I32s,
) -> None:
    """As `collect_dense_pairs`, with ``next_place`` by row of a table of pairs."""
    for position in range(begin + 1, end):
        left = symbol_at(cells, high, position - 1)
        right = symbol_at(cells, high, position)
        if left < 0 or right < 0:
            continue
        row = slots[slot_of(pairs, slots, hash_key, pair_key(left, right))]
        if row != EMPTY:
            arena[next_place[row]] = position - 1
            next_place[row] += 1


@kernel
def kind_row(cells: U16s, high: I8s, position: Int) -> np.uint64:
    """Where the kind of a symbol stands in a table: inside of tokens, separators, tokens by id."""
    low = cells[position]
    if high.size > 0:
        return np.uint64((np.int64(high[position]) << CELL_BITS) + np.int64(low) - INSIDE)
    return np.uint64(np.uint16(low - INSIDE))


@entry_kernel
def close_up(cells: U16s, high: I8s, weights: Weights, kinds: U8s) -> tuple[I64, I64]:
    """Leave one cell of each token, and no word of one token: nothing can be merged in it.

    All cells are looked at, not only the first of each token: which is next would be known one
    step after the other.

    Args:
        weights: of these cells; ``pages`` are wrong afterwards, and are not looked at.
        kinds: uint8 [tokens + 2] what each symbol is, by `kind_row`: 1 for tokens of more than one
            cell, 0 for others, `OF_INSIDE`, `OF_SEPARATOR`. All tokens have one cell afterwards.

    Returns:
        The cell after those in use; and how many runs are.
    """
    starts, counts = weights.starts, weights.counts
    first = np.int64(1)  # of the word
    write = first
    run, runs = np.int64(0), np.int64(0)
    within = np.int64(0)  # 1 until the last cell of a token that has more than one
    for read in range(1, cells.size):
        source, target = np.uint64(read), np.uint64(write)
        cells[target] = cells[source]
        if high.size > 0:
            high[target] = high[source]
        kind = np.int64(kinds[kind_row(cells, high, source)])
        if kind != OF_SEPARATOR:
            is_tag = (kind >> 1) ^ 1
            write += is_tag & (within ^ 1)
            within ^= kind & 1
            continue
        if write - first > 1:
            while starts[np.uint64(run + 1)] <= read:  # a word's separator belongs to its run
                run += 1
            count = counts[np.uint64(run)]
            if runs == 0 or counts[np.uint64(runs - 1)] != count:
                starts[np.uint64(runs)] = first
                counts[np.uint64(runs)] = count
                runs += 1
            first = write + 1
        write = first
    return write, runs
