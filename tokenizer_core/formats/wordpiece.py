"""WordPiece in foreign files: BERT's vocab.txt, and the parts of HuggingFace's tokenizer.json.

Neither a normalizer (lower-casing, stripping of accents) nor BERT's own pre-tokenizer is known
here: such a tokenizer.json is refused by name. Of the characters that Unicode gained lately each
library has its own opinion, so words with such may be cut differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import read_bounded, refuse, text_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import (
    add_names,
    pattern_left_out,
    read_plain_vocab,
    refuse_other_algorithms,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import TokenizerSpec, WordPiece

_BERTS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PRE_TOKENIZERS = {"whitespace": "WhitespaceSplit", "wordpunct": "Whitespace"}
_SUPPORTED = f"WordPiece behind {' or '.join(_PRE_TOKENIZERS.values())} is supported"


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write vocab.txt: one token per line, its id the number of the line.

    Raises:
        InvalidOption: the tokenizer follows another algorithm.
        InvalidTokenizer: ids with gaps, or a token with a line break.
        DiskFull: no space left.
    """
    refuse_other_algorithms(tokenizer, "WordPiece", WordPiece)
    tokens = [tokenizer.spec.vocab.get(id_, b"\n") for id_ in range(tokenizer.spec.vocab_size)]
    if any(b"\n" in token or b"\r" in token for token in tokens):
        raise InvalidTokenizer(
            "the ids of this tokenizer have gaps, or a token holds a line break",
            "in vocab.txt the number of a line is the id of the token in it",
            "save it as 'hf' or 'bpeline', which name ids",
        )
    DURABLE.write(path, b"\n".join([*tokens, b""]))


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """Split pattern, special tokens, and the properties of WordPiece."""
    return {
        "pattern": pattern_left_out(tokenizer),
        "special_tokens": list(tokenizer.spec.special_tokens),
        "algorithm": tokenizer.spec.algorithm,
    }


def load(
    path: Path,
    *,
    pattern: SplitPattern | str = "wordpunct",
    special_tokens: Sequence[str] | None = None,
    algorithm: WordPiece | None = None,
) -> TokenizerSpec:
    """Read a vocab.txt.

    Args:
        path: the file.
        pattern: the split pattern, which the file does not name.
        special_tokens: by default those of BERT that are in it.
        algorithm: the properties of WordPiece, by default BERT's.

    Raises:
        MissingSource: no such file. InvalidTokenizer: not UTF-8, or a token twice.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if len(set(tokens)) != len(tokens):
        refuse(path, "holds a token twice", "each line is a token of its own")
    if special_tokens is None:
        special_tokens = [token for token in _BERTS if token in set(tokens)]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return TokenizerSpec.checked(
        vocab, [], special_tokens, pattern, algorithm=algorithm or WordPiece()
    )


def parts_for_huggingface(tokenizer: TokenizerParts, algorithm: WordPiece) -> dict[str, Any]:
    """pre_tokenizer, decoder and model of a tokenizer.json.

    Raises:
        InvalidTokenizer: a split pattern that no pre-tokenizer stands for.
    """
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
