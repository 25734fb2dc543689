"""Token ids of words in, those of superwords out: merges in runs of whole words."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    DEAD,
    merge_linked,
    merge_scanned,
)
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u32,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.bitmaps import is_marked
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    Flags,
    I64Rows,
    I64s,
    Int,
    U32s,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import ZERO
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    PairTable,
    find_merge,
    table_of_merges,
)

_SHORT = 24  # words up to which the ranks of all pairs are looked through at each merge


@kernel
def merge_run(symbols: Int, count: I64, pairs: PairTable, scratch: Int) -> I64:
    """Merge symbols, uint32 at an address, in place; returns how many are left.

    ``scratch`` is the address of 24 bytes per symbol, or `_SHORT` times 8.
    """
    if count > _SHORT:
        once, nothing = np.int64(0), np.int64(0)
        merge_linked(symbols, count, pairs, once, scratch, nothing, nothing, ZERO, ZERO)
        left = np.int64(0)
        for i in range(count):
            symbol = load_u32(symbols + 4 * i)
            if symbol != DEAD:
                store_u32(symbols + 4 * left, symbol)
                left += 1
        return left
    for i in range(count - 1):
        merge = find_merge(pairs, load_u32(symbols + 4 * i), load_u32(symbols + 4 * i + 4))
        store_u64(scratch + 8 * i, merge)
    return merge_scanned(symbols, count, scratch, pairs, np.int64(0), np.int64(0))


@entry_kernel
def merge_runs(
    marks: U64s,
    spans: I64Rows,
    behind: I64s,
    ids: U32s,
    ends: I64s,
    sizes: I64s,
    joins: Flags,
    table: U64s,
    hash_key: U64s,
    scratch: U64s,
    target: U32s,
    new_ends: I64s,
) -> None:
    """Merge the tokens of spans in runs of adjacent words that are one token each.

    Args:
        marks: where words start, a bitmap. spans: int64 ``[n, 2]``.
        behind: int64 ``[n]``: an id written behind each span, or −1 for none.
        ids, ends: the tokens of the words; int64 ``[n]``: how many up to the end of each span.
        sizes, joins: by id: bytes; whether a word of this token alone may be merged.
        table, hash_key: merges of whole words, see `table_of_merges`.
        scratch: uint64: 24 bytes for each token of the longest span, and some.
        target: uint32, room for all ids. new_ends: int64 ``[n]``.
    """
    pairs = table_of_merges(table, hash_key)
    free, first = scratch.ctypes.data, np.int64(target.ctypes.data)
    written, at = np.int64(0), np.int64(0)
    for span in range(len(spans)):
        place, end = spans[span, 0], spans[span, 1]
        run = np.int64(0)
        while at < ends[span]:
            token = ids[at]
            after = place + sizes[token]
            at += 1
            whole = joins[token] and is_marked(marks, place)
            if whole and after < end:
                whole = is_marked(marks, after)
            place = after
            if not whole and run > 0:
                written += merge_run(first + 4 * written, run, pairs, free)
                run = np.int64(0)
            target[written + run] = token
            if whole:
                run += 1
            else:
                written += 1
        if run > 0:
            written += merge_run(first + 4 * written, run, pairs, free)
        if behind[span] >= 0:
            target[written] = np.uint32(behind[span])
            written += 1
        new_ends[span] = written


@entry_kernel
def merge_numbered(
    numbers: U32s,
    row_ends: I64s,
    ids: U32s,
    ends: I64s,
    joins: Flags,
    table: U64s,
    hash_key: U64s,
    scratch: U64s,
    target: U32s,
    new_ends: I64s,
) -> None:
    """`merge_runs` of passages that are rows of words, each of which is encoded once.

    Args:
        numbers, row_ends: uint32; int64 ``[n]``: the word of each pre-token, passage after passage;
            how many up to the end of each.
        ids, ends: uint32; int64 ``[words]``: the tokens of the words; how many up to the end of
            each.
        joins, table, hash_key, scratch, target, new_ends: as for `merge_runs`.
    """
    pairs = table_of_merges(table, hash_key)
    free, first = scratch.ctypes.data, np.int64(target.ctypes.data)
    written, at = np.int64(0), np.int64(0)
    for row in range(len(row_ends)):
        run = np.int64(0)
        while at < row_ends[row]:
            word = np.int64(numbers[at])
            at += 1
            begin = ends[word - 1] if word > 0 else np.int64(0)
            end = ends[word]
            if end - begin == 1 and joins[ids[begin]]:
                target[written + run] = ids[begin]
                run += 1
                continue
            if run > 0:
                written += merge_run(first + 4 * written, run, pairs, free)
                run = np.int64(0)
            for place in range(begin, end):
                target[written] = ids[place]
                written += 1
        if run > 0:
            written += merge_run(first + 4 * written, run, pairs, free)
        new_ends[row] = written
