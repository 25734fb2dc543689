"""WordPiece as a value, and its encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bpeline.tokenizer_core.algorithms.wordpiece.kernels.match_from_the_left import (
    match_from_the_left,
)
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.word_encoding import (
    WordAlgorithm,
    WordDecoder,
    WordEncoder,
    spelled_tokens,
    symbol_table,
    trie_rows,
)


@dataclass(frozen=True, slots=True)
class WordPiece(Algorithm):
    """The longest token that begins a word, then the longest that goes on, and so forth.

    Attributes:
        continuation: what tokens begin with that go on inside a word.
        unknown: the one token of a whole word if any part of it is not in the vocab.
        max_word_characters: longer words are unknown.
    """

    name: ClassVar[str] = "wordpiece"
    default_pattern: ClassVar[str] = "wordpunct"
    continuation: str = "##"
    unknown: str = "[UNK]"
    max_word_characters: int = 100


KIND = WordPiece


def coders(spec: TokenizerSpec) -> tuple[WordEncoder, WordDecoder]:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or no unknown token.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, WordPiece)
    tokens = spelled_tokens(spec)
    prefix, ids = algorithm.continuation, tokens.ids
    if spec.pipeline is not None and algorithm.unknown.encode() in spec.ids:
        ids = {**ids, algorithm.unknown: tokens.marks["unknown"]}  # as in HuggingFace's library
    spelled = [(list(map(ord, token)), False, id_) for token, id_ in ids.items()]
    # A token that begins with the mark also spells the begin of a word that begins so.
    spelled += [
        (list(map(ord, token.removeprefix(prefix))), True, id_)
        for token, id_ in ids.items()
        if token.startswith(prefix) and token != prefix
    ]
    known = (
        algorithm.max_word_characters,
        *symbol_table(trie_rows(spelled)),
        tokens.marks["unknown"],
    )
    mark = prefix.encode()
    seen = {
        id_: tokens.gap + token
        if id_ in tokens.whole or token == mark or not token.startswith(mark)
        else token[len(mark) :]
        for id_, token in spec.vocab.items()
    }
    words = WordAlgorithm(match_from_the_left, known)
    return WordEncoder(words, spec.pattern), WordDecoder(seen, spaced=spec.pattern.drops_gaps)
