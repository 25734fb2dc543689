"""Which merges of BPE over characters fire in a text, the leftmost of the lowest rank first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import regex

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.codec import SentencePieceBpe
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


def explained(spec: TokenizerSpec) -> Decide:
    """Explains pre-tokens of a tokenizer, which may be whole texts, as they are once prepared."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    known = {token.decode() for token in spec.ids}
    pairs = [(left.decode(), right.decode()) for left, right in spec.merges]
    ranks = _ranks(pairs, algorithm)
    fixed = sorted(algorithm.user_defined, key=len, reverse=True)
    find = regex.compile("|".join(map(regex.escape, fixed))) if fixed else None
    by_bytes = algorithm.byte_fallback and "<0x00>" in known

    def decide(word: str) -> Iterator[Decision]:
        if spec.ignore_merges and word in known:
            yield Decision("one token by itself, whatever its merges say", (word,), (word,))
            return
        symbols: list[tuple[str, bool]] = []  # text, and whether it merges
        place = 0
        for found in find.finditer(word) if find else ():
            symbols += [(character, True) for character in word[place : found.start()]]
            symbols.append((found.group(), False))
            place = found.end()
            shown = (*(text for text, _ in symbols), *word[place:])
            yield Decision("defined by the user", (found.group(),), shown)
        symbols += [(character, True) for character in word[place:]]
        if algorithm.unknown is None and not by_bytes:
            left_out = [text for text, _ in symbols if text not in known]
            symbols = [one for one in symbols if one[0] in known]
            if left_out:
                kept = tuple(text for text, _ in symbols)
                yield Decision("unknown, left out", tuple(left_out), kept)
        while True:
            open_ = [
                ranks.get((left, right)) if merges and also else None
                for (left, merges), (right, also) in pairwise(symbols)
            ]
            present = [rank for rank in open_ if rank is not None]
            if not present:
                break
            place = open_.index(min(present))
            (left, _), (right, _) = symbols[place : place + 2]
            symbols[place : place + 2] = [(left + right, True)]
            shown = tuple(text for text, _ in symbols)
            yield Decision(f"rank {min(present)}", (left, right), shown)
        yield from _of_unknown([text for text, _ in symbols], known, by_bytes, algorithm)

    return decide


def _ranks(pairs: list[tuple[str, str]], algorithm: SentencePieceBpe) -> dict[tuple[str, str], int]:
    """The rank of each merge: its place, or that of what it makes, see `SentencePieceBpe`."""
    if not algorithm.by_piece:
        return {pair: rank for rank, pair in reversed([*enumerate(pairs)])}
    made = dict.fromkeys(left + right for left, right in pairs)
    ties = set(algorithm.ties)
    of_piece = dict(zip(made, accumulate(i not in ties for i in range(len(made))), strict=True))
    return {(left, right): of_piece[left + right] for left, right in pairs}


def _of_unknown(
    symbols: list[str], known: set[str], by_bytes: bool, algorithm: SentencePieceBpe
) -> Iterator[Decision]:
    """What becomes of characters that are no tokens, once everything is merged."""
    if all(text in known for text in symbols):
        return
    written: list[str] = []
    for text in symbols:
        if text in known:
            written.append(text)
        elif by_bytes:
            written += [f"<0x{byte:02X}>" for byte in text.encode()]
        elif not (algorithm.fuse_unknown and written and written[-1] == algorithm.unknown):
            written.append(str(algorithm.unknown))
    why = "unknown, written as its bytes" if by_bytes else "unknown"
    yield Decision(why, tuple(text for text in symbols if text not in known), tuple(written))
