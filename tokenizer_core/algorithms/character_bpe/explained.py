"""Which merges of character BPE fire in a word, in the order of their ranks, everywhere in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bpeline.tokenizer_core.algorithms.character_bpe.codec import CharacterBpe
from bpeline.tokenizer_core.training import merged
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


def explained(spec: TokenizerSpec) -> Decide:
    """Explains words of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    end, joined = algorithm.end_of_word, algorithm.joined
    ranks: dict[tuple[str, str], int] = {}
    for rank, (left, right) in enumerate(spec.merges):
        ranks.setdefault((left.decode(), right.decode()), rank)

    def decide(word: str) -> Iterator[Decision]:
        symbols = [*word[:-1], word[-1] + end] if joined else [*word, end]
        while present := [pair for pair in pairwise(symbols) if pair in ranks]:
            best = min(present, key=ranks.__getitem__)
            symbols = merged(symbols, best, best[0] + best[1])
            yield Decision(f"rank {ranks[best]}", best, tuple(symbols))

    return decide
