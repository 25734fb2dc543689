"""One word in, its token ids out: stable tokens laid side by side so that merges leave them alone.

Merging a word gives the one row of stable tokens that spells it and in which all neighbours stand
together (see `token_tables`). For take the first merge across a seam of such a row: all merges
before it happened inside tokens, so the two tokens at the seam alone would have been merged in the
same way, and they do not stand together. And conversely no seam of the merged word was ever
crossed. So each beginning of the word has one such row, too: a search that tries the longest
token first and steps back where it cannot go on needs to visit no place twice.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    ID_MASK,
    INDEX_MASK,
    LENGTH_SHIFT,
    NOTHING,
    SHORTER_SHIFT,
    stand_together,
)
from bpeline.tokenizer_core.kernels.encoding.token_trie import longest_token
from bpeline.tokenizer_core.kernels.encoding.workspace_record import key_of
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u32,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.records import Record
from bpeline.tokenizer_core.kernels.memory.types import I64
from bpeline.tokenizer_core.kernels.tables.hashing import ONE, ZERO
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable


@kernel
def encode_by_backtracking(word: I64, length: I64, workspace: Record, target: I64) -> I64:
    """Write the token ids of one word as uint32.

    Args:
        word: address of the bytes. length: at least 1.
        workspace: see `workspace_record`; its scratch has a bit for each byte and one more.
        target: address with room for ``length`` ids.

    Returns:
        How many ids there are. Twin: `tokenizer_core.reference.merge_word`.
    """
    infos, trie = workspace.infos, workspace.trie
    end = word + length
    token = longest_token(word, end, trie)
    info = load_u64(infos + 8 * token)
    if np.int64((info >> LENGTH_SHIFT) & INDEX_MASK) == length:
        store_u32(target, np.uint32(info & ID_MASK))
        return np.int64(1)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    splits = workspace.splits
    dead = workspace.scratch  # places from which the end is out of reach
    for i in range((length >> 6) + 1):
        store_u64(dead + 8 * i, ZERO)
    count = np.int64(0)
    at = np.int64(0)
    before = np.int64(NOTHING)
    while True:
        if token == NOTHING:
            cell = dead + 8 * (at >> 6)
            store_u64(cell, load_u64(cell) | (ONE << np.uint64(at & 63)))
            count -= 1
            info = load_u64(infos + 8 * np.int64(load_u32(target + 4 * count)))
            at -= np.int64((info >> LENGTH_SHIFT) & INDEX_MASK)
            token = np.int64(info >> SHORTER_SHIFT)
            before = np.int64(NOTHING)
            if count > 0:
                before = np.int64(load_u32(target + 4 * count - 4))
            continue
        info = load_u64(infos + 8 * token)
        behind = at + np.int64((info >> LENGTH_SHIFT) & INDEX_MASK)
        is_dead = (load_u64(dead + 8 * (behind >> 6)) >> np.uint64(behind & 63)) & ONE
        if is_dead != ZERO or (
            count > 0 and not stand_together(pairs, splits, before, token, NOTHING)
        ):
            token = np.int64(info >> SHORTER_SHIFT)
            continue
        store_u32(target + 4 * count, np.uint32(token))
        count += 1
        at = behind
        if at == length:
            break
        before = token
        token = longest_token(word + at, end, trie)
    for i in range(count):
        index = np.int64(load_u32(target + 4 * i))
        store_u32(target + 4 * i, np.uint32(load_u64(infos + 8 * index) & ID_MASK))
    return count
