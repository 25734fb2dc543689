"""Words to pieces: merges over characters, WordPiece, and the longest tokens anywhere.

Alphabets, merges and tries are rows of the one table that kernels over characters read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.kinds import (
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    WordPiece,
)
from bpeline.tokenizer_core.algorithms.word_encoder import Pieces
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

Merge = tuple[str, str]
Row = tuple[int, int, int, int]  # left, right, rank, result
_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # leads of characters of 2, 3 and 4 bytes


class MergedCharacters:
    """Merges over characters.

    Args:
        alphabet: rows of `_alphabet_rows`.
        merges: (left, right, rank, result) of each merge.
        joined: whether the end of a word is part of its last character.
        everywhere: whether a merge is applied at all its places before ranks are looked at again.
        unknown: the id of characters without one.
    """

    def __init__(
        self, alphabet: list[Row], merges: list[Row], joined: bool, everywhere: bool, unknown: int
    ) -> None:
        self._table = _symbol_table(alphabet + merges)
        self._marking = character_merges.JOINED if joined else character_merges.OWN_SYMBOL
        self._known = self._marking, int(everywhere), *self._table, unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends, edges = _room_for(lengths)
        scratch = _scratch(character_merges.SCRATCH_PER_SYMBOL, lengths, 1)
        character_merges.merge_characters(
            text.data, places, lengths, *self._known, scratch, ids, ends, edges
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)

    def pieces_at_random(
        self,
        text: Text,
        places: NDArray[np.int64],
        lengths: NDArray[np.int64],
        dropout: float,
        state: NDArray[np.uint32],
    ) -> Pieces:
        """As `pieces_of`, with merges left out at random; ids of unknown characters are no ids.

        Args:
            dropout, state: as for `merge_at_random`.
        """
        ids, ends, edges = _room_for(lengths)
        scratch = _scratch(random_merges.SCRATCH_PER_SYMBOL, lengths, 1)
        is_one = 1 + np.searchsorted(_LONGER_FROM, text.data[places], side="right") == lengths
        words = text.data, places, lengths, is_one, dropout, state
        random_merges.merge_at_random(
            *words, self._marking, *self._table, scratch, ids, ends, edges
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


def by_rank(
    algorithm: CharacterBpe, ids: Mapping[str, int], merges: Sequence[Merge], unknown: int
) -> MergedCharacters:
    """Character BPE: the merge of lowest rank first, at all its places."""
    rows = [
        (ids[left], ids[right], rank, ids[left + right])
        for rank, (left, right) in enumerate(merges)
    ]
    alphabet = _alphabet_rows(ids, algorithm.end_of_word, algorithm.joined)
    return MergedCharacters(alphabet, rows, algorithm.joined, everywhere=True, unknown=unknown)


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> MergedCharacters:
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
    return MergedCharacters(alphabet, rows, joined=False, everywhere=False, unknown=unknown)


class LongestFromTheLeft:
    """WordPiece: at each place the longest token; a word with a place without one is unknown.

    Args:
        algorithm: the properties. ids: token → id of all tokens that text can become.
        unknown: the id of unknown words.
    """

    def __init__(self, algorithm: WordPiece, ids: Mapping[str, int], unknown: int) -> None:
        mark = algorithm.continuation
        tokens = [(list(map(ord, token)), False, id_) for token, id_ in ids.items()]
        # A token that begins with the mark also spells the begin of a word that begins so.
        tokens += [
            (list(map(ord, token.removeprefix(mark))), True, id_)
            for token, id_ in ids.items()
            if token.startswith(mark) and token != mark
        ]
        table = _symbol_table(_trie_rows(tokens))
        self._known = algorithm.max_word_characters, *table, unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends, edges = _room_for(lengths)
        longest_tokens.match_from_the_left(
            text.data, places, lengths, *self._known, ids, ends, edges
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


class LongestAnywhere:
    """Greedy: the longest token anywhere in a word, then the same left and right of it.

    Args:
        algorithm: the properties. ids: token → id of all tokens that text can become.
        unknown: the id of each stretch without a token.
    """

    def __init__(self, algorithm: GreedyLongest, ids: Mapping[str, int], unknown: int) -> None:
        spelled = [
            (_characters_of(token, algorithm.end_of_word), id_) for token, id_ in ids.items()
        ]
        spelled.sort(key=lambda token: (-len(token[0]), token[1]))
        id_of_rank = np.array([id_ for _, id_ in spelled], np.uint32)
        tokens = [(characters, False, rank) for rank, (characters, _) in enumerate(spelled)]
        self._known = id_of_rank, *_symbol_table(_trie_rows(tokens)), unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends, edges = _room_for(lengths)
        scratch = _scratch(longest_tokens.SCRATCH_PER_SYMBOL, lengths, 2)
        longest_tokens.match_anywhere(
            text.data, places, lengths, *self._known, scratch, ids, ends, edges
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


def _room_for(
    lengths: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
    """The arrays of `Pieces` with room for those of words of so many bytes, and of their ends."""
    room = int(lengths.sum()) + len(lengths)
    ids, ends = np.empty(room, np.uint32), np.empty(room, np.uint32)
    return ids, ends, np.empty(len(lengths) + 1, np.int64)


def _scratch(symbol_bytes: int, lengths: NDArray[np.int64], more: int) -> NDArray[np.uint64]:
    """Room for the symbols of the longest word, one a byte, and so many more."""
    symbols = int(lengths.max(initial=0)) + more
    return np.empty(symbol_bytes * symbols // 8 + 1, np.uint64)


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
