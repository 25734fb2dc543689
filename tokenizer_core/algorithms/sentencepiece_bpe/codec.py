"""BPE over characters with bytes for those that are unknown, as a value; its encoder and decoder.

HuggingFace calls it BPE with ``byte_fallback`` and the like; SentencePiece's models of type BPE
become it once their merges are derived. Texts come normalized, spaces as ▁.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.decoder import ModelDecoder
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.encoder import (
    WHOLE_TEXT,
    SentencePieceEncoder,
)
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.symbols import (
    ranked_by_piece,
    symbols_of,
)
from bpeline.tokenizer_core.encoding import Decoder
from bpeline.tokenizer_core.normalization import SentencePieceText
from bpeline.tokenizer_core.vocabulary import Algorithm, TokenizerSpec


@dataclass(frozen=True, slots=True)
class SentencePieceBpe(Algorithm):
    """Byte pair encoding over the characters of a text that need not be cut into words.

    In each pre-token the pair of lowest rank is merged, leftmost first, until none is left. A
    character that is no token becomes its bytes, or the unknown token, or nothing.

    Attributes:
        byte_fallback: whether such a character becomes the tokens of its bytes, ``<0xE2>`` …, if
            the vocab holds all 256 of them.
        unknown: else it becomes this token; where the vocab lacks it, texts with such characters
            are refused. None: such characters are left out, and their neighbours merge.
        fuse_unknown: whether several unknown characters in a row become one token.
        by_piece: whether all merges that make one token have one rank, as in SentencePiece, where
            only tokens have scores: the place of the first of them in the list of merges.
        ties: with ``by_piece`` tokens of equal score: of the tokens that merges make, in this
            order, the numbers of those that have the rank of the one before.
        user_defined: tokens that are found in the normalized text before all else (leftmost, then
            longest), and never merge.
    """

    name: ClassVar[str] = "sentencepiece-bpe"
    default_pattern: ClassVar[str] = WHOLE_TEXT
    has_merges: ClassVar[bool] = True
    may_ignore_merges: ClassVar[bool] = True
    byte_fallback: bool = True
    unknown: str | None = "<unk>"
    fuse_unknown: bool = True
    by_piece: bool = False
    ties: tuple[int, ...] = ()
    user_defined: tuple[str, ...] = ()

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        known = {field.name for field in fields(cls)}
        if given.keys() != known:
            return None
        flags = given["byte_fallback"], given["fuse_unknown"], given["by_piece"]
        if not all(isinstance(flag, bool) for flag in flags):
            return None
        if not isinstance(given["unknown"], str | None):
            return None
        ties, user_defined = given["ties"], given["user_defined"]
        if not all(isinstance(listed, list | tuple) for listed in (ties, user_defined)):
            return None
        if set(map(type, ties)) - {int} or set(map(type, user_defined)) - {str}:
            return None
        return cls(**{**given, "ties": tuple(ties), "user_defined": tuple(user_defined)})


KIND = SentencePieceBpe


def coders(spec: TokenizerSpec) -> tuple[SentencePieceEncoder, Decoder]:
    """The encoder and the decoder: of a model as its library decodes, else tokens as spelled.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, some bytes of 256, or merges of tokens that
            stand for bytes or unknown characters; a user-defined token that the vocab lacks.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    symbols = symbols_of(spec, algorithm.byte_fallback, algorithm.unknown)
    if algorithm.by_piece:
        symbols = ranked_by_piece(symbols, spec, frozenset(algorithm.ties))
    encoder = SentencePieceEncoder(symbols, spec, algorithm.fuse_unknown, algorithm.user_defined)
    steps = spec.pipeline.normalizer.steps if spec.pipeline and spec.pipeline.normalizer else ()
    if len(steps) == 1 and isinstance(steps[0], SentencePieceText) and algorithm.unknown:
        fallback = algorithm.byte_fallback
        return encoder, ModelDecoder(spec, steps[0], algorithm.unknown, fallback)
    return encoder, Decoder(spec.vocab)
