"""Files of BPE over characters: tokenizer.json, GGUF (llama), SentencePiece.

Merges are derived from the scores that .model and GGUF files hold. GGUF differs from SentencePiece:
merges can make every token, also control and byte tokens, and each piece of text between special
tokens gets a leading space.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core import formats
from bpeline.tokenizer_core.algorithms import sentencepiece_model as proto
from bpeline.tokenizer_core.algorithms import unigram
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe import SentencePieceBpe
from bpeline.tokenizer_core.algorithms.sentencepiece_model import SPACE
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.pipeline import (
    DecoderSteps,
    Normalizer,
    Pipeline,
    SentencePieceText,
    models,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown

_WRITTEN = "char-bpe"  # the only algorithm written as a .model
_ITS_OWN_LIBRARY = "use the library sentencepiece for it"
_SUPPORTED = "expected BPE over characters without prefixes, suffixes and dropout"
_ESCAPE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
_PREPEND = {"type": "Prepend", "prepend": "▁"}
_JOIN: tuple[dict[str, Any], ...] = (
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
)
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}

Merge = tuple[bytes, bytes]

left_out = formats.nothing_left_out


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write a file for ``sentencepiece.SentencePieceProcessor(model_file=...)``."""
    if tokenizer.spec.algorithm.name != _WRITTEN:
        raise InvalidOption(
            f"this tokenizer uses {tokenizer.spec.algorithm.name}",
            "expected char-bpe: byte-level tokens end inside characters, and SentencePiece merges "
            "across the words of a split pattern",
            "save it as 'bpeline', which keeps every tokenizer, or train with "
            "`--algorithm char-bpe`",
        )
    DURABLE.write(path, proto.written_model(tokenizer, roles))


def differences(tokenizer: TokenizerParts) -> list[str]:
    """List the texts that SentencePiece encodes to other ids than this tokenizer."""
    if tokenizer.spec.algorithm.name != _WRITTEN:
        return []
    return [
        "tabs, line breaks and other white space, which SentencePiece does not treat as spaces",
        "several unknown characters in a row, which SentencePiece encodes as one id",
        f"{SPACE} in a text, which SentencePiece treats as a space",
    ]


def load(path: Path) -> TokenizerSpec:
    """Read a model of type bpe or unigram; ids equal those of sentencepiece 0.2.3."""
    return spec_of_model(proto.read_model(read_bounded(path), path), path)


def spec_of_model(model: proto.SentencePieceModel, path: Path) -> TokenizerSpec:
    """Build the spec of a model.

    Control pieces and the unknown piece become special tokens, which never match in text. No ids
    are added around texts: a model does not say whether they should be.
    """
    if model.model_type not in (proto.BPE, proto.UNIGRAM):
        kind = proto.MODEL_TYPES.get(model.model_type, str(model.model_type))
        refuse(
            path,
            f"is a model of the type {kind}",
            "expected the types bpe or unigram",
            _ITS_OWN_LIBRARY,
        )
    if model.decodes_otherwise:
        refuse(path, "sets a text for unknown characters, or rules for decoded text",
               "expected no unk_surface and no denormalizer", _ITS_OWN_LIBRARY)  # fmt: skip
    user_defined = tuple(piece.text for piece in model.of_kinds(proto.USER_DEFINED).values())
    text = SentencePieceText(
        base64.b64encode(model.charsmap).decode(),
        model.add_dummy_prefix,
        model.remove_extra_whitespaces,
        model.escape_whitespaces,
        model.space_is_suffix,
        user_defined,
    )
    if model.model_type == proto.UNIGRAM:
        return unigram.spec_of_model(model, text, path)
    _refuse_inexact(model, path)
    scores = {piece.text: piece.score for piece in model.of_kinds(proto.NORMAL).values()}
    merges, ties = merges_of_scores(scores, scores.keys(), path, frozenset(user_defined))
    return TokenizerSpec.checked(
        {id_: piece.text.encode() for id_, piece in enumerate(model.pieces)},
        merges,
        {piece.text: id_ for id_, piece in model.of_kinds(proto.CONTROL, proto.UNKNOWN).items()},
        algorithm=SentencePieceBpe(
            model.byte_fallback,
            model.pieces[model.unknown].text,
            by_piece=True,
            ties=tuple(ties),
            user_defined=user_defined,
        ),
        pipeline=Pipeline(normalizer=Normalizer((text,))),
    )


def _refuse_inexact(model: proto.SentencePieceModel, path: Path) -> None:
    """Raise for pieces that merges cannot express; training never makes them."""
    known = {piece.text for piece in model.of_kinds(proto.NORMAL).values()}
    for id_, piece in model.of_kinds(proto.CONTROL, proto.UNKNOWN, proto.BYTE).items():
        if len(piece.text) == 1:
            refuse(
                path,
                f"has the piece {piece.text!r} (id {id_}), one character that is no normal piece",
                "expected control, unknown and byte pieces of several characters",
                _ITS_OWN_LIBRARY,
            )
    for id_, piece in model.of_kinds(proto.UNUSED).items():
        if len(piece.text) == 1 or any(True for _ in splits_of(piece.text, known)):
            refuse(
                path,
                f"has the unused piece {piece.text[:40]!r} (id {id_}), which texts can contain",
                "expected unused pieces that no merge makes",
                _ITS_OWN_LIBRARY,
            )


def merges_of_scores(
    scores: Mapping[str, float], known: Collection[str], path: Path, frozen: Set[str] = frozenset()
) -> tuple[list[Merge], list[int]]:
    """Derive merges and `SentencePieceBpe.ties` from scores.

    SentencePiece first merges the neighbours that form the token of the greatest score, leftmost of
    equals. So merges are all splits of tokens into two, ordered by score, then by the length of the
    left part. ``known`` tokens may be parts; ``frozen`` ones never are, though texts contain them.
    """
    merges: list[Merge] = []
    ties: list[int] = []
    made = 0
    before = 0.0
    for text in sorted(scores, key=lambda text: -scores[text]):
        splits = [pair for pair in splits_of(text, known) if frozen.isdisjoint(pair)]
        if not splits:
            continue
        if made and scores[text] == before:
            ties.append(made)
        for left, right in splits:
            if part := next((p for p in (left, right) if p not in known), None):
                refuse(
                    path,
                    f"has the token {text[:40]!r}, made of {part!r}, which is not a token",
                    "expected tokens made of tokens",
                    "train or export the model again",
                )
            merges.append((left.encode(), right.encode()))
        before = scores[text]
        made += 1
    return merges, ties


def splits_of(text: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the splits of a text into two parts, each a character or in ``known``."""
    for at in range(1, len(text)):
        left, right = text[:at], text[at:]
        if (at == 1 or left in known) and (len(right) == 1 or right in known):
            yield left, right


def parts_for_huggingface(tokenizer: TokenizerParts) -> dict[str, Any]:
    spec, algorithm = tokenizer.spec, tokenizer.spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    if algorithm.by_piece or algorithm.user_defined:
        raise InvalidTokenizer(
            "the tokens of this tokenizer have scores, as in SentencePiece",
            "expected merges with ranks, as in tokenizer.json: some texts would get other ids",
            "save it as 'bpeline'",
        )
    pipeline = spec.pipeline
    named = sorted(spec.model_vocab.items())
    return {
        "pre_tokenizer": None if pipeline is None else pipeline.pre_tokenizer,
        "decoder": None,
        "model": models.BPE(
            vocab={token.decode(): id_ for id_, token in named},
            merges=[[left.decode(), right.decode()] for left, right in spec.merges],
            unk_token=algorithm.unknown,
            fuse_unk=algorithm.fuse_unknown,
            byte_fallback=algorithm.byte_fallback,
            ignore_merges=spec.ignore_merges,
        ),
    }


def from_huggingface(
    model: models.BPE, pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    unk_token, ignore_merges = model.unk_token, bool(model.ignore_merges)
    named = model.vocab
    if ignore_merges and unk_token is None and "<0x00>" not in named:
        refuse(path, "sets ignore_merges, and drops unknown characters from words", _SUPPORTED)
    listed = model.merges
    if isinstance(listed, list):  # older files hold strings
        listed = [
            merge.split(" ") if isinstance(merge, str) else merge
            for merge in listed
            if not str(merge).startswith("#version")
        ]
    merges = formats.read_plain_merges(listed, path)
    made = {named.get((left + right).decode()) for left, right in merges}

    def is_met(content: str) -> bool:
        return len(content) == 1 or (ignore_merges and not pattern.parts(content))

    stand_ins = {unk_token, *(f"<0x{byte:02X}>" for byte in range(256))}
    if apart := [
        added_token
        for added_token in pipeline.added_tokens
        if added_token.content in stand_ins - {*named}
    ]:
        refuse(path, f"lacks {shown(apart[0].content)}, an added token, in the vocab", _SUPPORTED)
    pipeline = pipeline.with_model_tokens({*named}, made, is_met)
    formats.add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    if "" in named:
        refuse(path, "has a token without text", "expected tokens of at least one character")
    vocab = formats.read_plain_vocab(named, path)
    return TokenizerSpec.checked(
        vocab,
        merges,
        pipeline.special_tokens,
        pattern,
        algorithm=SentencePieceBpe(bool(model.byte_fallback), unk_token, bool(model.fuse_unk)),
        ignore_merges=ignore_merges,
        pipeline=pipeline,
    )


def from_gguf(read: formats.GgufVocabulary, path: Path) -> TokenizerSpec:
    """Build the spec of a GGUF tokenizer of type llama."""
    if missing := {f"<0x{byte:02X}>" for byte in range(256)} - set(read.tokens):
        refuse(path, f"lacks {len(missing)} byte tokens", "expected all 256 from <0x00> to <0xFF>")
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
