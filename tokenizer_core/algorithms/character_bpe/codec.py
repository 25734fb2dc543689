"""Character BPE as a value, and its encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.character_bpe.kernels import random_merges
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.word_encoding import (
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    by_rank,
    spelled_tokens,
    without_ends,
)

_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # leads of characters of 2, 3 and 4 bytes


@dataclass(frozen=True, slots=True)
class CharacterBpe(Algorithm):
    """Byte pair encoding over characters, with a symbol for the end of a word.

    A word is encoded by applying the merge of lowest rank at all its places, from left to right,
    until none applies (Sennrich et al. 2016, ``subword-nmt``).

    Attributes:
        end_of_word: the text that marks the end of a word in tokens: ``st</w>`` is not ``st``.
        joined: whether the mark is part of a word's last character (``subword-nmt`` 0.2) or a
            symbol of its own that merges may join (the paper, ``subword-nmt`` 0.1).
        unknown: the token of characters that the vocab does not hold.
    """

    name: ClassVar[str] = "char-bpe"
    has_merges: ClassVar[bool] = True
    end_of_word: str = "</w>"
    joined: bool = False
    unknown: str = "<unk>"


KIND = CharacterBpe


def coders(spec: TokenizerSpec) -> tuple[WordEncoder, WordDecoder]:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or no unknown token.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    tokens = spelled_tokens(spec)
    marking = algorithm.end_of_word, algorithm.joined
    words = by_rank(tokens.ids, tokens.merges, tokens.marks["unknown"], *marking)
    marking_of_text = algorithm.end_of_word, tokens.whole, tokens.gap, algorithm.joined
    seen = without_ends(spec.vocab, *marking_of_text)
    return WordEncoder(words, spec.pattern), WordDecoder(seen, spaced=spec.pattern.drops_gaps)


def with_dropout(merged: WordAlgorithm, dropout: float, state: NDArray[np.uint32]) -> WordAlgorithm:
    """`by_rank` with merges left out at random; ids of unknown characters are no ids.

    Args:
        merged: of `by_rank`.
        dropout, state: as for `merge_at_random`.
    """
    marking, _, slots, hash_key, _ = merged.known

    def kernel(text: Any, places: Any, lengths: Any, *others: Any) -> None:
        is_one = 1 + np.searchsorted(_LONGER_FROM, text[places], side="right") == lengths
        random_merges.merge_at_random(text, places, lengths, is_one, dropout, state, *others)

    return WordAlgorithm(kernel, (marking, slots, hash_key), random_merges.SCRATCH_PER_SYMBOL)
