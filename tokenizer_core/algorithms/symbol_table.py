"""Alphabets, merges and tries as the one table that kernels over characters read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encode_word import NO_MERGE
from bpeline.tokenizer_core.kernels.longest_tokens import INNER_ROOT, ROOT
from bpeline.tokenizer_core.kernels.symbol_tables import (
    END,
    INSIDE,
    LAST,
    NO_TOKEN,
    fill_symbol_table,
)

Row = tuple[int, int, int, int]  # left, right, rank, result


@dataclass(frozen=True, slots=True, eq=False)
class SymbolTable:
    """Rows (left, right) → (rank, result) in an open-addressing table; see the kernels.

    Attributes:
        shift: uint64.
        slots: uint64 ``[2 · slots]``.
    """

    shift: np.uint64
    slots: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: list[Row]) -> SymbolTable:
        """The table of rows; of equal (left, right) the first counts."""
        bits = max(4, (2 * len(rows)).bit_length())
        shift = np.uint64(64 - bits)
        slots = np.full(2 << bits, NO_MERGE, np.uint64)
        left, right, ranks, results = np.array(rows, np.int64).reshape(-1, 4).T.copy()
        fill_symbol_table(left, right, ranks, results, shift, slots)
        return cls(shift, slots)


def characters_of(token: str, end_of_word: str) -> list[int]:
    """A token's characters as numbers; the mark of the end of a word, at its end, is one."""
    if end_of_word and token.endswith(end_of_word):
        return [*map(ord, token.removesuffix(end_of_word)), END]
    return list(map(ord, token))


def alphabet_rows(ids: Mapping[str, int], end_of_word: str, joined: bool) -> list[Row]:
    """Rows from characters to their tokens.

    Args:
        ids: token → id of all tokens that text can become.
        end_of_word: the mark of the end of a word.
        joined: whether it is part of a word's last character; else it is a symbol of its own.
    """
    rows = []
    for token, id_ in ids.items():
        characters = characters_of(token, end_of_word)
        if len(characters) == 1:
            rows.append((INSIDE, characters[0], 0, id_))
        elif joined and len(characters) == 2 and characters[1] == END:
            rows.append((LAST, characters[0], 0, id_))
    return rows


def trie_rows(tokens: Iterable[tuple[list[int], bool, int]]) -> list[Row]:
    """Rows of a trie.

    Args:
        tokens: characters of each token, whether it goes on inside a word, and its rank.
    """
    children: dict[tuple[int, int], int] = {}
    ranks: dict[tuple[int, int], int] = {}
    nodes = INNER_ROOT + 1
    for characters, goes_on, rank in tokens:
        node = INNER_ROOT if goes_on else ROOT
        step = (node, 0)
        for character in characters:
            step = (node, character)
            node = children.get(step, 0)
            if not node:
                node = children[step] = nodes
                nodes += 1
        ranks[step] = rank
    return [
        (node, character, ranks.get((node, character), NO_TOKEN), child)
        for (node, character), child in children.items()
    ]
