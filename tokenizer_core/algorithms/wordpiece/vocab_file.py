"""BERT's vocab.txt: one token of WordPiece per line, its id the number of the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.algorithms import WordPiece
from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse, text_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats import (
    pattern_left_out,
    refuse_other_algorithms,
    refuse_tokens_beside,
    spec_of,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

_BERTS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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
    """Split pattern, special tokens, properties of WordPiece, and that nothing is normalized."""
    return {
        "pattern": pattern_left_out(tokenizer),
        "special_tokens": list(tokenizer.spec.special_tokens),
        "algorithm": tokenizer.spec.algorithm,
        "without_normalizer": True,
    }


def load(
    path: Path,
    *,
    pattern: SplitPattern | str | None = None,
    special_tokens: Sequence[str] | None = None,
    algorithm: WordPiece | None = None,
    without_normalizer: bool = False,
    uncased: bool = False,
    cased: bool = False,
) -> TokenizerSpec:
    """Read a vocab.txt.

    BERT's tokenizers clean texts, lower-case them or not, and cut them by rules of their own. The
    file says nothing of that: a tokenizer_config.json beside it may, else the caller must.

    Args:
        path: the file.
        pattern: the split pattern, which the file does not name.
        special_tokens: by default those of BERT that are in it.
        algorithm: the properties of WordPiece, by default BERT's.
        without_normalizer: texts are encoded as they are.
        uncased, cased: texts are cleaned and cut as by BERT's tokenizers, lower-cased or not.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: not UTF-8, a token twice, or nobody said how texts are treated; or see
            `refuse_tokens_beside`.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if len(set(tokens)) != len(tokens):
        refuse(path, "holds a token twice", "each line is a token of its own")
    flags = {"do_lower_case": uncased} if uncased or cased else _flags_beside(path)
    if flags is not None and pattern is None:
        spec = _of_bert(tokens, flags, path)
        refuse_tokens_beside(path.parent, spec)
        return spec
    if pattern is None or not without_normalizer:
        _refuse_unsaid(path)
    is_guessed = special_tokens is None
    if special_tokens is None:
        special_tokens = [token for token in _BERTS if token in set(tokens)]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    spec = TokenizerSpec.checked(
        vocab, [], special_tokens, pattern, algorithm=algorithm or WordPiece()
    )
    if is_guessed:
        refuse_tokens_beside(path.parent, spec)
    return spec


def _of_bert(tokens: Sequence[str], flags: Mapping[str, Any], path: Path) -> TokenizerSpec:
    """The tokenizer that HuggingFace's BERT classes make of a vocab.txt.

    Args:
        flags: of a tokenizer_config.json, or their defaults.
    """
    ids = {token: id_ for id_, token in enumerate(tokens)}
    if missing := [token for token in _BERTS if token not in ids]:
        refuse(path, f"lacks {missing[0]}, which BERT puts around texts or takes for the unknown")
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    document = {
        "added_tokens": [
            {"id": ids[token], "content": token, "special": True, **plain} for token in _BERTS
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": flags.get("tokenize_chinese_chars", True),
            "strip_accents": flags.get("strip_accents"),
            "lowercase": flags.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", ids["[SEP]"]],
            "cls": ["[CLS]", ids["[CLS]"]],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
    return spec_of(document, path)


def _flags_beside(path: Path) -> Mapping[str, Any] | None:
    """What a tokenizer_config.json of a BERT class beside a vocab.txt says; None without one."""
    beside = path.with_name("tokenizer_config.json")
    config = json_of(read_bounded(beside), beside) if beside.exists() else None
    if not isinstance(config, dict) or "do_lower_case" not in config:
        return None
    return config


def _refuse_unsaid(path: Path) -> NoReturn:
    refuse(
        path,
        "does not say what is done to texts before they are looked up: BERT's tokenizers clean "
        "them, lower-case them or not, and cut them at punctuation and Chinese characters",
        "BERT's own way with lower-casing or without, or texts that come as they are to be cut",
        f"say which, wherever a command takes a tokenizer: {path},uncased or {path},cased, or "
        f"{path},without_normalizer,pattern=whitespace; and Tokenizer.load(PATH, uncased=True)",
    )
