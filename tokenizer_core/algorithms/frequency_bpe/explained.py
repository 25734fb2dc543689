"""Which neighbours frequency BPE joins in a word, and how frequent they are; see `reference`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bpeline.tokenizer_core.algorithms.frequency_bpe.codec import FrequencyBpe
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


def explained(spec: TokenizerSpec) -> Decide:
    """Explains words of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    frequencies, end = algorithm.merged_frequencies, algorithm.end_of_word

    def decide(word: str) -> Iterator[Decision]:
        symbols = [*word, end]
        while True:
            found = [frequencies.get(left + right, 0) for left, right in pairwise(symbols)]
            if not any(found):
                return
            place = found.index(max(found))
            left, right = symbols[place : place + 2]
            symbols = [*symbols[:place], left + right, *symbols[place + 2 :]]
            why = f"{left + right} has the frequency {max(found):,}"
            yield Decision(why, (left, right), tuple(symbols))

    return decide
