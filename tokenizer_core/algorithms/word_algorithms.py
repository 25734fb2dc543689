"""Words to pieces: merges over characters, WordPiece, and the longest tokens anywhere.

Alphabets, merges and tries are rows of the one table that kernels over characters read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels import character_merges, longest_tokens, random_merges
from bpeline.tokenizer_core.kernels.encode_word import NO_MERGE
from bpeline.tokenizer_core.kernels.longest_tokens import INNER_ROOT, ROOT
from bpeline.tokenizer_core.kernels.symbol_tables import (
    END,
    INSIDE,
    LAST,
    NO_TOKEN,
    fill_symbol_table,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import (
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    WordPiece,
)

Merge = tuple[str, str]
Row = tuple[int, int, int, int]  # left, right, rank, result
LEFTMOST, EVERYWHERE = 0, 1  # where a merge is applied before ranks are looked at again
_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # leads of characters of 2, 3 and 4 bytes


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
    algorithm: CharacterBpe, ids: Mapping[str, int], merges: Sequence[Merge], unknown: int
) -> WordAlgorithm:
    """Character BPE: the merge of lowest rank first, at all its places."""
    rows = [
        (ids[left], ids[right], rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    ]
    alphabet = _alphabet_rows(ids, algorithm.end_of_word, algorithm.joined)
    marking = character_merges.JOINED if algorithm.joined else character_merges.OWN_SYMBOL
    return _merged(alphabet + rows, marking, EVERYWHERE, unknown)


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> WordAlgorithm:
    """Frequency BPE: whatever two tokens join to a token with a frequency, most frequent first."""
    distinct = sorted({frequency for _, frequency in algorithm.frequencies}, reverse=True)
    rank_of = {frequency: rank for rank, frequency in enumerate(distinct)}
    end = algorithm.end_of_word
    rows = []
    for token, frequency in algorithm.frequencies:
        inner = token.removesuffix(end)
        symbols = len(inner) + (inner != token)  # the mark of the end is one
        for cut in range(1, symbols):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                rows.append((left, right, rank_of[frequency], ids[token]))
    alphabet = _alphabet_rows(ids, end, joined=False)
    return _merged(alphabet + rows, character_merges.OWN_SYMBOL, LEFTMOST, unknown)


def _merged(rows: list[Row], marking: int, places: int, unknown: int) -> WordAlgorithm:
    known = marking, places, *_symbol_table(rows), unknown
    scratch = character_merges.SCRATCH_PER_SYMBOL
    return WordAlgorithm(character_merges.merge_characters, known, scratch)


def with_dropout(merged: WordAlgorithm, dropout: float, state: NDArray[np.uint32]) -> WordAlgorithm:
    """`by_rank` with merges left out at random; ids of unknown characters are no ids.

    Args:
        merged: of `by_rank`.
        dropout, state: as for `merge_at_random`.
    """
    marking, _, shift, slots, _ = merged.known

    def kernel(text: Any, places: Any, lengths: Any, *others: Any) -> None:
        is_one = 1 + np.searchsorted(_LONGER_FROM, text[places], side="right") == lengths
        random_merges.merge_at_random(text, places, lengths, is_one, dropout, state, *others)

    return WordAlgorithm(kernel, (marking, shift, slots), random_merges.SCRATCH_PER_SYMBOL)


def longest_from_the_left(
    algorithm: WordPiece, ids: Mapping[str, int], unknown: int
) -> WordAlgorithm:
    """WordPiece: at each place the longest token; a word with a place without one is unknown."""
    mark = algorithm.continuation
    tokens = [(list(map(ord, token)), False, id_) for token, id_ in ids.items()]
    # A token that begins with the mark also spells the begin of a word that begins so.
    tokens += [
        (list(map(ord, token.removeprefix(mark))), True, id_)
        for token, id_ in ids.items()
        if token.startswith(mark) and token != mark
    ]
    known = algorithm.max_word_characters, *_symbol_table(_trie_rows(tokens)), unknown
    return WordAlgorithm(longest_tokens.match_from_the_left, known)


def longest_anywhere(
    algorithm: GreedyLongest, ids: Mapping[str, int], unknown: int
) -> WordAlgorithm:
    """Greedy: the longest token anywhere in a word, then the same left and right of it; each
    stretch without a token is unknown."""
    spelled = [(_characters_of(token, algorithm.end_of_word), id_) for token, id_ in ids.items()]
    spelled.sort(key=lambda token: (-len(token[0]), token[1]))
    id_of_rank = np.array([id_ for _, id_ in spelled], np.uint32)
    tokens = [(characters, False, rank) for rank, (characters, _) in enumerate(spelled)]
    known = id_of_rank, *_symbol_table(_trie_rows(tokens)), unknown
    return WordAlgorithm(longest_tokens.match_anywhere, known, longest_tokens.SCRATCH_PER_SYMBOL)


def _symbol_table(rows: list[Row]) -> tuple[np.uint64, NDArray[np.uint64]]:
    """Shift and slots of the open-addressing table of rows; of equal (left, right) the first."""
    bits = max(4, (2 * len(rows)).bit_length())
    shift = np.uint64(64 - bits)
    slots = np.full(2 << bits, NO_MERGE, np.uint64)
    left, right, ranks, results = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    fill_symbol_table(left, right, ranks, results, shift, slots)
    return shift, slots


def _characters_of(token: str, end_of_word: str) -> list[int]:
    """A token's characters as numbers; the mark of the end of a word, at its end, is one."""
    if end_of_word and token.endswith(end_of_word):
        return [*map(ord, token.removesuffix(end_of_word)), END]
    return list(map(ord, token))


def _alphabet_rows(ids: Mapping[str, int], end_of_word: str, joined: bool) -> list[Row]:
    """Rows from characters to their tokens; with ``joined`` also from those that end words."""
    rows = []
    for token, id_ in ids.items():
        characters = _characters_of(token, end_of_word)
        if len(characters) == 1:
            rows.append((INSIDE, characters[0], 0, id_))
        elif joined and len(characters) == 2 and characters[1] == END:
            rows.append((LAST, characters[0], 0, id_))
    return rows


def _trie_rows(tokens: Iterable[tuple[list[int], bool, int]]) -> list[Row]:
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
