"""SentencePiece's .model: read where it is BPE; written of character BPE, by that algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.model_proto import read_model
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.model_spec import MARK, spec_of_model
from bpeline.tokenizer_core.bounded_files import read_bounded
from bpeline.tokenizer_core.companions import COMPANIONS
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import nothing_left_out, read_by_library
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

left_out = nothing_left_out
SPACE = MARK


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the file that ``sentencepiece.SentencePieceProcessor(model_file=...)`` reads.

    Args:
        roles: what special tokens are declared to be for, see `declared_roles`.

    Raises:
        InvalidOption: an algorithm that SentencePiece does not have.
        InvalidTokenizer: SentencePiece would give other ids.
        DiskFull: no space left.
    """
    _writer(tokenizer).save(tokenizer, path, roles)


def differences(tokenizer: TokenizerParts) -> list[str]:
    """The texts that SentencePiece reads otherwise than what was written here; of others, none."""
    companion = COMPANIONS.get(tokenizer.spec.algorithm.name)
    told: list[str] = (
        _writer(tokenizer).differences(tokenizer)
        if companion is not None and companion.sentencepiece_writer
        else []
    )
    return told


def load(path: Path) -> TokenizerSpec:
    """Read a model: the ids of sentencepiece 0.2.3 on every text.

    Models of the type BPE are encoded here; others (unigram) are run by the library itself, and
    the remarks say so.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: no model; or one that has no encoder here, and the optional library is
            not installed.
    """
    content = read_bounded(path)
    model = read_model(content, path)
    try:
        return spec_of_model(model, path)
    except InvalidTokenizer as refusal:
        return read_by_library("sentencepiece", content, refusal)


def _writer(tokenizer: TokenizerParts) -> Any:
    companion = COMPANIONS.get(tokenizer.spec.algorithm.name)
    if companion is None or not companion.sentencepiece_writer:
        raise InvalidOption(
            f"this tokenizer follows {tokenizer.spec.algorithm.name}",
            "SentencePiece merges whole characters over whole texts: byte-level tokens end inside "
            "characters, and the split pattern keeps apart what it would merge",
            "save it as 'bpeline', which keeps every tokenizer, or train with "
            "`--algorithm char-bpe`",
        )
    return companion.part(companion.sentencepiece_writer)
