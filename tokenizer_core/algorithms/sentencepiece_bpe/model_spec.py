"""A SentencePiece model of type BPE as the spec of a tokenizer; reads no file."""

from __future__ import annotations

import base64
from pathlib import Path

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.codec import SentencePieceBpe
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.model_proto import (
    BPE,
    BYTE,
    CONTROL,
    MODEL_TYPES,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.scored_merges import (
    merges_of_scores,
    splits_of,
)
from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.normalization import Normalizer, SentencePieceText
from bpeline.tokenizer_core.vocabulary import Pipeline, TokenizerSpec

ITS_OWN_LIBRARY = "use the library sentencepiece for it"
MARK = "▁"


def spec_of_model(model: SentencePieceModel, path: Path) -> TokenizerSpec:
    """The spec of a model.

    Special tokens are its control pieces and the unknown one, which are found in no text. No ids
    are put around texts: a model does not say whether they should.

    Args:
        path: where it lies, for messages.

    Raises:
        InvalidTokenizer: a model of another type, or with pieces that cannot be encoded exactly.
    """
    if model.model_type != BPE:
        kind = MODEL_TYPES.get(model.model_type, str(model.model_type))
        refuse(path, f"is a model of the type {kind}", "a model of the type bpe", ITS_OWN_LIBRARY)
    if model.decodes_otherwise:
        refuse(path, "names a text for unknown characters, or rules for decoded text",
               "models without unk_surface and denormalizer", ITS_OWN_LIBRARY)  # fmt: skip
    _refuse_inexact(model.pieces, path)
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == NORMAL}
    user_defined = tuple(piece.text for piece in model.pieces if piece.kind == USER_DEFINED)
    merges, ties = merges_of_scores(scores, _parts(model.pieces), path, frozenset(user_defined))
    text = SentencePieceText(
        base64.b64encode(model.charsmap).decode(),
        model.add_dummy_prefix,
        model.remove_extra_whitespaces,
        model.escape_whitespaces,
        model.space_is_suffix,
        user_defined,
    )
    return TokenizerSpec.checked(
        {id_: piece.text.encode() for id_, piece in enumerate(model.pieces)},
        merges,
        {
            piece.text: id_
            for id_, piece in enumerate(model.pieces)
            if piece.kind in (CONTROL, UNKNOWN)
        },
        algorithm=SentencePieceBpe(
            model.byte_fallback,
            model.pieces[model.unknown].text,
            by_piece=True,
            ties=tuple(ties),
            user_defined=user_defined,
        ),
        pipeline=Pipeline(normalizer=Normalizer((text,))),
    )


def _refuse_inexact(pieces: tuple[Piece, ...], path: Path) -> None:
    """Refuse what merges cannot say, which nobody's training makes."""
    known = _parts(pieces)
    for id_, piece in enumerate(pieces):
        if piece.kind in (CONTROL, UNKNOWN, BYTE) and len(piece.text) == 1:
            refuse(
                path,
                f"has the piece {piece.text!r} (id {id_}), one character that is no normal piece",
                "control, unknown and byte pieces of several characters",
                ITS_OWN_LIBRARY,
            )
        is_met = len(piece.text) == 1 or any(True for _ in splits_of(piece.text, known))
        if piece.kind == UNUSED and is_met:
            refuse(
                path,
                f"has the unused piece {piece.text[:40]!r} (id {id_}), which texts hold",
                "unused pieces that nothing makes",
                ITS_OWN_LIBRARY,
            )


def _parts(pieces: tuple[Piece, ...]) -> set[str]:
    """What merges may join."""
    return {piece.text for piece in pieces if piece.kind == NORMAL}
