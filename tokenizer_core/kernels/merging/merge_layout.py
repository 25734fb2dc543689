"""Laying out words as symbols and finding the first pairs; knows nothing of merging.

All words lie in one array of cells: a separator, the first word, a separator, the second word, …
and a last separator. A symbol is the id of a base token: of a byte, or of a character.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u32
from bpeline.tokenizer_core.kernels.memory.types import I64, I32s, I64Rows, I64s, Int, U8s
from bpeline.tokenizer_core.kernels.merging.merge_state import MANY, SEPARATOR, SYMBOL_SHIFT
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, HashKey, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    pair_key,
    slot_of,
)


@entry_kernel
def lay_out_words(
    content: U8s,
    wide: bool,
    offsets: I64s,
    chosen: I64s,
    ids: I32s,
    word_weights: I32s,
    cells: I32s,
    text: U8s,
    width: I64,
) -> None:
    """Write the chosen words, in the order given, into ``cells``.

    Args:
        content, wide, offsets: all words; word i is ``content[offsets[i]:offsets[i + 1]]``, where
            each value is a byte, or, if wide, four bytes.
        chosen: indices of words.
        ids: the symbol of each value in ``content``.
        word_weights: [chosen] how often each chosen word occurs, `MANY` at most.
        cells: [1 + Σ(length + 1)] ids, each with the weight of its word, or separators.
        text: [cells · width, or more, or 0] the symbols as big-endian numbers of ``width`` bytes,
            where tokens will be compared.
    """
    position = 1
    values = np.int64(content.ctypes.data)
    cells[0] = SEPARATOR << SYMBOL_SHIFT
    for index in range(chosen.size):
        word = chosen[index]
        weight = word_weights[index]
        for source in range(offsets[word], offsets[word + 1]):
            value = np.int64(load_u32(values + 4 * source)) if wide else np.int64(content[source])
            symbol = ids[value]
            cells[position] = (symbol << SYMBOL_SHIFT) | weight
            if text.size > 0:
                for byte in range(width):
                    text[position * width + byte] = (symbol >> (8 * (width - 1 - byte))) & 0xFF
            position += 1
        cells[position] = SEPARATOR << SYMBOL_SHIFT
        position += 1


@kernel
def symbol_of(cell: Int) -> I64:
    """The symbol of a cell: an id, or a negative number."""
    return np.int64(cell) >> SYMBOL_SHIFT


@kernel
def weight_of(cell: Int, position: Int, large_starts: I64s, large_counts: I64s) -> I64:
    """How often a word occurs, from the cell where one of its tokens begins, or its low bits."""
    weight = np.int64(cell) & MANY
    if weight < MANY:
        return weight
    first, behind = np.int64(0), np.int64(large_starts.size)
    while behind - first > 1:  # the last word that begins there or before
        middle = (first + behind) >> 1
        if large_starts[middle] <= position:
            first = middle
        else:
            behind = middle
    return large_counts[first]


@entry_kernel
def count_dense_pairs(
    cells: I32s, large_starts: I64s, large_counts: I64s, counts: I64Rows, occurrences: I64Rows
) -> None:
    """Add up, for each pair of tokens at ``[left, right]``, its count and occurrences.

    Each token has one cell. ``counts`` weighs each occurrence by the count of its word; both arrays
    are [tokens, tokens].
    """
    left = symbol_of(cells[0])
    for position in range(1, cells.size):
        right = symbol_of(cells[position])
        if left >= 0 and right >= 0:
            counts[left, right] += weight_of(cells[position], position, large_starts, large_counts)
            occurrences[left, right] += 1
        left = right


@entry_kernel
def collect_dense_pairs(cells: I32s, next_place: I64Rows, arena: I32s) -> None:
    """Write the positions of each pair, ascending, into its segment of the arena.

    ``next_place`` is [tokens, tokens]: where the pair's segment begins, or −1 for a pair that is
    not wanted; afterwards where it ends.
    """
    left = symbol_of(cells[0])
    for position in range(1, cells.size):
        right = symbol_of(cells[position])
        if left >= 0 and right >= 0:
            place = next_place[left, right]
            if place >= 0:
                arena[place] = position - 1
                next_place[left, right] = place + 1
        left = right


@entry_kernel
def add_up_pairs(
    cells: I32s, large_starts: I64s, large_counts: I64s, sums: I64s, hash_key: HashKey
) -> None:
    """Add the count of each occurrence of a pair to the sum that the pair's hash numbers.

    No pair occurs more often than its sum, which it may share with others.

    Args:
        sums: int64 ``[2^b]``, zeros.
    """
    shift = shift_for(sums.size)
    left = symbol_of(cells[0])
    for position in range(1, cells.size):
        right = symbol_of(cells[position])
        if left >= 0 and right >= 0:
            number = mix(pair_key(left, right), ZERO, hash_key) >> shift
            sums[number] += weight_of(cells[position], position, large_starts, large_counts)
        left = right


@entry_kernel
def count_sparse_pairs(
    cells: I32s,
    large_starts: I64s,
    large_counts: I64s,
    sums: I64s,
    least: I64,
    begin: I64,
    size: I64,
    pairs: I64Rows,
    slots: I32s,
    hash_key: HashKey,
) -> tuple[I64, I64]:
    """Add up count and `LENGTH` of each pair from position ``begin`` on, in a table of rows.

    Args:
        sums: of `add_up_pairs`; pairs whose sum is below ``least`` are passed over.
        size: rows in use.

    Returns:
        The position to go on from, which lies before the end of ``cells`` when the table is full,
        and the rows in use.
    """
    shift = shift_for(sums.size)
    for position in range(begin, cells.size):
        left, right = symbol_of(cells[position - 1]), symbol_of(cells[position])
        if left < 0 or right < 0:
            continue
        key = pair_key(left, right)
        if sums[mix(key, ZERO, hash_key) >> shift] < least:
            continue
        slot = slot_of(pairs, slots, hash_key, key)
        row = np.int64(slots[slot])
        if row == EMPTY:
            if size == pairs.shape[0]:
                return position, size
            row = np.int64(size)
            pairs[row, KEY] = key
            pairs[row, COUNT] = 0
            pairs[row, LENGTH] = 0
            slots[slot] = row
            size += 1
        pairs[row, COUNT] += weight_of(cells[position], position, large_starts, large_counts)
        pairs[row, LENGTH] += 1
    return cells.size, size


@entry_kernel
def collect_sparse_pairs(
    cells: I32s,
    pairs: I64Rows,
    slots: I32s,
    hash_key: HashKey,
    next_place: I64s,
    arena: I32s,
) -> None:
    """As `collect_dense_pairs`, with ``next_place`` by row of a table of pairs."""
    for position in range(1, cells.size):
        left, right = symbol_of(cells[position - 1]), symbol_of(cells[position])
        if left < 0 or right < 0:
            continue
        row = slots[slot_of(pairs, slots, hash_key, pair_key(left, right))]
        if row != EMPTY:
            arena[next_place[row]] = position - 1
            next_place[row] += 1


@entry_kernel
def close_up(cells: I32s, large_starts: I64s, large_counts: I64s, widths: I32s) -> tuple[I64, I64]:
    """Leave one cell of each token, and no word of one token: nothing can be merged in it.

    Args:
        widths: int32, cells of each token so far; all are 1 afterwards, which the caller writes.

    Returns:
        How many cells and how many large words are in use, all at the beginning of their arrays.
    """
    read, write, begin = np.int64(1), np.int64(1), np.int64(1)
    large_read, large_write = np.int64(0), np.int64(0)
    is_large = large_starts.size > 0 and large_starts[0] == read
    while read < cells.size:
        cell = cells[read]
        symbol = symbol_of(cell)
        if symbol >= 0:
            cells[write] = cell
            write += 1
            read += np.int64(widths[symbol])
            continue
        if write - begin > 1:
            if is_large:
                large_starts[large_write] = begin
                large_counts[large_write] = large_counts[large_read]
                large_write += 1
            cells[write] = cell
            write += 1
            begin = write
        write = begin
        read += 1
        large_read += np.int64(is_large)
        is_large = large_read < large_starts.size and large_starts[large_read] == read
    return write, large_write
