"""Which tokens stand together: by the sets of each token, by undoing merges, and by merging."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding.merge_encoding import merge_tables
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    JOINED,
    JOINS,
    TOKEN,
    is_valid_pair,
    stay_together,
)
from bpeline.tokenizer_core.kernels.encoding.word_cache import key_of, workspace_at
from bpeline.tokenizer_core.kernels.memory.types import I64s, U8s
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable
from bpeline.tokenizer_core.reference import Pair, merge_word


@entry_kernel
def ask_both(left: I64s, right: I64s, fields: I64s, quick: U8s, undone: U8s) -> None:
    """Whether pairs of tokens stand together, asked with the sets and without."""
    workspace = workspace_at(fields.ctypes.data)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    for i in range(len(left)):
        quick[i] = is_valid_pair(pairs, workspace.tokens, left[i], right[i])
        undone[i] = stay_together(pairs, workspace.tokens, left[i], right[i])


def random_merges(random_: random.Random, letters: bytes, number: int) -> dict[Pair, int]:
    """Merges in order, each of two tokens that stand together, to a token that is not there yet."""
    tokens = [letters[i : i + 1] for i in range(len(letters))]
    ranks: dict[Pair, int] = {}
    while len(ranks) < number:
        left = random_.choice(tokens)
        right = left if random_.random() < 0.2 else random_.choice(tokens)
        word = left + right
        if word not in tokens and len(word) < 13 and merge_word(word, ranks) == (left, right):
            ranks[left, right] = len(ranks)
            tokens.append(word)
    return ranks


@pytest.mark.parametrize("letters", [b"a", b"ab", b"abc", b"abcdefgh"])
def test_sets_and_undone_merges_say_what_merging_does(letters: bytes) -> None:
    ranks = random_merges(random.Random(letters), letters, 11 if letters == b"a" else 60)
    index = {bytes([byte]): byte for byte in range(256)}
    index |= {left + right: 256 + rank for (left, right), rank in ranks.items()}
    merges = np.array([(index[left], index[right]) for left, right in ranks])
    results = 256 + np.arange(len(ranks))
    record, tables = merge_tables(np.arange(256), (*merges.T.copy(), results))
    rows = tables["tokens"].reshape(-1, TOKEN // 8)

    tokens = [token for token in index if token[0] in letters]
    neighbours = list(product(tokens, repeat=2))
    left, right = np.array([(index[one], index[other]) for one, other in neighbours]).T.copy()
    quick, undone = np.zeros((2, len(neighbours)), np.uint8)
    ask_both(left, right, record.view(np.int64), quick, undone)
    expected = [merge_word(one + other, ranks) == (one, other) for one, other in neighbours]
    assert quick.tolist() == undone.tolist() == expected
    told = rows[left, JOINS // 8] & rows[right, JOINED // 8] == 0
    assert len(letters) < 3 or told.mean() > 0.25  # by the sets alone
