"""Merges as the tables that encoding kernels read; knows no text and no threads."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.encode_machine import (
    BYTE_IDS,
    INFOS,
    KEY_HIGH,
    KEY_LOW,
    MACHINE,
    PAIRS,
    ROOTS,
    SHIFT,
    SPLITS,
    TOKENS,
    TRIE,
    TRIE_SHIFT,
)
from bpeline.tokenizer_core.kernels.encoding.encode_word import NO_MERGE, fill_pair_table
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    BYTES,
    MAX_NODES,
    MAX_TOKENS,
    fill_pairs,
    fill_trie,
    find_stable,
    measure_tokens,
    spell_tokens,
)
from bpeline.tokenizer_core.kernels.tables.word_keys import HASH_KEY

# int64 [n_merges] each: ids of left parts, right parts and results, by rank.
MergeIds: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

_MAX_TOKEN_TEXT = 1 << 26  # bytes of all tokens together
_SLOTS_PER_TOKEN = 4  # of the trie; doubled where it is not enough


def merge_tables(
    byte_ids: NDArray[np.int64], merges: MergeIds
) -> tuple[NDArray[np.int64], dict[int, NDArray[Any]]]:
    """What threads read while they encode.

    Args:
        byte_ids: int64 ``[256]``: the id of each byte.
        merges: pairs are distinct, parts are made before they are used.

    Returns:
        int64 ``[MACHINE]``, with the addresses of the tables; and the tables, to be kept with it.
    """
    machine = np.zeros(MACHINE, np.int64)
    machine[[KEY_LOW, KEY_HIGH]] = HASH_KEY.view(np.int64)
    tables = _token_tables(byte_ids, merges, machine)
    if tables is None:
        ids = byte_ids.astype(np.uint32)
        machine[SHIFT], pairs = pair_table(merges)
        tables = {BYTE_IDS: ids, PAIRS: pairs}
    for place, table in tables.items():
        machine[place] = table.ctypes.data
    return machine, tables


def _token_tables(
    byte_ids: NDArray[np.int64], merges: MergeIds, machine: NDArray[np.int64]
) -> dict[int, NDArray[Any]] | None:
    """The tables of `lay_tokens`; None where merges are not proper, or too many."""
    ids = np.concatenate((byte_ids, merges[2]))
    if len(ids) > MAX_TOKENS:
        return None
    index_of_id = np.zeros(int(ids.max()) + 1, np.int64)
    index_of_id[ids] = np.arange(len(ids))
    if not np.array_equal(index_of_id[ids], np.arange(len(ids))):
        return None  # a token is made twice
    left, right = index_of_id[merges[0]], index_of_id[merges[1]]
    ends = np.empty(len(ids), np.int64)
    measure_tokens(left, right, ends)
    if ends[-1] > _MAX_TOKEN_TEXT:
        return None
    text = np.empty(int(ends[-1]) + 8, np.uint8)
    spell_tokens(left, right, ends, text)
    pair_bits = _bits_for(len(left))
    pair_shift = np.uint64(64 - pair_bits)
    pairs = np.zeros(9 << (pair_bits - 3), np.uint64)  # slots, and a byte for each
    fill_pairs(left, right, pair_shift, pairs)
    splits = np.zeros(len(ids), np.uint64)
    stable = np.zeros(len(ids), np.bool_)
    find_stable(left, right, pairs, pair_shift, splits, stable)
    order = np.argsort(np.diff(ends, prepend=0), kind="stable")
    order = order[stable[order] & (order >= BYTES)]
    roots = np.zeros(1 << 16, np.uint32)
    infos = np.zeros(len(ids), np.uint64)
    bits = (_SLOTS_PER_TOKEN * len(ids)).bit_length()
    trie = np.zeros(1 << bits, np.uint64)
    while not fill_trie(text, ends, order, ids, np.uint64(64 - bits), trie, roots, infos):
        if len(trie) > 2 * MAX_NODES:
            return None
        roots.fill(0)
        bits += 1
        trie = np.zeros(1 << bits, np.uint64)
    machine[SHIFT], machine[TRIE_SHIFT], machine[TOKENS] = pair_shift, 64 - bits, len(ids)
    return {PAIRS: pairs, SPLITS: splits, INFOS: infos, ROOTS: roots, TRIE: trie}


def pair_table(merges: MergeIds) -> tuple[np.uint64, NDArray[np.uint64]]:
    """The shift and the slots of `merge_word`'s table of merges."""
    shift, pairs = empty_pair_table(len(merges[2]))
    fill_pair_table(*merges, shift, pairs)
    return shift, pairs


def empty_pair_table(merges: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """The shift and the empty slots of a table that will be at most half full."""
    bits = _bits_for(merges)
    return np.uint64(64 - bits), np.full(2 << bits, NO_MERGE, np.uint64)


def _bits_for(merges: int) -> int:
    return max(4, (2 * merges).bit_length())
