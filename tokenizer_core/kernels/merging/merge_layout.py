"""The initial layout of words as symbols, and the first count of pairs.

All words are in one array of cells: a separator, the first word, a separator, the second word, …
and a last separator. A symbol is the id of a base token: of a byte or a character.
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

AHEAD = 16  # words between prefetching one and writing it
SUM, OCCURRING = 0, 1  # columns of `count_dense_pairs`
OF_INSIDE, OF_SEPARATOR = 2, 3  # kinds of `close_up`; bit 1: no boundary tag, bit 0: `within` flips


@kernel
def symbol_at(cells: U16s, high: I8s, position: Int) -> I64:
    """The symbol at a position: an id, or a negative number.

    Indices are unsigned in all hot loops: Numba checks signed ones for negative values.
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
    """The run of a position; ``run`` is where the search starts, at or before it."""
    while weights.starts[np.uint64(run + 1)] <= position:
        run += 1
    return run


@kernel
def run_of(weights: Weights, position: Int) -> I64:
    page = np.uint64(position) >> np.uint64(PAGE_BITS)
    return run_at(weights, np.int64(weights.pages[page]), position)


@kernel
def weight_at(weights: Weights, position: Int) -> I64:
    return weights.counts[np.uint64(run_of(weights, position))]


@entry_kernel
def fill_initial_state(
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
    """Write the chosen words, in this order, into ``cells``.

    Args:
        content, wide, offsets: all words; word i is ``content[offsets[i]:offsets[i + 1]]``, where
            each value is a byte, or four bytes if wide.
        chosen: indices of words.
        ids: the symbol of each value in ``content``.
        cells, high: see `MergeState`; 1 + Σ(length + 1) of them are written.
        begin: position of the first separator.
        text: [≥ cells · width, or 0] receives the symbols as big-endian numbers of ``width`` bytes,
            if tokens will be compared.
    """
    position = begin + 1
    values = np.int64(content.ctypes.data)
    put_symbol(cells, high, begin, np.int64(SEPARATOR))
    for index in range(chosen.size):
        if index + AHEAD < chosen.size:  # words are in random places
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
    """The row of a symbol in dense tables: 0 for a separator, else id + 1."""
    return np.uint16(cells[np.uint64(position)] + 1)


@entry_kernel
def count_dense_pairs(cells: U16s, weights: Weights, begin: I64, end: I64, sums: I64Planes) -> None:
    """Count each pair of tokens, of which there are fewer than `NARROW`.

    No branch depends on a symbol: pairs with separators are counted too and not used. ``sums`` is
    [tokens + 1, tokens + 1, 2]: `SUM` and `OCCURRING` by `dense_row` of left and right.
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

    No branch depends on a symbol: unwanted positions are written too, all to one place. ``places``
    [tokens + 1, tokens + 1] are the next places in the arena by `dense_row` of left and right;
    ``unwanted`` is outside all segments.
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
    """Add the counts of pairs to ``sums`` (int64 ``[2^b]``) by hash.

    Pairs may share a sum, so it is an upper bound of the count.
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

    Skips pairs whose sum, see `add_up_pairs`, is below ``least``. Returns the cell to continue
    from, which is ``end`` unless the table is full, and the number of rows in use.
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
    """Like `collect_dense_pairs`, with ``next_place`` by row of a table of pairs."""
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
    """The row of a symbol in a table: `INSIDE`, `SEPARATOR`, then tokens by id."""
    low = cells[position]
    if high.size > 0:
        return np.uint64((np.int64(high[position]) << CELL_BITS) + np.int64(low) - INSIDE)
    return np.uint64(np.uint16(low - INSIDE))


@entry_kernel
def close_up(cells: U16s, high: I8s, weights: Weights, kinds: U8s) -> tuple[I64, I64]:
    """Shrink tokens to one cell each, and drop words of one token: they have no pairs.

    All cells are read, not only the first of each token: a loop that jumps would have to wait for
    each token before it finds the next.

    Returns the end of the cells in use and the number of runs; ``weights.pages`` become invalid.

    Args:
        kinds: uint8 [tokens + 2] by `kind_row`: 1 for tokens of more than one cell, 0 for other
            tokens, `OF_INSIDE`, `OF_SEPARATOR`.
    """
    starts, counts = weights.starts, weights.counts
    first = np.int64(1)  # first cell of the word
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
