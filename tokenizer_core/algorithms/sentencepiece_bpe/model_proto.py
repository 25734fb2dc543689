"""SentencePiece's .model: a protocol buffer read with limits, by our own reader. Trusts nothing.

Fields that decide nothing here are skipped once they are known to be well formed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from bpeline.tokenizer_core.bounded_files import refuse

MOST_PIECES = 1 << 20
LONGEST_PIECE = 1 << 12  # bytes
LONGEST_CHARSMAP = 1 << 22

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_KINDS = (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
UNKNOWN_SURFACE = " ⁇ "  # the text of the unknown token where a model names no other
MODEL_TYPES = {UNIGRAM: "unigram", BPE: "bpe", WORD: "word", CHAR: "char"}

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_FIELDS = 1 << 22  # of one message


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the vocab; its id is its number."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """What a .model says that decides ids.

    Attributes:
        pieces: by id.
        model_type: `BPE` or one of `MODEL_TYPES`.
        byte_fallback: whether unknown characters become pieces of bytes.
        space_is_suffix: whether ``▁`` ends words, and does not begin them.
        charsmap: the rules of the normalizer; b"" for none.
        add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces: see `SentencePieceText`.
        decodes_otherwise: whether it has an ``unk_surface`` or a denormalizer of its own.
        unknown: the id of the piece for unknown characters.
    """

    pieces: tuple[Piece, ...]
    model_type: int
    byte_fallback: bool
    space_is_suffix: bool
    charsmap: bytes = field(repr=False)
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    decodes_otherwise: bool

    @property
    def unknown(self) -> int:
        return next(id_ for id_, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_model(content: bytes, path: Path) -> SentencePieceModel:
    """The model that is in a file's content.

    Args:
        path: for messages.

    Raises:
        InvalidTokenizer: no protocol buffer, no model, or such as SentencePiece refuses.
    """
    pieces: list[Piece] = []
    trainer = normalizer = denormalizer = b""
    for number, value in _fields(memoryview(content), path):
        if number == 1:
            if len(pieces) == MOST_PIECES:
                refuse(path, f"has more than {MOST_PIECES:,} pieces")
            pieces.append(_piece(_message(value, path), len(pieces), path))
        elif number == 2:
            trainer += _message(value, path)  # parts of one message, as the format prescribes
        elif number == 3:
            normalizer += _message(value, path)
        elif number == 5:
            denormalizer += _message(value, path)
    if not pieces:
        refuse(path, "holds no pieces", "a SentencePiece model, as spm_train writes it")
    trained = dict(_fields(memoryview(trainer), path))
    _check_pieces(pieces, bool(_whole(trained, 35, 0, path)), path)
    normal = dict(_fields(memoryview(normalizer), path))
    charsmap = normal.get(2, b"")
    if not isinstance(charsmap, bytes) or len(charsmap) > LONGEST_CHARSMAP:
        refuse(path, f"has rules of a normalizer that are no bytes, or above {LONGEST_CHARSMAP:,}")
    return SentencePieceModel(
        tuple(pieces),
        _whole(trained, 3, UNIGRAM, path),
        bool(_whole(trained, 35, 0, path)) or any(piece.kind == BYTE for piece in pieces),
        bool(_whole(trained, 24, 0, path)),
        charsmap,
        bool(_whole(normal, 3, 1, path)),
        bool(_whole(normal, 4, 1, path)),
        bool(_whole(normal, 5, 1, path)),
        trained.get(44, UNKNOWN_SURFACE.encode()) != UNKNOWN_SURFACE.encode()
        or bool(dict(_fields(memoryview(denormalizer), path)).get(2)),
    )


def _check_pieces(pieces: list[Piece], byte_fallback: bool, path: Path) -> None:
    seen: set[str] = set()
    for id_, piece in enumerate(pieces):
        if piece.text in seen:
            refuse(path, f"has the piece {piece.text[:40]!r} twice", "pieces that differ")
        seen.add(piece.text)
        if piece.kind != UNKNOWN and not math.isfinite(piece.score):
            refuse(path, f"gives the piece {id_} the score {piece.score}", "finite scores")
    kinds = [piece.kind for piece in pieces]
    if (unknowns := kinds.count(UNKNOWN)) != 1:
        refuse(path, f"has {unknowns} unknown pieces", "exactly one")
    of_bytes = {piece.text for piece in pieces if piece.kind == BYTE}
    if (of_bytes or byte_fallback) and of_bytes != {f"<0x{byte:02X}>" for byte in range(256)}:
        refuse(path, f"has {len(of_bytes)} pieces of bytes", "all 256 of them, or none")


def _piece(content: bytes, id_: int, path: Path) -> Piece:
    text, score, kind = b"", 0.0, NORMAL
    for number, value in _fields(memoryview(content), path):
        if number == 1:
            text = _message(value, path)
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            kind = value
        elif number in (1, 2, 3):
            refuse(path, f"has a piece {id_} with a part of another type")
    if not 0 < len(text) <= LONGEST_PIECE:
        refuse(path, f"has a piece {id_} of {len(text)} bytes", f"1 to {LONGEST_PIECE} bytes")
    if kind not in _KINDS:
        refuse(path, f"has a piece {id_} of the type {kind}")
    try:
        return Piece(text.decode(), score, kind)
    except UnicodeDecodeError:
        refuse(path, f"has a piece {id_} that is not UTF-8")


def _message(value: int | float | bytes, path: Path) -> bytes:
    if not isinstance(value, bytes):
        refuse(path, "has a number where a message belongs")
    return value


def _whole(fields: dict[int, int | float | bytes], number: int, default: int, path: Path) -> int:
    value = fields.get(number, default)
    if not isinstance(value, int):
        refuse(path, f"has no whole number as field {number}")
    return value


def _fields(content: memoryview, path: Path) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: whole numbers as int, 4 bytes as float, the rest as bytes."""
    at = count = 0
    while at < len(content):
        count += 1
        tag, at = _varint(content, at, path)
        number, wire = tag >> 3, tag & 7
        if number == 0 or count > _MAX_FIELDS:
            _refuse_form(path, at)
        if wire == _VARINT:
            value, at = _varint(content, at, path)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(content, at, path)
            if size > len(content) - at:
                _refuse_form(path, at)
            yield number, bytes(content[at : at + size])
            at += size
        elif wire in (_FIXED_32, _FIXED_64):
            size = 4 if wire == _FIXED_32 else 8
            if size > len(content) - at:
                _refuse_form(path, at)
            form = "<f" if wire == _FIXED_32 else "<d"
            yield number, struct.unpack_from(form, content, at)[0]
            at += size
        else:  # groups, which nobody writes any more
            _refuse_form(path, at)


def _varint(content: memoryview, at: int, path: Path) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at == len(content) or shift == 7 * _MAX_VARINT_BYTES:
            _refuse_form(path, at)
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


def _refuse_form(path: Path, at: int) -> NoReturn:
    refuse(
        path,
        f"is no protocol buffer at byte {at} of a message",
        "a SentencePiece model, as spm_train writes it",
    )
