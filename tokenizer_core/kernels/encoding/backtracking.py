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
    NOTHING,
    TOKEN,
    joined_at,
    joins_of,
    length_of,
    shorter_token,
    stay_together,
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
def is_marked(bits: I64, at: I64) -> bool:
    return (load_u64(bits + 8 * (at >> 6)) >> np.uint64(at & 63)) & ONE != ZERO


@kernel
def mark(bits: I64, at: I64) -> None:
    block = bits + 8 * (at >> 6)
    store_u64(block, load_u64(block) | (ONE << np.uint64(at & 63)))


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
    tokens, trie = workspace.tokens, workspace.trie
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    dead = workspace.scratch  # places from which the end is out of reach
    any_dead = False
    end = word + length
    count = np.int64(0)
    at, before, joins = word, np.int64(NOTHING), ZERO
    behind = at
    while behind < end:
        token, behind = longest_token(at, end, trie, tokens)
        while True:
            fits = not any_dead or not is_marked(dead, behind - word)
            if fits and joins & joined_at(tokens, token) != ZERO:
                fits = stay_together(pairs, tokens, before, token)
            if fits:
                break
            token = shorter_token(tokens, token)
            while token == NOTHING:
                if not any_dead:
                    for i in range((length >> 6) + 1):
                        store_u64(dead + 8 * i, ZERO)
                    any_dead = True
                mark(dead, at - word)
                count -= 1
                token = np.int64(load_u32(target + 4 * count))
                at -= length_of(tokens, token)
                token = shorter_token(tokens, token)
                joins = ZERO
                if count > 0:
                    before = np.int64(load_u32(target + 4 * count - 4))
                    joins = joins_of(tokens, before)
            behind = at + length_of(tokens, token)
        store_u32(target + 4 * count, np.uint32(token))
        count += 1
        at, before, joins = behind, token, joins_of(tokens, token)
    for i in range(count):
        index = np.int64(load_u32(target + 4 * i))
        store_u32(target + 4 * i, np.uint32(load_u64(tokens + TOKEN * index) & ID_MASK))
    return count
