"""BPE over characters with bytes for those that are unknown, as a value; its encoder and decoder.

HuggingFace calls it BPE with ``byte_fallback`` and the like; SentencePiece's models of type BPE
become it once their merges are derived. Texts come normalized, spaces as ▁.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.encoder import (
    WHOLE_TEXT,
    SentencePieceEncoder,
)
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.symbols import symbols_of
from bpeline.tokenizer_core.encoding import Decoder
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
    """

    name: ClassVar[str] = "sentencepiece-bpe"
    default_pattern: ClassVar[str] = WHOLE_TEXT
    has_merges: ClassVar[bool] = True
    may_ignore_merges: ClassVar[bool] = True
    byte_fallback: bool = True
    unknown: str | None = "<unk>"
    fuse_unknown: bool = True

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        if given.keys() != {"byte_fallback", "unknown", "fuse_unknown"}:
            return None
        flags = given["byte_fallback"], given["fuse_unknown"]
        if not all(isinstance(flag, bool) for flag in flags):
            return None
        if not isinstance(given["unknown"], str | None):
            return None
        return cls(**given)


KIND = SentencePieceBpe


def coders(spec: TokenizerSpec) -> tuple[SentencePieceEncoder, Decoder]:
    """The encoder and the decoder, which joins tokens as they are spelled: ``▁a``, ``<0x0A>``.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, some bytes of 256, or merges of tokens that
            stand for bytes or unknown characters.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    symbols = symbols_of(spec, algorithm.byte_fallback, algorithm.unknown)
    encoder = SentencePieceEncoder(symbols, spec, fused=algorithm.fuse_unknown)
    return encoder, Decoder(spec.vocab)
