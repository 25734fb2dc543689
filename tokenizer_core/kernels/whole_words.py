"""Words that are one token as a whole: a table of their ids that is built once and then read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.encode_machine import WHOLE, WHOLE_SHIFT, WHOLE_TEXT
from bpeline.tokenizer_core.kernels.memory import load_u64, store_u64
from bpeline.tokenizer_core.kernels.token_tables import Integer
from bpeline.tokenizer_core.kernels.word_keys import (
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
def find_whole_words(
    text: NDArray[np.uint8],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    words: NDArray[np.uint8],
    table: NDArray[np.uint64],
    ids: NDArray[np.int64],
) -> None:
    """Look up many words.

    Args:
        text: uint8, with 16 readable bytes behind.
        begins, ends: int64 ``[n]``: where each word lies in it; none is empty.
        words, table: as for `fill_whole_words`, filled.
        ids: int64 ``[n]``: receives the id of each, or −1.
    """
    shift = table_shift(table)
    base = text.ctypes.data
    for i in range(len(begins)):
        word = base + begins[i]
        low, high = word_key(word, ends[i] - begins[i])
        mixed = mix(low, high)
        entry = find_entry(table.ctypes.data, shift, low, high, mixed, words.ctypes.data, word)
        known = load_u64(entry + HIGH) != np.uint64(0)
        ids[i] = np.int64(load_u64(entry + VALUE)) if known else np.int64(-1)


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
