"""BERT's vocab.txt: one token of WordPiece per line, its id the number of the line."""

from __future__ import annotations

from collections.abc import Sequence
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
) -> TokenizerSpec:
    """Read a vocab.txt.

    BERT's tokenizers clean texts, lower-case them or not, and cut them by rules of their own. The
    file says nothing of that, so it is refused unless the caller says how texts are cut, and that
    they come as they are to be cut.

    Args:
        path: the file.
        pattern: the split pattern, which the file does not name.
        special_tokens: by default those of BERT that are in it.
        algorithm: the properties of WordPiece, by default BERT's.
        without_normalizer: texts are encoded as they are.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: not UTF-8, a token twice, or nobody said how texts are treated.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if len(set(tokens)) != len(tokens):
        refuse(path, "holds a token twice", "each line is a token of its own")
    if pattern is None or not without_normalizer:
        _refuse_unsaid(path)
    if special_tokens is None:
        special_tokens = [token for token in _BERTS if token in set(tokens)]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return TokenizerSpec.checked(
        vocab, [], special_tokens, pattern, algorithm=algorithm or WordPiece()
    )


def _refuse_unsaid(path: Path) -> NoReturn:
    beside = path.with_name("tokenizer_config.json")
    config = json_of(read_bounded(beside), beside) if beside.exists() else None
    said = [
        f"{flag}={config[flag]!r}"[:60]
        for flag in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
        if isinstance(config, dict) and flag in config
    ]
    problem = (
        f"goes with BERT's normalizer and pre-tokenizer ({', '.join(said)} in {beside.name}), "
        "which are not understood"
        if said
        else "does not say what is done to texts before they are looked up (BERT's tokenizers "
        "clean them, lower-case them or not, and cut them at punctuation and Chinese characters)"
    )
    refuse(
        path,
        problem,
        "texts that come as they are to be cut, by a split pattern that is named",
        "do that yourself: Tokenizer.load(PATH, pattern='whitespace', without_normalizer=True), "
        f"and wherever a command takes a tokenizer: {path},without_normalizer,pattern=whitespace",
    )
