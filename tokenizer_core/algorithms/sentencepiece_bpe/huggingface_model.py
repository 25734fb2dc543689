"""BPE over characters as parts of HuggingFace's tokenizer.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.codec import SentencePieceBpe
from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats import add_names, read_plain_vocab
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import Pipeline, TokenizerSpec, shown

_SUPPORTED = "BPE over characters without prefixes, suffixes and dropout is supported"
_WITHOUT = {
    "dropout": (None, 0.0), "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
}  # fmt: skip
_FLAGS = ("byte_fallback", "fuse_unk", "ignore_merges")


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    """pre_tokenizer, decoder and model of a tokenizer.json, as they were read.

    Raises:
        InvalidTokenizer: tokens have ranks, and not merges, or some are found before all else.
    """
    spec, algorithm = tokenizer.spec, tokenizer.spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    if algorithm.by_piece or algorithm.user_defined:
        raise InvalidTokenizer(
            "the tokens of this tokenizer have scores, as in SentencePiece",
            "in tokenizer.json merges have ranks: of some texts it would make other ids",
            "save it as 'bpeline'",
        )
    pipeline = spec.pipeline
    named = sorted(spec.model_vocab.items())
    return {
        "pre_tokenizer": None if pipeline is None else pipeline.pre_tokenizer,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": algorithm.unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": algorithm.fuse_unknown,
            "byte_fallback": algorithm.byte_fallback,
            "ignore_merges": spec.ignore_merges,
            "vocab": {token.decode(): id_ for id_, token in named},
            "merges": [[left.decode(), right.decode()] for left, right in spec.merges],
        },
    }


def from_huggingface(
    model: dict[str, Any], pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    """The tokenizer of a tokenizer.json whose model is BPE, and not over bytes.

    Args:
        model: the JSON of the model.
        pattern, pipeline: what the other parts are.

    Raises:
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
    """
    known = {"type", "vocab", "merges", "unk_token", *_WITHOUT, *_FLAGS}
    if unknown := sorted(model.keys() - known):
        refuse(path, f"sets {unknown[0]!r} of the model, which is not understood", _SUPPORTED)
    for name, accepted in _WITHOUT.items():
        if model.get(name) not in accepted:
            refuse(path, f"sets {name} of the model to {model[name]!r}", _SUPPORTED)
    flags = {name: model.get(name) or False for name in _FLAGS}
    if any(not isinstance(flag, bool) for flag in flags.values()):
        refuse(path, f"has a model with flags that are none: {flags}", _SUPPORTED)
    unk_token = model.get("unk_token")
    if not isinstance(unk_token, str | None):
        refuse(path, f"has the unknown token {str(unk_token)[:40]!r}", _SUPPORTED)
    named = model["vocab"]
    if flags["ignore_merges"] and unk_token is None and "<0x00>" not in named:
        refuse(path, "sets ignore_merges, and leaves unknown characters out of words", _SUPPORTED)
    merges = _merges(model.get("merges"), path)
    made = {named.get((left + right).decode()) for left, right in merges}

    def is_met(content: str) -> bool:
        return len(content) == 1 or (flags["ignore_merges"] and not pattern.parts(content))

    stand_ins = {unk_token, *(f"<0x{byte:02X}>" for byte in range(256))}
    if apart := [one for one in pipeline.added_tokens if one.content in stand_ins - {*named}]:
        refuse(path, f"lacks {shown(apart[0].content)}, an added token, in the vocab", _SUPPORTED)
    pipeline = pipeline.with_model_tokens({*named}, made, is_met)
    add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    if "" in named:
        refuse(path, "has a token without text", "tokens of at least one character")
    vocab = read_plain_vocab(named, path)
    return TokenizerSpec.checked(
        vocab,
        merges,
        pipeline.special_tokens,
        pattern,
        algorithm=SentencePieceBpe(flags["byte_fallback"], unk_token, flags["fuse_unk"]),
        ignore_merges=flags["ignore_merges"],
        pipeline=pipeline,
    )


def _merges(given: Any, path: Path) -> list[tuple[bytes, bytes]]:
    if not isinstance(given, list):
        refuse(path, "has a model without merges", _SUPPORTED)
    pairs = [_pair(merge, path) for merge in given if not _is_version(merge)]
    return [(left.encode(), right.encode()) for left, right in pairs]


def _is_version(merge: Any) -> bool:
    return isinstance(merge, str) and merge.startswith("#version")


def _pair(merge: Any, path: Path) -> tuple[str, str]:
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
        refuse(path, f"has no pair of tokens at the merge {str(merge)[:40]!r}", _SUPPORTED)
    return pair[0], pair[1]
