"""Adding up word counts that were made elsewhere: rows in, distinct rows out; never allocates."""

from __future__ import annotations

import numpy as np

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import load_u64, prefetch, store_u64
from tokenizer_core.kernels.word_keys import (
    HIGH,
    I64,
    LOW,
    PLACE,
    VALUE,
    find_entry,
    mix,
    table_shift,
    word_key,
)
from tokenizer_core.kernels.word_table import AHEAD, FIVE, copy_bytes

ZERO = np.uint64(0)


@kernel
def add_rows(
    word_bytes: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    first_positions: np.ndarray,
    table: np.ndarray,
    sum_bytes: np.ndarray,
    sum_offsets: np.ndarray,
    sum_counts: np.ndarray,
    sum_positions: np.ndarray,
    used: I64,
) -> I64:
    """Add rows to a growing set of distinct rows; the new number of distinct rows.

    Args:
        word_bytes: uint8 with 16 readable bytes behind the last word.
        offsets, counts, first_positions: int64 ``[n + 1]``, ``[n]``, ``[n]``: the rows to add.
        table: uint64 ``[4 · 2^b]`` with room for ``used + n`` words; an entry's value is the row.
        sum_bytes, sum_offsets, sum_counts, sum_positions: the distinct rows so far, with room
            for all new ones and 16 bytes more; ``sum_offsets[used]`` is the number of bytes used.
    """
    source, target = word_bytes.ctypes.data, sum_bytes.ctypes.data
    main, shift = table.ctypes.data, table_shift(table)
    for index in range(len(counts)):
        if index + AHEAD < len(counts):
            begin, end = offsets[index + AHEAD], offsets[index + AHEAD + 1]
            low, high = word_key(source + begin, end - begin)
            prefetch(main + np.int64((mix(low, high) >> shift) << FIVE))
        address = source + offsets[index]
        length = offsets[index + 1] - offsets[index]
        low, high = word_key(address, length)
        entry = find_entry(main, shift, low, high, mix(low, high), target, address)
        if load_u64(entry + HIGH) == ZERO:
            place = sum_offsets[used]
            copy_bytes(address, target + place, length)
            store_u64(entry + LOW, low)
            store_u64(entry + HIGH, high)
            store_u64(entry + VALUE, np.uint64(used))
            store_u64(entry + PLACE, np.uint64(place))
            sum_counts[used] = counts[index]
            sum_positions[used] = first_positions[index]
            used += 1
            sum_offsets[used] = place + length
        else:
            row = np.int64(load_u64(entry + VALUE))
            sum_counts[row] += counts[index]
            sum_positions[row] = min(sum_positions[row], first_positions[index])
    return used
