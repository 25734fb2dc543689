"""Greedy encoding by the longest tokens as a value, and its encoder and decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.greedy.kernels.match_anywhere import (
    SCRATCH_PER_SYMBOL,
    match_anywhere,
)
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec, shown
from bpeline.tokenizer_core.word_encoding import (
    RETRAIN,
    Pieces,
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    spelled_tokens,
    spellings_of,
    symbol_table,
    trie_rows,
    without_ends,
)


@dataclass(frozen=True, slots=True)
class GreedyLongest(Algorithm):
    """The longest token found anywhere in a word first, then the same left and right of it.

    Tokens are longer by characters, the mark of the end of a word being one; among equally long
    ones the smaller id comes first. What no token covers becomes one unknown token per stretch.

    Attributes:
        end_of_word: the text that marks the end of a word in tokens.
        unknown: the token of what no other token covers.
        known: (word, its tokens) of words that are cut otherwise than that.
    """

    name: ClassVar[str] = "greedy-longest"
    end_of_word: str = "</w>"
    unknown: str = "</u>"
    known: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def described(self) -> dict[str, Any]:
        known = {word: list(tokens) for word, tokens in self.known}
        plain = {"name": self.name, "end_of_word": self.end_of_word, "unknown": self.unknown}
        return {**plain, "known": known} if known else plain

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        known = given.get("known", {})
        sound = isinstance(known, dict) and all(
            word and isinstance(tokens, list) and all(type(token) is str for token in tokens)
            for word, tokens in known.items()
        )
        if not sound:
            return None
        listed = tuple((word, tuple(tokens)) for word, tokens in known.items())
        # By its full name: a dataclass with slots is another class than the one `super` sees.
        return super(GreedyLongest, cls).of_description({**given, "known": listed})


KIND = GreedyLongest


def coders(spec: TokenizerSpec) -> tuple[WordEncoder, WordDecoder]:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or no unknown token.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, GreedyLongest)
    tokens = spelled_tokens(spec)
    end = algorithm.end_of_word
    spelled = [(spellings_of(token, end), id_) for token, id_ in tokens.ids.items()]
    spelled.sort(key=lambda token: (-len(token[0][0]), token[1]))
    id_of_rank = np.array([id_ for _, id_ in spelled], np.uint32)
    by_length = [
        (characters, False, rank)
        for rank, (spellings, _) in enumerate(spelled)
        for characters in spellings
    ]
    known = id_of_rank, *symbol_table(trie_rows(by_length)), tokens.marks["unknown"]
    words = WordAlgorithm(match_anywhere, known, SCRATCH_PER_SYMBOL)
    if algorithm.known:
        splits = {word: _split(word, parts, tokens.ids, end) for word, parts in algorithm.known}
        words = _WithKnownWords(
            words.kernel, known, words.scratch, {w.encode(): split for w, split in splits.items()}
        )
    seen = without_ends(spec.vocab, end, tokens.whole, tokens.gap)
    return WordEncoder(words, spec.pattern), WordDecoder(seen, spaced=spec.pattern.drops_gaps)


@dataclass(frozen=True, slots=True, eq=False)
class _WithKnownWords(WordAlgorithm):
    """Cuts some words as it is told.

    Attributes:
        splits: word → ids, and where in it each ends, in bytes.
    """

    splits: Mapping[bytes, tuple[list[int], list[int]]] = field(default_factory=dict)

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> Pieces:
        cut = WordAlgorithm.pieces_of(self, text, places, lengths)
        stands = zip(places.tolist(), lengths.tolist(), strict=True)
        given = [self.splits.get(text.bytes(place, place + size)) for place, size in stands]
        if not any(given):
            return cut
        ids, ends, edges = cut.ids.tolist(), cut.ends.tolist(), cut.edges.tolist()
        each = [
            (ids[first:last], ends[first:last]) if split is None else split
            for split, (first, last) in zip(given, pairwise(edges), strict=True)
        ]
        return Pieces(
            np.array(list(chain.from_iterable(ids for ids, _ in each)), np.uint32),
            np.array(list(chain.from_iterable(ends for _, ends in each)), np.uint32),
            np.cumsum([0, *(len(ids) for ids, _ in each)]),
        )


def _split(
    word: str, parts: tuple[str, ...], ids: Mapping[str, int], end: str
) -> tuple[list[int], list[int]]:
    """The ids of a word's tokens, and where in it each ends.

    Raises:
        InvalidTokenizer: they are not tokens, or do not make the word.
    """
    if "".join(parts) != word + end or not ids.keys() >= set(parts):
        raise InvalidTokenizer(
            f"the word {shown(word)} has the tokens {', '.join(parts)[:80]}",
            "tokens of the vocab that make the word and the mark of its end",
            RETRAIN,
        )
    size = len(word.encode())
    ends = np.cumsum([len(part.encode()) for part in parts])
    return [ids[part] for part in parts], np.minimum(ends, size).tolist()
