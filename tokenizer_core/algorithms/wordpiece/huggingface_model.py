"""WordPiece as parts of HuggingFace's tokenizer.json.

Of the characters that Unicode gained lately each
library has its own opinion, so words with such may be cut differently.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms.wordpiece.codec import WordPiece
from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats import add_names, read_plain_vocab
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import Pipeline, TokenizerSpec

_PRE_TOKENIZERS = {"whitespace": "WhitespaceSplit", "wordpunct": "Whitespace"}
_SUPPORTED = f"WordPiece behind {' or '.join(_PRE_TOKENIZERS.values())} is supported"


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    """pre_tokenizer, decoder and model of a tokenizer.json.

    Raises:
        InvalidTokenizer: a split pattern that no pre-tokenizer stands for.
    """
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, WordPiece)
    name, pipeline = tokenizer.spec.pattern.name, tokenizer.spec.pipeline
    found = None if pipeline is None else pipeline.pre_tokenizer
    if found is None and name not in _PRE_TOKENIZERS:
        raise InvalidTokenizer(
            f"words are cut by the split pattern {name or tokenizer.spec.pattern.regex!r}",
            f"in this format WordPiece has the pattern {' or '.join(_PRE_TOKENIZERS)}",
            "save it as 'bpeline'",
        )
    vocab = sorted(tokenizer.spec.model_vocab.items())
    return {
        "pre_tokenizer": found or {"type": _PRE_TOKENIZERS[name or ""]},
        "decoder": _decoder(algorithm),
        "model": {
            "type": "WordPiece",
            "unk_token": algorithm.unknown,
            "continuing_subword_prefix": algorithm.continuation,
            "max_input_chars_per_word": algorithm.max_word_characters,
            "vocab": {token.decode(): id_ for id_, token in vocab},
        },
    }


def from_huggingface(
    model: dict[str, Any], pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json whose model is WordPiece.

    Args:
        model: the JSON of the model.
        pattern, pipeline: what the other parts are.

    Raises:
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
    """
    known = {"type", "vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}
    if unknown := sorted(model.keys() - known):
        refuse(path, f"sets {unknown[0]!r} of the model, which is not understood", _SUPPORTED)
    algorithm = WordPiece(
        model.get("continuing_subword_prefix", "##"),
        model.get("unk_token", "[UNK]"),
        model.get("max_input_chars_per_word", 100),
    )
    types = list(map(type, (algorithm.continuation, algorithm.unknown)))
    if types != [str, str] or type(algorithm.max_word_characters) is not int:
        refuse(path, "has a model with properties of another type", _SUPPORTED)
    named = model["vocab"]

    def is_met(content: str) -> bool:
        return not pattern.parts(content.removeprefix(algorithm.continuation))

    if algorithm.unknown not in named:
        refuse(path, f"lacks {algorithm.unknown!r}, its unknown token, in the vocab", _SUPPORTED)
    pipeline = pipeline.with_model_tokens({*named}, (), is_met)
    add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    vocab = read_plain_vocab(named, path)
    return TokenizerSpec.checked(
        vocab, [], pipeline.special_tokens, pattern, algorithm=algorithm, pipeline=pipeline
    )


def _decoder(algorithm: WordPiece) -> dict[str, Any]:
    return {"type": "WordPiece", "prefix": algorithm.continuation, "cleanup": False}
