"""Words that are one token as a whole: a table of their ids that is built once and then read."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.workspace_record import key_of
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64
from bpeline.tokenizer_core.kernels.memory.records import Record
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64s, Int, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO, HashKey, key_in, mix
from bpeline.tokenizer_core.kernels.tables.word_keys import (
    HIGH,
    VALUE,
    find_entry,
    put_entry,
    table_shift,
    word_key,
)


@entry_kernel
def fill_whole_words(words: U8s, ends: I64s, ids: I64s, table: U64s, hash_key: U64s) -> I64:
    """Put words into a table; returns how many different ones there are. The last of equals counts.

    Args:
        words: uint8, the words joined, with readable bytes behind.
        ends: int64 ``[n]``: where each ends. ids: int64 ``[n]``.
        table: uint64 ``[4 · 2^b]``, zero, at most half full: see `word_keys`.
        hash_key: uint64 ``[2]``: see `HashKey`.
    """
    key = key_in(hash_key)
    shift = table_shift(table)
    text = words.ctypes.data
    begin, different = np.int64(0), np.int64(0)
    for i in range(len(ends)):
        low, high = word_key(text + begin, ends[i] - begin, key)
        mixed = mix(low, high, key)
        entry = find_entry(table.ctypes.data, shift, low, high, mixed, text, text + begin)
        different += load_u64(entry + HIGH) == ZERO
        put_entry(entry, low, high, np.uint64(ids[i]), np.uint64(begin))
        begin = ends[i]
    return different


@kernel
def word_id(table: Int, shift: U64, key: HashKey, words: Int, word: I64, length: I64) -> I64:
    """The id of a word in a table whose words lie at the address ``words``, or −1."""
    low, high = word_key(word, length, key)
    entry = find_entry(table, shift, low, high, mix(low, high, key), words, word)
    if load_u64(entry + HIGH) == ZERO:
        return np.int64(-1)
    return np.int64(load_u64(entry + VALUE))


@entry_kernel
def find_whole_words(
    text: U8s, begins: I64s, ends: I64s, words: U8s, table: U64s, hash_key: U64s, ids: I64s
) -> None:
    """Look up many words.

    Args:
        text: uint8, with 16 readable bytes behind.
        begins, ends: int64 ``[n]``: where each word lies in it; none is empty.
        words, table, hash_key: as for `fill_whole_words`, filled.
        ids: int64 ``[n]``: receives the id of each, or −1.
    """
    key = key_in(hash_key)
    entries, shift, place = table.ctypes.data, table_shift(table), words.ctypes.data
    base = text.ctypes.data
    for i in range(len(begins)):
        length = ends[i] - begins[i]
        ids[i] = word_id(entries, shift, key, place, base + begins[i], length)


@entry_kernel
def find_joined_words(
    left: I64s,
    right: I64s,
    ends: I64s,
    room: U8s,
    words: U8s,
    table: U64s,
    hash_key: U64s,
    ids: I64s,
) -> None:
    """Look up what pairs of words of a table join to.

    Args:
        left, right: int64 ``[n]``: numbers of words of the table.
        ends: int64: where each word of the table ends.
        room: uint8, for the longest two words, with 16 readable bytes behind.
        words, table, hash_key: as for `fill_whole_words`, filled.
        ids: int64 ``[n]``: receives the id of each, or −1.
    """  # fmt: skip
    key = key_in(hash_key)
    entries, shift, place = table.ctypes.data, table_shift(table), words.ctypes.data
    for i in range(len(left)):
        length = np.int64(0)
        for number in (left[i], right[i]):
            begin = ends[number - 1] if number > 0 else np.int64(0)
            for at in range(begin, ends[number]):
                room[length] = words[at]
                length += 1
        ids[i] = word_id(entries, shift, key, place, room.ctypes.data, length)


@kernel
def whole_word(workspace: Record, word: I64, length: I64) -> I64:
    """The id of a word that is one token as a whole, or −1."""
    table, shift = workspace.whole, workspace.whole_shift
    return word_id(table, shift, key_of(workspace), workspace.whole_text, word, length)
