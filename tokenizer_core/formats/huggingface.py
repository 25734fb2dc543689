"""HuggingFace's tokenizer.json: what it is written as, and who reads it.

What has no encoder here is run by the ``tokenizers`` library itself, where that is installed. Mind
the difference in use: it recognizes special tokens in every text, and so does a tokenizer that was
read from such a file; with tokenizers made here they are ordinary text unless allowed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded
from bpeline.tokenizer_core.companions import COMPANIONS
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    InvalidTokenizer,
    PatternExceedsLimit,
)
from bpeline.tokenizer_core.formats.by_library import FOREIGN, read_by_library
from bpeline.tokenizer_core.formats.huggingface_reading import (
    Unpredictable,
    spec_of,
)
from bpeline.tokenizer_core.formats.plain_tokens import (
    json_text,
    nothing_left_out,
    refuse_other_algorithms,
)
from bpeline.tokenizer_core.formats.printable import named_vocab, printable_merges
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import ByteBpe, Pipeline, TokenizerSpec

left_out = nothing_left_out
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
_ADDED_TOKEN = {**_PLAIN, "special": True}


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write tokenizer.json for ``tokenizers.Tokenizer.from_file`` (0.20 or newer).

    What is written was read back, and is the same tokenizer; no library is asked.

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one, or what is read back is
            another tokenizer.
        InvalidPattern: a split pattern that drops text, or that Oniguruma reads differently.
        InvalidOption: an algorithm that the format does not hold.
        DiskFull: no space left.
    """
    spec = tokenizer.spec
    if spec.algorithm.name == FOREIGN:
        DURABLE.write(path, COMPANIONS[FOREIGN].part().tokenizer_json(spec))
        return
    companion = COMPANIONS.get(spec.algorithm.name)
    if companion is not None and companion.huggingface_model:
        parts = companion.part("huggingface_model").parts_for_huggingface(tokenizer)
    else:
        if not isinstance(spec.algorithm, ByteBpe):
            refuse_other_algorithms(tokenizer, "byte-level BPE and WordPiece", ByteBpe)
        parts = _parts_of_byte_bpe(tokenizer)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": id_, "content": token, **_ADDED_TOKEN}
            for token, id_ in sorted(spec.special_tokens.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": None,
        "decoder": parts["decoder"],
        "model": parts["model"],
    }
    if spec.pipeline is not None:
        document.update(_parts_of_pipeline(spec.pipeline))
    content = json_text(document)
    if reason := _misread(content, spec, path):
        raise InvalidTokenizer(
            f"tokenizer.json does not hold this tokenizer: {reason}",
            "a file that is read back as the same tokenizer",
            "save it as 'bpeline', which keeps every tokenizer",
        )
    DURABLE.write(path, content)


def _misread(content: bytes, spec: TokenizerSpec, path: Path) -> str:
    """How a file would be read as another tokenizer; empty where it is not."""
    try:
        read = spec_of(json_of(content, path), path)
    except (InvalidTokenizer, InvalidPattern) as refusal:
        return refusal.happened
    if spec.pipeline is None:  # nothing of it is ours
        read = replace(read, pipeline=None, pattern=spec.pattern)
    return "" if read.digest == spec.digest else "read back, it is another one"


def _parts_of_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    """What an imported tokenizer's file says of it, besides its model."""
    described = pipeline.described()
    parts: dict[str, Any] = {"added_tokens": described.get("added_tokens", [])}
    names = {"normalizer": "normalizer", "template": "post_processor"}
    parts |= {name: described[part] for part, name in names.items() if part in described}
    if pipeline.decoder is not None:
        parts["decoder"] = pipeline.decoder.described()
    return {**parts, **described.get("carried", {})}


def _parts_of_byte_bpe(tokenizer: TokenizerParts) -> dict[str, Any]:
    pipeline = tokenizer.spec.pipeline
    found = None if pipeline is None else pipeline.pre_tokenizer
    pre_tokenizer = found or _pre_tokenizer(tokenizer.spec.pattern)
    return {
        "pre_tokenizer": pre_tokenizer,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.spec.ignore_merges,
            "vocab": named_vocab(tokenizer, tokenizer.spec.model_vocab),
            "merges": printable_merges(tokenizer),
        },
    }


def load(path: Path) -> TokenizerSpec:
    """Read a tokenizer.json: ids and decoded text are those of ``tokenizers``, on every text.

    Byte-level BPE, BPE of SentencePiece's kind and WordPiece are encoded here, with normalizers,
    added tokens, prefixes and decoders; what has no encoder here (Unigram, rare steps) is handed
    to the ``tokenizers`` library, and the remarks say why. Special tokens around a text are put
    there where they are asked for; truncation and padding are carried along and never applied.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a part that has no encoder here, and the optional library
            is not installed or does not read it either.
        InvalidPattern: a split regex that cannot be used; likewise.
    """
    content = read_bounded(path)
    document = json_of(content, path)
    try:
        return spec_of(document, path)
    except (PatternExceedsLimit, Unpredictable):  # no other library does better
        raise
    except (InvalidTokenizer, InvalidPattern) as refusal:
        return read_by_library("tokenizers", content, refusal)


def _pre_tokenizer(pattern: SplitPattern) -> dict[str, Any]:
    if pattern.name == "gpt2":
        return {**_BYTE_LEVEL, "use_regex": True}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern.regex_for_export},
                "behavior": "Isolated",
                "invert": False,
            },
            {**_BYTE_LEVEL, "use_regex": False},
        ],
    }
