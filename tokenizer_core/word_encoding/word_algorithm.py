"""Words to pieces, each by itself; and the rows of the table that kernels over characters read.

Alphabets, merges and tries are rows of one such table. Knows no algorithm by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding import character_merges
from bpeline.tokenizer_core.kernels.encoding.symbol_tables import (
    END,
    INNER_ROOT,
    INSIDE,
    LAST,
    NO_TOKEN,
    ROOT,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.pair_tables import NO_MERGE, fill_merges
from bpeline.tokenizer_core.text import Text

Merge = tuple[str, str]
Row = tuple[int, int, int, int]  # left, right, rank, result
LEFTMOST, EVERYWHERE = 0, 1  # where a merge is applied before ranks are looked at again


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """What words are made of.

    Attributes:
        ids: uint32: the tokens of all words, one word after the other.
        ends: uint32: where in its word each piece ends, in bytes.
        edges: int64 ``[n + 1]``: word i has the pieces ``edges[i]:edges[i + 1]``.
    """

    ids: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    edges: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class WordAlgorithm:
    """Makes pieces of words, each word by itself.

    Attributes:
        kernel: takes text, places and lengths, what it knows, scratch memory if it needs any, and
            the arrays of `Pieces` to fill.
        known: what else the kernel must know.
        scratch: bytes of scratch memory for each symbol of the longest word.
    """

    kernel: Callable[..., None]
    known: tuple[Any, ...]
    scratch: int = 0

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        """Pieces of words.

        Args:
            text: valid UTF-8 within the words.
            places, lengths: int64 ``[n]``: where each word begins, and its bytes (1 or more).
        """
        room = int(lengths.sum()) + len(lengths)
        ids, ends = np.empty(room, np.uint32), np.empty(room, np.uint32)
        edges = np.empty(len(lengths) + 1, np.int64)
        scratch = []
        if self.scratch:
            symbols = int(lengths.max(initial=0)) + 2  # of all kernels, the most that one asks for
            scratch.append(np.empty(self.scratch * symbols // 8 + 1, np.uint64))
        self.kernel(text.data, places, lengths, *self.known, *scratch, ids, ends, edges)
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


def by_rank(
    ids: Mapping[str, int],
    merges: Sequence[Merge],
    unknown: int,
    end_of_word: str,
    joined: bool = False,
) -> WordAlgorithm:
    """The merge of lowest rank first, at all its places.

    Args:
        ids: token → id.
        merges: by rank; parts and results are tokens.
        unknown: the id of characters that are no token.
        end_of_word, joined: see `CharacterBpe`.
    """
    rows = [
        (ids[left], ids[right], rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    ]
    alphabet = alphabet_rows(ids, end_of_word, joined)
    marking = character_merges.JOINED if joined else character_merges.OWN_SYMBOL
    return merged_rows(alphabet + rows, marking, EVERYWHERE, unknown)


def merged_rows(rows: list[Row], marking: int, places: int, unknown: int) -> WordAlgorithm:
    """Merges over characters.

    Args:
        rows: the alphabet and the merges.
        marking: how the end of a word is marked, see `character_merges`.
        places: `LEFTMOST` or `EVERYWHERE`.
        unknown: the id of characters that are no token.
    """
    known = marking, places, *symbol_table(rows), unknown
    scratch = character_merges.SCRATCH_PER_SYMBOL
    return WordAlgorithm(character_merges.merge_characters, known, scratch)


def symbol_table(rows: list[Row]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The table of rows and the key of its hashes; of equal (left, right) the first row counts."""
    slots = np.full(2 << max(4, (2 * len(rows)).bit_length()), NO_MERGE, np.uint64)
    left, right, ranks, results = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    fill_merges(left, right, ranks, results, slots, HASH_KEY)
    return slots, HASH_KEY


def spellings_of(token: str, end_of_word: str) -> list[list[int]]:
    """A token's characters as `characters_of`; where the mark is a character, also as that one."""
    spelled = [characters_of(token, end_of_word)]
    if len(end_of_word) == 1 and token.endswith(end_of_word):
        spelled.append(list(map(ord, token)))
    return spelled


def characters_of(token: str, end_of_word: str) -> list[int]:
    """A token's characters as numbers; the mark of the end of a word, at its end, is one."""
    if end_of_word and token.endswith(end_of_word):
        return [*map(ord, token.removesuffix(end_of_word)), END]
    return list(map(ord, token))


def alphabet_rows(ids: Mapping[str, int], end_of_word: str, joined: bool) -> list[Row]:
    """Rows from characters to their tokens; with ``joined`` also from those that end words.

    A mark that is a character is one inside of words, too.
    """
    rows = []
    for token, id_ in ids.items():
        characters = characters_of(token, end_of_word)
        if token == end_of_word and len(token) == 1:
            rows.append((INSIDE, ord(token), 0, id_))
        if len(characters) == 1:
            rows.append((INSIDE, characters[0], 0, id_))
        elif joined and len(characters) == 2 and characters[1] == END:
            rows.append((LAST, characters[0], 0, id_))
    return rows


def trie_rows(tokens: Iterable[tuple[list[int], bool, int]]) -> list[Row]:
    """Rows of a trie of (characters, whether it goes on inside a word, rank) of each token."""
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
