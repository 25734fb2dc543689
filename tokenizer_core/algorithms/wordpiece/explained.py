"""Which tokens WordPiece finds in a word, from the left; the rule of `reference`."""

from __future__ import annotations

from collections.abc import Iterator

from bpeline.tokenizer_core.algorithms.wordpiece.codec import WordPiece
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


def explained(spec: TokenizerSpec) -> Decide:
    """Explains words of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, WordPiece)
    known = {token.decode(errors="replace") for token in spec.vocab.values()}
    continuation, most = algorithm.continuation, algorithm.max_word_characters

    def decide(word: str) -> Iterator[Decision]:
        if len(word) > most:
            why = f"longer than {most} characters: unknown"
            yield Decision(why, (word,), (algorithm.unknown,))
            return
        pieces: list[str] = []
        begin = 0
        while begin < len(word):
            mark = continuation if begin else ""
            ends = range(len(word), begin, -1)
            end = next((end for end in ends if mark + word[begin:end] in known), None)
            if end is None:
                why = f"no token at character {begin}: all of it is unknown"
                yield Decision(why, (word[begin:],), (algorithm.unknown,))
                return
            pieces.append(mark + word[begin:end])
            rest = [continuation + word[end:]] if end < len(word) else []
            yield Decision(f"the longest at character {begin}", (pieces[-1],), (*pieces, *rest))
            begin = end

    return decide
