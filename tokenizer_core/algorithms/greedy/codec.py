"""Greedy encoding by the longest tokens as a value, and its encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bpeline.tokenizer_core.algorithms.greedy.kernels.match_anywhere import (
    SCRATCH_PER_SYMBOL,
    match_anywhere,
)
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.word_encoding import (
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    characters_of,
    spelled_tokens,
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
    """

    name: ClassVar[str] = "greedy-longest"
    end_of_word: str = "</w>"
    unknown: str = "</u>"


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
    spelled = [(characters_of(token, end), id_) for token, id_ in tokens.ids.items()]
    spelled.sort(key=lambda token: (-len(token[0]), token[1]))
    id_of_rank = np.array([id_ for _, id_ in spelled], np.uint32)
    by_length = [(characters, False, rank) for rank, (characters, _) in enumerate(spelled)]
    known = id_of_rank, *symbol_table(trie_rows(by_length)), tokens.marks["unknown"]
    words = WordAlgorithm(match_anywhere, known, SCRATCH_PER_SYMBOL)
    seen = without_ends(spec.vocab, end, tokens.whole, tokens.gap)
    return WordEncoder(words, spec.pattern), WordDecoder(seen, spaced=spec.pattern.drops_gaps)
