"""Superwords over runs of words in plain Python: the published rule, slowly, and its encoding.

Source: Schmidt et al., "Boundless Byte Pair Encoding" (arXiv 2504.00178), in the fast form of
arXiv 2604.05192. Knows no passages: runs are found in whole documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import regex

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.reference import Pair, Symbols


def eligible(symbols: Symbols) -> bool:
    """Whether a pre-token may be part of a superword: it is one token and holds a letter."""
    return len(symbols) == 1 and bool(regex.search(r"\p{L}", symbols[0].decode("utf-8", "replace")))


def runs_of(
    document: str, pattern: str, ranks: Mapping[Pair, int]
) -> Iterator[tuple[bool, Symbols]]:
    """The tokens of a document: runs of adjacent eligible pre-tokens, and what lies between."""
    run = list[bytes]()
    for word in reference.split(document, pattern):
        symbols = reference.merge_word(word.encode(), ranks)
        if eligible(symbols):
            run += symbols
            continue
        if run:
            yield True, tuple(run)
        run = []
        yield False, symbols
    if run:
        yield True, tuple(run)


def train(
    documents: Sequence[str],
    pattern: str,
    merges: int,
    *,
    min_count: int = 2,
    tie_break: str = "smallest-ids",
) -> list[tuple[bool, Pair]]:
    """Merges in order; each with whether it is one of whole words."""
    words = reference.count_words(documents, pattern)
    learned = reference.train(words, merges, tie_break=tie_break, min_count=min_count)
    recorded = _counts_of(words, learned)
    ranks = {pair: rank for rank, pair in enumerate(learned)}
    runs: Counter[Symbols] = Counter()
    for document in documents:
        runs.update(run for is_run, run in runs_of(document, pattern, ranks) if is_run)
    made, next_word = list[tuple[bool, Pair]](), 0
    while len(made) < len(learned):
        pairs = count_apart(runs)
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is not None and pairs[best] > recorded[next_word]:
            made.append((True, best))
            merged: Counter[Symbols] = Counter()
            for run, count in runs.items():
                merged[reference.merge_pair(run, best)] += count
            runs = merged
        else:
            made.append((False, learned[next_word]))
            next_word += 1
    return made


def count_apart(runs: Mapping[Symbols, int]) -> dict[Pair, int]:
    """How often each pair could be merged: ``aaa`` holds (a, a) once."""
    pairs: dict[Pair, int] = {}
    for run, count in runs.items():
        taken = -1  # where the last pair of two equal symbols ended
        for at in range(len(run) - 1):
            pair = run[at], run[at + 1]
            if pair[0] == pair[1]:
                if taken == at:
                    continue
                taken = at + 1
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def encode(text: str, pattern: str, made: Sequence[tuple[bool, Pair]]) -> list[bytes]:
    """Word merges in each pre-token, then those of whole words, by rank, in runs."""
    below = [pair for whole, pair in made if not whole]
    ranks = {pair: rank for rank, pair in enumerate(below)}
    wholes = [pair for whole, pair in made if whole]
    above = {pair: rank for rank, pair in enumerate(wholes)}
    tokens = list[bytes]()
    for is_run, symbols in runs_of(text, pattern, ranks):
        tokens += reference.merge_symbols(symbols, above) if is_run else symbols
    return tokens


def _counts_of(words: Mapping[bytes, int], learned: Sequence[Pair]) -> list[int]:
    """How often each pair occurred when it was merged."""
    present = {tuple(bytes([byte]) for byte in word): count for word, count in words.items()}
    counts = list[int]()
    for pair in learned:
        counts.append(reference.count_pairs(present)[pair])
        present = {reference.merge_pair(word, pair): count for word, count in present.items()}
    return counts
