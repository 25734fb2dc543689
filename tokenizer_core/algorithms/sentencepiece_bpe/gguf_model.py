"""The tokenizers of type llama in GGUF files: SentencePiece's BPE as llama.cpp does it.

Other than in SentencePiece, merges make every token, also control tokens and those of bytes; and a
space goes before each piece of text between special tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.codec import SentencePieceBpe
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.scored_merges import merges_of_scores
from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.formats import GgufVocabulary
from bpeline.tokenizer_core.normalization import Normalizer
from bpeline.tokenizer_core.vocabulary import DecoderSteps, TokenizerSpec

_ESCAPE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_PREPEND = {"type": "Prepend", "prepend": "▁"}
_JOIN: tuple[dict[str, Any], ...] = (
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
)
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def from_gguf(read: GgufVocabulary, path: Path) -> TokenizerSpec:
    """The spec of such a tokenizer.

    Raises:
        InvalidTokenizer: it lacks bytes, or has tokens that merges cannot say.
    """
    if missing := {f"<0x{byte:02X}>" for byte in range(256)} - set(read.tokens):
        refuse(path, f"lacks {len(missing)} tokens of bytes", "all 256 from <0x00> to <0xFF>")
    scores = dict(zip(read.tokens, read.scores, strict=True))
    merges, ties = merges_of_scores(scores, set(read.tokens), path)
    prefixed = read.space_prefix is not False
    steps = [_PREPEND, _ESCAPE] if prefixed else [_ESCAPE]
    joining = [*_JOIN, _STRIP] if prefixed else list(_JOIN)
    return TokenizerSpec.checked(
        {id_: token.encode() for id_, token in enumerate(read.tokens)},
        merges,
        read.specials,
        algorithm=SentencePieceBpe(unknown=None, by_piece=True, ties=tuple(ties)),
        pipeline=read.pipeline(
            normalizer=Normalizer.of_description({"type": "Sequence", "normalizers": steps}),
            decoder=DecoderSteps.of_description({"type": "Sequence", "decoders": joining}),
        ),
    )
