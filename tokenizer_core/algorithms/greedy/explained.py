"""Which tokens greedy encoding finds in a word, the longest first; the rule of `reference`."""

from __future__ import annotations

from collections.abc import Iterator

from bpeline.tokenizer_core.algorithms.greedy.codec import GreedyLongest
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


def explained(spec: TokenizerSpec) -> Decide:
    """Explains words of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, GreedyLongest)
    end = algorithm.end_of_word
    tokens = [token.decode(errors="replace") for _, token in sorted(spec.vocab.items())]
    spelled = [_spelled(token, end) for token in tokens if token != algorithm.unknown]
    spelled.sort(key=len, reverse=True)  # of equally long ones smaller ids stay first

    known = dict(algorithm.known)

    def decide(word: str) -> Iterator[Decision]:
        if word in known:
            yield Decision("as training left it", known[word], known[word])
            return
        symbols: list[str | tuple[str, ...]] = [*word, end]
        for token in spelled:
            place = 0
            while place + len(token) <= len(symbols):
                if tuple(symbols[place : place + len(token)]) == token:
                    symbols[place : place + len(token)] = [token]
                    shown = tuple("".join(one) for one in symbols)
                    yield Decision(f"{len(token)} characters long", ("".join(token),), shown)
                place += 1

    return decide


def _spelled(token: str, end_of_word: str) -> tuple[str, ...]:
    if token.endswith(end_of_word):
        return (*token.removesuffix(end_of_word), end_of_word)
    return tuple(token)
