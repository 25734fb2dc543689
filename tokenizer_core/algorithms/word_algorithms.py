"""Words to pieces: merges over characters, WordPiece, and the longest tokens anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.kinds import (
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    WordPiece,
)
from bpeline.tokenizer_core.algorithms.symbol_table import (
    Row,
    SymbolTable,
    alphabet_rows,
    characters_of,
    trie_rows,
)
from bpeline.tokenizer_core.algorithms.word_encoder import Pieces, room_for
from bpeline.tokenizer_core.kernels import longest_tokens, random_merges
from bpeline.tokenizer_core.kernels.character_merges import (
    JOINED,
    OWN_SYMBOL,
    SCRATCH_PER_SYMBOL,
    merge_characters,
)
from bpeline.tokenizer_core.kernels.longest_tokens import match_anywhere, match_from_the_left
from bpeline.tokenizer_core.kernels.random_merges import merge_at_random
from bpeline.tokenizer_core.text import Text

Merge = tuple[str, str]
_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # leads of characters of 2, 3 and 4 bytes


class MergedCharacters:
    """Merges over characters.

    Args:
        alphabet: rows of `alphabet_rows`.
        merges: (left, right, rank, result) of each merge.
        joined: whether the end of a word is part of its last character.
        everywhere: whether a merge is applied at all its places before ranks are looked at again.
        unknown: the id of characters without one.
    """

    def __init__(
        self, alphabet: list[Row], merges: list[Row], joined: bool, everywhere: bool, unknown: int
    ) -> None:
        self._table = SymbolTable.of(alphabet + merges)
        self._marking = JOINED if joined else OWN_SYMBOL
        self._everywhere = int(everywhere)
        self._unknown = unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends = room_for(lengths)
        edges = np.empty(len(lengths) + 1, np.int64)
        symbols = int(lengths.max(initial=0)) + 1
        scratch = np.empty(SCRATCH_PER_SYMBOL * symbols // 8 + 1, np.uint64)
        merge_characters(
            text.data,
            places,
            lengths,
            self._marking,
            self._everywhere,
            self._table.shift,
            self._table.slots,
            self._unknown,
            scratch,
            ids,
            ends,
            edges,
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
        ids, ends = room_for(lengths)
        edges = np.empty(len(lengths) + 1, np.int64)
        symbols = int(lengths.max(initial=0)) + 1
        scratch = np.empty(random_merges.SCRATCH_PER_SYMBOL * symbols // 8 + 1, np.uint64)
        character_sizes = 1 + np.searchsorted(_LONGER_FROM, text.data[places], side="right")
        merge_at_random(
            text.data,
            places,
            lengths,
            character_sizes == lengths,
            dropout,
            state,
            self._marking,
            self._table.shift,
            self._table.slots,
            scratch,
            ids,
            ends,
            edges,
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
    alphabet = alphabet_rows(ids, algorithm.end_of_word, algorithm.joined)
    return MergedCharacters(alphabet, rows, algorithm.joined, everywhere=True, unknown=unknown)


def by_frequency(algorithm: FrequencyBpe, ids: Mapping[str, int], unknown: int) -> MergedCharacters:
    """Frequency BPE: whatever two tokens join to a token with a frequency, most frequent first."""
    distinct = sorted({frequency for _, frequency in algorithm.frequencies}, reverse=True)
    rank_of = {frequency: rank for rank, frequency in enumerate(distinct)}
    end = algorithm.end_of_word
    rows = []
    for token, frequency in algorithm.frequencies:
        inner = token.removesuffix(end) if token.endswith(end) else token
        cuts = [*range(1, len(inner)), *([len(inner)] if inner != token and inner else [])]
        for cut in cuts:
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                rows.append((left, right, rank_of[frequency], ids[token]))
    alphabet = alphabet_rows(ids, end, joined=False)
    return MergedCharacters(alphabet, rows, joined=False, everywhere=False, unknown=unknown)


class LongestFromTheLeft:
    """WordPiece: at each place the longest token; a word with a place without one is unknown.

    Args:
        algorithm: the properties. ids: token → id of all tokens that text can become.
        unknown: the id of unknown words.
    """

    def __init__(self, algorithm: WordPiece, ids: Mapping[str, int], unknown: int) -> None:
        mark = algorithm.continuation
        self._table = SymbolTable.of(trie_rows(_word_piece_tokens(ids, mark)))
        self._most_characters = algorithm.max_word_characters
        self._unknown = unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends = room_for(lengths)
        edges = np.empty(len(lengths) + 1, np.int64)
        match_from_the_left(
            text.data,
            places,
            lengths,
            self._most_characters,
            self._table.shift,
            self._table.slots,
            self._unknown,
            ids,
            ends,
            edges,
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)


def _word_piece_tokens(ids: Mapping[str, int], mark: str) -> list[tuple[list[int], bool, int]]:
    """A token that begins with the mark also spells the begin of a word that begins so."""
    tokens = [(list(map(ord, token)), False, id_) for token, id_ in ids.items()]
    return tokens + [
        (list(map(ord, token.removeprefix(mark))), True, id_)
        for token, id_ in ids.items()
        if token.startswith(mark) and token != mark
    ]


class LongestAnywhere:
    """Greedy: the longest token anywhere in a word, then the same left and right of it.

    Args:
        algorithm: the properties. ids: token → id of all tokens that text can become.
        unknown: the id of each stretch without a token.
    """

    def __init__(self, algorithm: GreedyLongest, ids: Mapping[str, int], unknown: int) -> None:
        spelled = [(characters_of(token, algorithm.end_of_word), id_) for token, id_ in ids.items()]
        spelled.sort(key=lambda token: (-len(token[0]), token[1]))
        self._ids = np.array([id_ for _, id_ in spelled], np.uint32)
        tokens = [(characters, False, rank) for rank, (characters, _) in enumerate(spelled)]
        self._table = SymbolTable.of(trie_rows(tokens))
        self._unknown = unknown

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        ids, ends = room_for(lengths)
        edges = np.empty(len(lengths) + 1, np.int64)
        symbols = int(lengths.max(initial=0)) + 2
        scratch = np.empty(longest_tokens.SCRATCH_PER_SYMBOL * symbols // 8 + 1, np.uint64)
        match_anywhere(
            text.data,
            places,
            lengths,
            self._ids,
            self._table.shift,
            self._table.slots,
            self._unknown,
            scratch,
            ids,
            ends,
            edges,
        )
        return Pieces(ids[: edges[-1]], ends[: edges[-1]], edges)
