"""Files of BPE over characters: tokenizer.json, GGUF of type llama, and SentencePiece's .model.

The merges of a file with scores are derived from these. In GGUF files, other than in SentencePiece,
merges make every token, also control tokens and those of bytes, and a space goes before each piece
of text between special tokens.
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

_WRITTEN = "char-bpe"  # the algorithm of which a .model is written
_ITS_OWN_LIBRARY = "use the library sentencepiece for it"
_SUPPORTED = "BPE over characters without prefixes, suffixes and dropout is supported"
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
    """Write the file that ``sentencepiece.SentencePieceProcessor(model_file=...)`` reads.

    Args:
        roles: what special tokens are declared to be for, see `declared_roles`.

    Raises:
        InvalidOption, InvalidTokenizer: another algorithm than character BPE, or see
            `written_model`.
    """
    if tokenizer.spec.algorithm.name != _WRITTEN:
        raise InvalidOption(
            f"this tokenizer follows {tokenizer.spec.algorithm.name}",
            "SentencePiece merges whole characters over whole texts: byte-level tokens end inside "
            "characters, and the split pattern keeps apart what it would merge",
            "save it as 'bpeline', which keeps every tokenizer, or train with "
            "`--algorithm char-bpe`",
        )
    DURABLE.write(path, proto.written_model(tokenizer, roles))


def differences(tokenizer: TokenizerParts) -> list[str]:
    """The texts of which SentencePiece makes other ids than the tokenizer that was written."""
    if tokenizer.spec.algorithm.name != _WRITTEN:
        return []
    return [
        "tabs, line breaks and other white space, which are no spaces there",
        "several unknown characters in a row, which are one id there",
        f"{SPACE} in a text, which is a space there",
    ]


def load(path: Path) -> TokenizerSpec:
    """Read a model of the type bpe or unigram: the ids of sentencepiece 0.2.3 on every text.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: no model; or one that has no encoder here.
    """
    return spec_of_model(proto.read_model(read_bounded(path), path), path)


def spec_of_model(model: proto.SentencePieceModel, path: Path) -> TokenizerSpec:
    """The spec of a model.

    Special tokens are its control pieces and the unknown one, which are found in no text. No ids
    are put around texts: a model does not say whether they should.

    Raises:
        InvalidTokenizer: a model of another type, or with pieces that cannot be encoded exactly.
    """
    if model.model_type not in (proto.BPE, proto.UNIGRAM):
        kind = proto.MODEL_TYPES.get(model.model_type, str(model.model_type))
        refuse(
            path, f"is a model of the type {kind}", "the types bpe and unigram", _ITS_OWN_LIBRARY
        )
    if model.decodes_otherwise:
        refuse(path, "names a text for unknown characters, or rules for decoded text",
               "models without unk_surface and denormalizer", _ITS_OWN_LIBRARY)  # fmt: skip
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
    """Refuse what merges cannot say; no training makes it."""
    known = {piece.text for piece in model.of_kinds(proto.NORMAL).values()}
    for id_, piece in model.of_kinds(proto.CONTROL, proto.UNKNOWN, proto.BYTE).items():
        if len(piece.text) == 1:
            refuse(
                path,
                f"has the piece {piece.text!r} (id {id_}), one character that is no normal piece",
                "control, unknown and byte pieces of several characters",
                _ITS_OWN_LIBRARY,
            )
    for id_, piece in model.of_kinds(proto.UNUSED).items():
        if len(piece.text) == 1 or any(True for _ in splits_of(piece.text, known)):
            refuse(
                path,
                f"has the unused piece {piece.text[:40]!r} (id {id_}), which texts hold",
                "unused pieces that nothing makes",
                _ITS_OWN_LIBRARY,
            )


def merges_of_scores(
    scores: Mapping[str, float], known: Collection[str], path: Path, frozen: Set[str] = frozenset()
) -> tuple[list[Merge], list[int]]:
    """All splits of tokens into two, and which of the tokens have the score of the one before.

    The neighbours whose text is the token of greatest score are merged first, the leftmost of
    equals: tokens are in the order of their scores, and for one token its splits by the left part.

    Args:
        scores: of the tokens that merges may make.
        known: what may be a part.
        frozen: what never is one, though it stands in texts.
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
                    f"has the token {text[:40]!r}, which is made of {part!r}, no token itself",
                    "tokens made of tokens",
                    "train or export the model again",
                )
            merges.append((left.encode(), right.encode()))
        before = scores[text]
        made += 1
    return merges, ties


def splits_of(text: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Both sides of each place where a text comes apart into characters and what is known."""
    for at in range(1, len(text)):
        left, right = text[:at], text[at:]
        if (at == 1 or left in known) and (len(right) == 1 or right in known):
            yield left, right


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
    """The tokenizer of a tokenizer.json whose model is BPE, and not over bytes.

    Args:
        pattern, pipeline: what the parts besides the model are.

    Raises:
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
    """
    unk_token, ignore_merges = model.unk_token, bool(model.ignore_merges)
    named = model.vocab
    if ignore_merges and unk_token is None and "<0x00>" not in named:
        refuse(path, "sets ignore_merges, and leaves unknown characters out of words", _SUPPORTED)
    listed = model.merges
    if isinstance(listed, list):  # of strings in older files
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
    if apart := [one for one in pipeline.added_tokens if one.content in stand_ins - {*named}]:
        refuse(path, f"lacks {shown(apart[0].content)}, an added token, in the vocab", _SUPPORTED)
    pipeline = pipeline.with_model_tokens({*named}, made, is_met)
    formats.add_names(named, {token.content: token.id for token in pipeline.added_tokens}, path)
    if "" in named:
        refuse(path, "has a token without text", "tokens of at least one character")
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
    """The spec of a tokenizer of type llama.

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
