"""Words that are one token whatever their merges say: a table that is built once and then read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.encode_machine import WHOLE, WHOLE_SHIFT, WHOLE_TEXT
from tokenizer_core.kernels.memory import load_u64, store_u64
from tokenizer_core.kernels.token_tables import Integer
from tokenizer_core.kernels.word_keys import (
    HIGH,
    LOW,
    PLACE,
    VALUE,
    find_entry,
    mix,
    table_shift,
    word_key,
)


@kernel
def fill_whole_words(
    words: NDArray[np.uint8],
    ends: NDArray[np.int64],
    ids: NDArray[np.int64],
    table: NDArray[np.uint64],
) -> Integer:
    """Put words into a table; returns its shift.

    Args:
        words: uint8, the words joined, with readable bytes behind. They are distinct.
        ends: int64 ``[n]``: where each ends. ids: int64 ``[n]``.
        table: uint64 ``[4 · 2^b]``, zero, at most half full: see `word_keys`.
    """
    shift = table_shift(table)
    text = words.ctypes.data
    begin = np.int64(0)
    for i in range(len(ends)):
        low, high = word_key(text + begin, ends[i] - begin)
        mixed = mix(low, high)
        entry = find_entry(table.ctypes.data, shift, low, high, mixed, text, text + begin)
        store_u64(entry + LOW, low)
        store_u64(entry + HIGH, high)
        store_u64(entry + VALUE, np.uint64(ids[i]))
        store_u64(entry + PLACE, np.uint64(begin))
        begin = ends[i]
    return shift


@kernel
def whole_word(machine: Integer, word: Integer, length: Integer) -> Integer:
    """The id of a word that is one token as a whole, or −1."""
    low, high = word_key(word, length)
    entry = find_entry(
        np.int64(load_u64(machine + 8 * WHOLE)),
        load_u64(machine + 8 * WHOLE_SHIFT),
        low,
        high,
        mix(low, high),
        np.int64(load_u64(machine + 8 * WHOLE_TEXT)),
        word,
    )
    if load_u64(entry + HIGH) == np.uint64(0):
        return np.int64(-1)
    return np.int64(load_u64(entry + VALUE))
