"""Which merges fire in a passage: within words, then over runs of them; the rule of `reference`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from bpeline.tokenizer_core.algorithms.superword_bpe.codec import SuperwordBpe, holds_letter
from bpeline.tokenizer_core.algorithms.superword_bpe.passages import words_of as words_pattern
from bpeline.tokenizer_core.splitting import pre_tokens
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision

Ranks = Mapping[tuple[bytes, bytes], int]


def explained(spec: TokenizerSpec) -> Decide:
    """Explains passages of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, SuperwordBpe)
    whole = set(algorithm.whole)
    within: dict[tuple[bytes, bytes], int] = {}
    over: dict[tuple[bytes, bytes], int] = {}
    for rank, pair in enumerate(spec.merges):
        (over if rank in whole else within)[pair] = rank
    pattern = words_pattern(spec.pattern)

    def decide(passage: str) -> Iterator[Decision]:
        words = [[bytes([byte]) for byte in w.encode()] for w in pre_tokens(passage, pattern)]
        for number, word in enumerate(words):
            for why, pair in _merges(word, within, "rank"):
                around = [one for other in words[:number] for one in other]
                behind = [one for other in words[number + 1 :] for one in other]
                yield _decision(why, pair, [*around, *word, *behind])
        symbols: list[bytes] = []
        for run, is_run in _runs(words):
            fired = _merges(run, over, "whole words, rank") if is_run else ()
            for why, pair in fired:
                yield _decision(why, pair, [*symbols, *run])
            symbols += run

    return decide


def _merges(
    symbols: list[bytes], ranks: Ranks, said: str
) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Merge the pair of lowest rank, the leftmost one first, until none is left."""
    while True:
        pairs = list(pairwise(symbols))
        known = [(ranks[pair], place) for place, pair in enumerate(pairs) if pair in ranks]
        if not known:
            return
        rank, place = min(known)
        pair = pairs[place]
        symbols[place : place + 2] = [pair[0] + pair[1]]
        yield f"{said} {rank}", pair


def _runs(words: list[list[bytes]]) -> Iterator[tuple[list[bytes], bool]]:
    """Adjacent words that are one token each and hold a letter, together; others alone."""
    run: list[bytes] = []
    for word in words:
        if len(word) == 1 and holds_letter(word[0]):
            run += word
            continue
        if run:
            yield run, True
        run = []
        yield word, False
    if run:
        yield run, True


def _decision(why: str, pair: tuple[bytes, bytes], symbols: list[bytes]) -> Decision:
    return Decision(why, tuple(map(_text, pair)), tuple(map(_text, symbols)))


def _text(token: bytes) -> str:
    return token.decode(errors="replace")
