"""WordPiece as parts of HuggingFace's tokenizer.json.

Neither a normalizer (lower-casing, stripping of accents) nor BERT's own pre-tokenizer is known
here: such a tokenizer.json is refused by name. Of the characters that Unicode gained lately each
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
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

_PRE_TOKENIZERS = {"whitespace": "WhitespaceSplit", "wordpunct": "Whitespace"}
_SUPPORTED = f"WordPiece behind {' or '.join(_PRE_TOKENIZERS.values())} is supported"


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    """pre_tokenizer, decoder and model of a tokenizer.json.

    Raises:
        InvalidTokenizer: a split pattern that no pre-tokenizer stands for.
    """
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, WordPiece)
    name = tokenizer.spec.pattern.name
    if name not in _PRE_TOKENIZERS:
        raise InvalidTokenizer(
            f"words are cut by the split pattern {name or tokenizer.spec.pattern.regex!r}",
            f"in this format WordPiece has the pattern {' or '.join(_PRE_TOKENIZERS)}",
            "save it as 'bpeline'",
        )
    return {
        "pre_tokenizer": {"type": _PRE_TOKENIZERS[name]},
        "decoder": {"type": "WordPiece", "prefix": algorithm.continuation, "cleanup": False},
        "model": {
            "type": "WordPiece",
            "unk_token": algorithm.unknown,
            "continuing_subword_prefix": algorithm.continuation,
            "max_input_chars_per_word": algorithm.max_word_characters,
            "vocab": {token.decode(): id_ for id_, token in sorted(tokenizer.spec.vocab.items())},
        },
    }


def from_huggingface(
    document: dict[str, Any], specials: dict[str, int], path: Path
) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json whose model is WordPiece.

    Args:
        document: the JSON, its other parts checked.
        specials: its added tokens.

    Raises:
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
    """
    split = document.get("pre_tokenizer")
    kind = split.get("type") if isinstance(split, dict) else None
    patterns = {name: pattern for pattern, name in _PRE_TOKENIZERS.items()}
    if kind not in patterns:
        refuse(path, f"has the pre_tokenizer {kind}", _SUPPORTED)
    model = document["model"]
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
    named = model.get("vocab")
    add_names(named, specials, path)
    vocab = read_plain_vocab(named, path)
    return TokenizerSpec.checked(vocab, [], specials, patterns[kind], algorithm=algorithm)
