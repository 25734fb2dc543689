"""SentencePiece's ``.model`` files: a reader, and a writer for character BPE.

SentencePiece merges over a whole text whose spaces are ▁. Character BPE does the same if the
end-of-word mark is a symbol of its own: the mark is written as a ▁ after each word.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import roles_of
from bpeline.tokenizer_core.vocabulary import shown

MOST_PIECES = 1 << 20
LONGEST_PIECE = 1 << 12  # bytes
LONGEST_CHARSMAP = 1 << 22

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_KINDS = (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
UNKNOWN_SURFACE = " ⁇ "  # decoded text of the unknown token, unless a model names another
MODEL_TYPES = {UNIGRAM: "unigram", BPE: "bpe", WORD: "word", CHAR: "char"}

SPACE = "▁"

# Field numbers from sentencepiece_model.proto.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _VOCAB_SIZE, _SPACE_IS_SUFFIX, _BYTE_FALLBACK = 3, 4, 24, 35
_UNK_ID, _UNK_SURFACE, _UNK_PIECE = 40, 44, 45
_ROLES = {"bos": (41, 46), "eos": (42, 47), "pad": (43, 48)}  # id, piece
_NAME, _CHARSMAP, _ADD_SPACE, _ONE_SPACE, _ESCAPE = 1, 2, 3, 4, 5

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_FIELDS = 1 << 22  # per message


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """The contents of a ``.model`` that decide ids."""

    pieces: tuple[Piece, ...]  # by id
    model_type: int  # a key of `MODEL_TYPES`
    byte_fallback: bool  # unknown characters become byte pieces
    space_is_suffix: bool  # ``▁`` ends words instead of beginning them
    charsmap: bytes = field(repr=False)  # compiled normalizer rules; b"" for none
    add_dummy_prefix: bool  # this and the next two as in `SentencePieceText`
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    decodes_otherwise: bool  # has its own ``unk_surface`` or a denormalizer

    def of_kinds(self, *kinds: int) -> dict[int, Piece]:
        return {id_: piece for id_, piece in enumerate(self.pieces) if piece.kind in kinds}

    @property
    def unknown(self) -> int:
        return next(id_ for id_, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_model(content: bytes, path: Path) -> SentencePieceModel:
    """Parse and check the content of a ``.model`` file."""
    pieces: list[Piece] = []
    parts = dict.fromkeys((_TRAINER, _NORMALIZER, _DENORMALIZER), b"")
    for number, value in _fields(memoryview(content), path):
        if number == _PIECES:
            if len(pieces) == MOST_PIECES:
                refuse(path, f"has more than {MOST_PIECES:,} pieces")
            pieces.append(_piece(_message(value, path), len(pieces), path))
        elif number in parts:
            parts[number] += _message(value, path)  # protobuf concatenates repeated messages
    if not pieces:
        refuse(path, "holds no pieces", "expected a SentencePiece model, as written by spm_train")
    trained = dict(_fields(memoryview(parts[_TRAINER]), path))
    byte_fallback = bool(_whole(trained, _BYTE_FALLBACK, 0, path))
    _check_pieces(pieces, byte_fallback, path)
    normal = dict(_fields(memoryview(parts[_NORMALIZER]), path))
    charsmap = normal.get(_CHARSMAP, b"")
    if not isinstance(charsmap, bytes) or len(charsmap) > LONGEST_CHARSMAP:
        refuse(path, f"has normalizer rules that are not bytes, or above {LONGEST_CHARSMAP:,}")
    return SentencePieceModel(
        tuple(pieces),
        _whole(trained, _MODEL_TYPE, UNIGRAM, path),
        byte_fallback or any(piece.kind == BYTE for piece in pieces),
        bool(_whole(trained, _SPACE_IS_SUFFIX, 0, path)),
        charsmap,
        bool(_whole(normal, _ADD_SPACE, 1, path)),
        bool(_whole(normal, _ONE_SPACE, 1, path)),
        bool(_whole(normal, _ESCAPE, 1, path)),
        trained.get(_UNK_SURFACE, UNKNOWN_SURFACE.encode()) != UNKNOWN_SURFACE.encode()
        or bool(dict(_fields(memoryview(parts[_DENORMALIZER]), path)).get(_CHARSMAP)),
    )


def _check_pieces(pieces: list[Piece], byte_fallback: bool, path: Path) -> None:
    seen: set[str] = set()
    for id_, piece in enumerate(pieces):
        if piece.text in seen:
            refuse(path, f"has the piece {piece.text[:40]!r} twice", "expected distinct pieces")
        seen.add(piece.text)
        if piece.kind != UNKNOWN and not math.isfinite(piece.score):
            refuse(path, f"gives the piece {id_} the score {piece.score}", "expected finite scores")
    kinds = [piece.kind for piece in pieces]
    if (unknowns := kinds.count(UNKNOWN)) != 1:
        refuse(path, f"has {unknowns} unknown pieces", "expected exactly one")
    of_bytes = {piece.text for piece in pieces if piece.kind == BYTE}
    if (of_bytes or byte_fallback) and of_bytes != {f"<0x{byte:02X}>" for byte in range(256)}:
        refuse(path, f"has {len(of_bytes)} byte pieces", "expected all 256 of them, or none")


def _piece(content: bytes, id_: int, path: Path) -> Piece:
    text, score, kind = b"", 0.0, NORMAL
    for number, value in _fields(memoryview(content), path):
        if number == _PIECE:
            text = _message(value, path)
        elif number == _SCORE and isinstance(value, float):
            score = value
        elif number == _TYPE and isinstance(value, int):
            kind = value
        elif number in (_SCORE, _TYPE):
            refuse(path, f"has a piece {id_} whose score or type has the wrong wire type")
    if not 0 < len(text) <= LONGEST_PIECE:
        refuse(
            path, f"has a piece {id_} of {len(text)} bytes", f"expected 1 to {LONGEST_PIECE} bytes"
        )
    if kind not in _KINDS:
        refuse(path, f"has a piece {id_} of the unknown type {kind}")
    try:
        return Piece(text.decode(), score, kind)
    except UnicodeDecodeError:
        refuse(path, f"has a piece {id_} that is not UTF-8")


def _message(value: int | float | bytes, path: Path) -> bytes:
    if not isinstance(value, bytes):
        refuse(path, "has a number where a message is expected")
    return value


def _whole(fields: dict[int, int | float | bytes], number: int, default: int, path: Path) -> int:
    value = fields.get(number, default)
    if not isinstance(value, int):
        refuse(path, f"has no integer in field {number}")
    return value


def _fields(content: memoryview, path: Path) -> Iterator[tuple[int, int | float | bytes]]:
    """The fields of a message: varints as int, fixed ones as float, the rest as bytes."""
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
        else:  # groups are deprecated
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
        f"is not a protocol buffer: malformed at byte {at} of a message",
        "expected a SentencePiece model, as written by spm_train",
    )


def written_model(tokenizer: TokenizerParts, roles: Mapping[str, str] | None) -> bytes:
    """Serialize a character BPE tokenizer as a SentencePiece model.

    Ids agree on texts of known characters whose words are separated by spaces.
    """
    algorithm: Any = tokenizer.spec.algorithm
    _refuse_other_words(tokenizer, algorithm.joined)
    vocab, specials = tokenizer.spec.vocab, tokenizer.spec.special_tokens
    tokens = [vocab[id_].decode() for id_ in sorted(vocab)]
    if sorted(vocab) != list(range(len(tokens))):
        _refuse(
            "the ids of this tokenizer have gaps",
            "expected ids 0 to n - 1: the id of a piece is its index in the file",
        )
    if any(SPACE in token or " " in token for token in tokens):
        _refuse(
            f"a token of this tokenizer holds a space or {SPACE}",
            f"expected neither: in a SentencePiece model {SPACE} ends words",
        )
    ranks = _ranks(tokenizer, algorithm.end_of_word)
    parts = []
    for token in tokens:
        piece = token if token in specials else token.replace(algorithm.end_of_word, SPACE)
        kind = CONTROL if token in specials else NORMAL
        kind = UNKNOWN if token == algorithm.unknown else kind
        score = struct.pack("<f", -float(ranks.get(token, len(tokens))))
        scored = _tag(_SCORE, _FIXED_32) + score
        parts.append(_field(_PIECES, _field(_PIECE, piece) + scored + _field(_TYPE, kind)))
    trainer = (
        _field(_MODEL_TYPE, BPE)
        + _field(_VOCAB_SIZE, len(tokens))
        + _field(_SPACE_IS_SUFFIX, 1)
        + _field(_UNK_ID, tokens.index(algorithm.unknown))
        + _field(_UNK_PIECE, algorithm.unknown)
    )
    chosen = roles_of(specials, roles)
    for role, (id_field, piece_field) in _ROLES.items():
        token_of_role = chosen.get(role)
        trainer += _field(id_field, -1 if token_of_role is None else specials[token_of_role])
        if token_of_role is not None:
            trainer += _field(piece_field, token_of_role)
    normalizer = _field(_NAME, "identity") + b"".join(
        _field(flag, 1) for flag in (_ADD_SPACE, _ONE_SPACE, _ESCAPE)
    )
    return b"".join([*parts, _field(_TRAINER, trainer), _field(_NORMALIZER, normalizer)])


def _refuse_other_words(tokenizer: TokenizerParts, joined: bool) -> None:
    if joined:
        raise InvalidOption(
            "the end-of-word mark is joined to the last character of each word",
            "expected a mark that is a symbol of its own, as in SentencePiece",
            "save it as 'subword-nmt', or train without `--joined`",
        )
    if tokenizer.spec.pattern.name != "whitespace":
        raise InvalidOption(
            f"words are split by the pattern {tokenizer.spec.pattern.name or 'of your own'!r}",
            "expected the pattern whitespace: SentencePiece splits at spaces",
            "save it as 'bpeline', or train with `--pattern whitespace`",
        )


def _ranks(tokenizer: TokenizerParts, end: str) -> dict[str, int]:
    """Token → rank of the merge that makes it, checked for `written_model`.

    SentencePiece joins neighbours whose *text* is a piece, best score first: equal to our rule only
    if exactly one merge makes each token, after the merges that make its parts.
    """
    ranks: dict[str, int] = {}
    ranks_of_pairs: dict[tuple[str, str], int] = {}
    for rank, (left, right) in enumerate(tokenizer.spec.merges):
        pair = left.decode(), right.decode()
        if ranks.setdefault("".join(pair), rank) != rank:
            _refuse(
                f"two merges make the token {shown(''.join(pair))}",
                "expected one merge per token: in SentencePiece a token has one score",
            )
        ranks_of_pairs[pair] = rank
    for token in ranks:
        symbols = list(token.removesuffix(end)) + ([end] if token.endswith(end) else [])
        if _merged(symbols, ranks_of_pairs) != [token]:
            _refuse(
                f"the merges do not make the token {shown(token)}",
                "expected merges that make each token: SentencePiece uses every piece of its file",
            )
    return ranks


def _merged(symbols: list[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    while len(symbols) > 1:
        pairs = list(pairwise(symbols))
        at = min(range(len(pairs)), key=lambda place: ranks.get(pairs[place], len(ranks)))
        if pairs[at] not in ranks:
            break
        symbols = [*symbols[:at], "".join(pairs[at]), *symbols[at + 2 :]]
    return symbols


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _tag(number, _VARINT) + _written_varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _tag(number, _BYTES) + _written_varint(len(content)) + content


def _tag(number: int, wire: int) -> bytes:
    return _written_varint(number << 3 | wire)


def _written_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _refuse(happened: str, accepted: str) -> None:
    raise InvalidTokenizer(happened, accepted, "save it as 'subword-nmt' or 'bpeline'")
