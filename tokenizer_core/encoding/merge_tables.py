"""Merges as the tables that encoding kernels read; knows no text and no threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encode_machine import (
    BYTE_IDS,
    INFOS,
    MACHINE,
    PAIRS,
    ROOTS,
    SHIFT,
    SPLITS,
    TOKENS,
    TRIE,
    TRIE_SHIFT,
)
from bpeline.tokenizer_core.kernels.encode_word import NO_MERGE, fill_pair_table
from bpeline.tokenizer_core.kernels.token_tables import (
    BYTES,
    MAX_NODES,
    MAX_TOKENS,
    fill_pairs,
    fill_trie,
    find_stable,
    measure_tokens,
    spell_tokens,
)

_MAX_TOKEN_TEXT = 1 << 26  # bytes of all tokens together
_SLOTS_PER_TOKEN = 4  # of the trie; doubled where it is not enough


class MergeTables:
    """What threads read while they encode.

    Args:
        byte_ids: int64 ``[256]``: the id of each byte.
        left, right, results: int64 ``[n_merges]``: ids of the parts and of the result, by rank.
            Pairs are distinct, parts are made before they are used.

    Attributes:
        machine: int64 ``[MACHINE]``: the addresses of the tables.
    """

    def __init__(
        self,
        byte_ids: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
    ) -> None:
        self.machine = np.zeros(MACHINE, np.int64)
        self._kept: tuple[NDArray[Any], ...] = ()
        if not self._lay(byte_ids, left, right, results):
            self._merge(byte_ids, left, right, results)

    def _lay(
        self,
        byte_ids: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
    ) -> bool:
        """Make the tables of `lay_tokens`; False where merges are not proper, or too many."""
        ids = np.concatenate((byte_ids, results))
        if len(ids) > MAX_TOKENS:
            return False
        index_of_id = np.zeros(int(ids.max()) + 1, np.int64)
        index_of_id[ids] = np.arange(len(ids))
        if not np.array_equal(index_of_id[ids], np.arange(len(ids))):
            return False  # a token is made twice
        left, right = index_of_id[left], index_of_id[right]
        ends = np.empty(len(ids), np.int64)
        measure_tokens(left, right, ends)
        if ends[-1] > _MAX_TOKEN_TEXT:
            return False
        text = np.empty(int(ends[-1]) + 8, np.uint8)
        spell_tokens(left, right, ends, text)
        pair_bits = max(4, (2 * len(left)).bit_length())
        pair_shift = np.uint64(64 - pair_bits)
        pairs = np.zeros(9 << (pair_bits - 3), np.uint64)  # slots, and a byte for each
        fill_pairs(left, right, pair_shift, pairs)
        splits = np.zeros(len(ids), np.uint64)
        stable = np.zeros(len(ids), np.bool_)
        find_stable(left, right, pairs, pair_shift, splits, stable)
        lengths = np.diff(ends, prepend=0)
        order = np.argsort(lengths, kind="stable")
        order = order[stable[order] & (order >= BYTES)]
        roots = np.zeros(1 << 16, np.uint32)
        infos = np.zeros(len(ids), np.uint64)
        bits = (_SLOTS_PER_TOKEN * len(ids)).bit_length()
        while True:
            trie_shift = np.uint64(64 - bits)
            trie = np.zeros(1 << bits, np.uint64)
            if fill_trie(text, ends, order, ids, trie_shift, trie, roots, infos):
                break
            if len(trie) > 2 * MAX_NODES:
                return False
            roots.fill(0)
            bits += 1
        tables: tuple[NDArray[Any], ...] = (pairs, splits, infos, roots, trie)
        self._kept = tables
        for place, table in zip((PAIRS, SPLITS, INFOS, ROOTS, TRIE), tables, strict=True):
            self.machine[place] = table.ctypes.data
        self.machine[SHIFT] = pair_shift
        self.machine[TRIE_SHIFT] = trie_shift
        self.machine[TOKENS] = len(ids)
        return True

    def _merge(
        self,
        byte_ids: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
    ) -> None:
        """Make the tables of `merge_word`."""
        ids = byte_ids.astype(np.uint32)
        shift, pairs = pair_table(left, right, results)
        self._kept = (ids, pairs)
        self.machine[BYTE_IDS] = ids.ctypes.data
        self.machine[PAIRS] = pairs.ctypes.data
        self.machine[SHIFT] = shift


def pair_table(
    left: NDArray[np.int64], right: NDArray[np.int64], results: NDArray[np.int64]
) -> tuple[np.uint64, NDArray[np.uint64]]:
    """The shift and the slots of `merge_word`'s table of merges."""
    shift, pairs = empty_pair_table(len(results))
    fill_pair_table(left, right, results, shift, pairs)
    return shift, pairs


def empty_pair_table(merges: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """The shift and the empty slots of a table that will be at most half full."""
    bits = max(4, (2 * merges).bit_length())
    return np.uint64(64 - bits), np.full(2 << bits, NO_MERGE, np.uint64)
