"""Character BPE written as SentencePiece's .model file, a protocol buffer; imports no library.

SentencePiece has no split pattern: it merges over a whole text whose spaces are the character ▁.
That is what character BPE does where the mark of the end of a word is a symbol of its own: it
becomes a ▁ behind each word. Byte-level BPE is not: its tokens end inside characters, and its
pattern keeps apart what SentencePiece would merge.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from bpeline.tokenizer_core.algorithms import CharacterBpe
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import roles_of
from bpeline.tokenizer_core.vocabulary import shown

SPACE = "▁"

_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
_BPE = 2
# Numbers of fields, from sentencepiece_model.proto.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _VOCAB_SIZE, _SPACE_IS_SUFFIX, _UNK_ID, _UNK_PIECE = 3, 4, 24, 40, 45
_ROLES = {"bos": (41, 46), "eos": (42, 47), "pad": (43, 48)}  # id, piece
_NAME, _ADD_SPACE, _ONE_SPACE, _ESCAPE = 1, 3, 4, 5


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the file that ``sentencepiece.SentencePieceProcessor(model_file=...)`` reads.

    Ids agree on texts of known characters whose words stand one or more spaces apart; see
    `differences` for the others.

    Args:
        roles: what special tokens are declared to be for, see `declared_roles`.

    Raises:
        InvalidOption: another algorithm than character BPE, or words cut otherwise than at spaces.
        InvalidTokenizer: SentencePiece would give other ids even so.
        DiskFull: no space left.
    """
    algorithm = _algorithm_of(tokenizer)
    tokens = [tokenizer.spec.vocab[id_].decode() for id_ in sorted(tokenizer.spec.vocab)]
    if sorted(tokenizer.spec.vocab) != list(range(len(tokens))):
        _refuse(
            "the ids of this tokenizer have gaps", "the id of a piece is its number in the file"
        )
    if any(SPACE in token or " " in token for token in tokens):
        _refuse(f"a token of this tokenizer holds a space or {SPACE}", f"{SPACE} ends words there")
    ranks = _ranks(tokenizer, algorithm)
    specials = tokenizer.spec.special_tokens
    pieces = []
    for token in tokens:
        piece = token if token in specials else token.replace(algorithm.end_of_word, SPACE)
        kind = _CONTROL if token in specials else _NORMAL
        kind = _UNKNOWN if token == algorithm.unknown else kind
        score = -float(ranks.get(token, len(tokens)))
        scored = _number(_SCORE, 5) + struct.pack("<f", score)
        pieces.append(_text(_PIECE, piece) + scored + _whole(_TYPE, kind))
    unknown = tokens.index(algorithm.unknown)
    DURABLE.write(
        path, _model(pieces, unknown, algorithm.unknown, specials, roles_of(specials, roles))
    )


def differences(tokenizer: TokenizerParts) -> list[str]:
    """The texts that SentencePiece reads otherwise."""
    return [
        "tabs, line breaks and other white space, which are no spaces there",
        "several unknown characters in a row, which are one id there",
        f"{SPACE} in a text, which is a space there",
    ]


def _algorithm_of(tokenizer: TokenizerParts) -> CharacterBpe:
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    if algorithm.joined:
        raise InvalidOption(
            "the mark of the end of a word is part of its last character (joined)",
            "in SentencePiece it is a symbol of its own",
            "save it as 'subword-nmt', or train without `--joined`",
        )
    if tokenizer.spec.pattern.name != "whitespace":
        raise InvalidOption(
            f"words are cut by the split pattern {tokenizer.spec.pattern.name or 'of your own'!r}",
            "SentencePiece cuts at spaces: the pattern whitespace",
            "save it as 'bpeline', or train with `--pattern whitespace`",
        )
    return algorithm


def _ranks(tokenizer: TokenizerParts, algorithm: CharacterBpe) -> dict[str, int]:
    """Token → rank of the one merge that makes it.

    SentencePiece joins neighbours whose *text* is a piece, the best score first: our rule if each
    token is made by one merge, behind those that make its parts, and is reached.
    """
    ranks: dict[str, int] = {}
    made: dict[tuple[str, str], int] = {}
    for rank, (left, right) in enumerate(tokenizer.spec.merges):
        pair = left.decode(), right.decode()
        if ranks.setdefault("".join(pair), rank) != rank:
            _refuse(
                f"two merges make the token {shown(''.join(pair))}",
                "in SentencePiece a token has one score",
            )
        made[pair] = rank
    for token in ranks:
        end = algorithm.end_of_word
        symbols = list(token.removesuffix(end)) + ([end] if token.endswith(end) else [])
        if _merged(symbols, made) != [token]:
            _refuse(
                f"the merges do not make the token {shown(token)}",
                "SentencePiece uses every piece of its file, whether a merge makes it or not",
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


def _model(
    pieces: Sequence[bytes],
    unknown: int,
    unknown_piece: str,
    specials: Mapping[str, int],
    roles: Mapping[str, str],
) -> bytes:
    trainer = (
        _whole(_MODEL_TYPE, _BPE)
        + _whole(_VOCAB_SIZE, len(pieces))
        + _whole(_SPACE_IS_SUFFIX, 1)
        + _whole(_UNK_ID, unknown)
        + _text(_UNK_PIECE, unknown_piece)
    )
    for role, (id_field, piece_field) in _ROLES.items():
        token = roles.get(role)
        trainer += _whole(id_field, -1 if token is None else specials[token])
        if token is not None:
            trainer += _text(piece_field, token)
    normalizer = _text(_NAME, "identity") + b"".join(
        _whole(flag, 1) for flag in (_ADD_SPACE, _ONE_SPACE, _ESCAPE)
    )
    parts = [_bytes(_PIECES, piece) for piece in pieces]
    return b"".join([*parts, _bytes(_TRAINER, trainer), _bytes(_NORMALIZER, normalizer)])


# Protocol buffers: a field is its number and how it is written, then the value.


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


def _number(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _whole(field: int, value: int) -> bytes:
    return _number(field, 0) + _varint(value)


def _bytes(field: int, content: bytes) -> bytes:
    return _number(field, 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _refuse(happened: str, accepted: str) -> None:
    raise InvalidTokenizer(happened, accepted, "save it as 'subword-nmt' or 'bpeline'")
