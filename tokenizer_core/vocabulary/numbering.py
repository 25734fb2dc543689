"""How bytes, merges and special tokens are numbered.

Inside training the ids 0..255 are the bytes in the order of the tie-break's convention and 256 + k
is merge k. The ids of a finished tokenizer shift these by its special tokens.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.token_tables import measure_tokens, spell_tokens
from bpeline.tokenizer_core.vocabulary.special_tokens import refuse_clashes
from bpeline.tokenizer_core.vocabulary.token_table import MAX_TOKEN_BYTES, MergeList, TokenTable

TIE_BREAKS = ("smallest-ids", "greatest-bytes", "first-seen")
SPECIAL_IDS = ("first", "last")
SpecialIds = Literal["first", "last"]


_PRINTS = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = itertools.count(0x100)
_PRINTABLE = {byte: chr(byte if byte in _PRINTS else next(_OTHERS)) for byte in range(256)}
_BYTES = {character: byte for byte, character in _PRINTABLE.items()}


def printable_bytes() -> dict[int, str]:
    """GPT-2's mapping: each byte as one character that prints.

    Bytes that print in Latin-1 stand for themselves; the others, in order, become U+0100, U+0101
    and so on. The space is ``Ġ``, the line feed ``Ċ``. From ``bytes_to_unicode`` of GPT-2's
    ``encoder.py``. Iterates over the bytes 0..255 in order. The result is shared: do not change it.
    """
    return _PRINTABLE


def bytes_of_printable() -> dict[str, int]:
    """The inverse of `printable_bytes`: character → byte. Shared: do not change it."""
    return _BYTES


def to_printable(token: bytes) -> str:
    """``token`` in GPT-2's printable characters, one per byte."""
    mapping = printable_bytes()
    return "".join([mapping[byte] for byte in token])


def from_printable(text: str) -> bytes:
    """The bytes that `to_printable` wrote.

    Raises:
        KeyError: a character that stands for no byte.
    """
    mapping = bytes_of_printable()
    return bytes([mapping[character] for character in text])


def validate_tie_break(tie_break: str) -> str:
    """``tie_break`` itself.

    Raises:
        InvalidOption: not one of `TIE_BREAKS`.
    """
    if tie_break not in TIE_BREAKS:
        raise InvalidOption(
            f"there is no tie-break called {tie_break!r}",
            f"accepted: {', '.join(TIE_BREAKS)}",
            "use 'smallest-ids' for the merges HuggingFace's byte-level trainer learns",
        )
    return tie_break


@functools.cache
def byte_order(tie_break: str) -> tuple[int, ...]:
    """Which byte has id 0, 1, … 255.

    ``smallest-ids`` numbers the bytes by their printable character, as HuggingFace's byte-level
    trainer does (``!`` is 0, the space comes late); the other tie-breaks number them by value.

    Raises:
        InvalidOption: not one of `TIE_BREAKS`.
    """
    if validate_tie_break(tie_break) != "smallest-ids":
        return tuple(range(256))
    mapping = printable_bytes()
    return tuple(sorted(range(256), key=mapping.__getitem__))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What training found, numbered as a tokenizer wants it.

    Attributes:
        vocab: id → bytes; ids are 0..len-1 without gaps, special tokens as UTF-8.
        merges: (left, right) bytes in order of rank.
        special_tokens: token → id; their ids are the first or the last ones.
    """

    vocab: Mapping[int, bytes]
    merges: MergeList
    special_tokens: dict[str, int]


def token_bytes(
    merge_ids: Iterable[tuple[int, int]], order: Sequence[int] = tuple(range(256))
) -> list[bytes]:
    """Bytes of every token in the numbering of training: 256 single bytes, then one per merge.

    Args:
        merge_ids: (left, right) of each merge; both ids exist before it.
        order: the byte of each id 0..255, from `byte_order`.
    """
    tokens = [bytes([byte]) for byte in order]
    for left, right in merge_ids:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def vocab_from_merges(
    left: NDArray[np.integer[Any]],
    right: NDArray[np.integer[Any]],
    order: Sequence[int],
    special_tokens: Sequence[str] = (),
    special_ids: SpecialIds = "first",
) -> Vocabulary:
    """Number special tokens, bytes and merges.

    No object is made for a token or a merge: that took half as long as learning from small texts.

    Args:
        left, right: of each merge, in the numbering of training.
        order: the byte of each id 0..255, from `byte_order`.
        special_tokens: in the order of their ids.
        special_ids: ``first``: special tokens, bytes, merges; ``last``: bytes, merges, special
            tokens.

    Raises:
        InvalidOption: ``special_ids`` is neither.
        InvalidSpecialToken: a special token is an ordinary one, too.
    """
    if special_ids not in SPECIAL_IDS:
        raise InvalidOption(
            f"special_ids is {special_ids!r}",
            f"accepted: {', '.join(SPECIAL_IDS)}",
            "use 'first' unless another tool expects the special tokens behind the merges",
        )
    parts = left.astype(np.int64), right.astype(np.int64)
    specials = [token.encode() for token in special_tokens]
    first = special_ids == "first"
    vocab: Mapping[int, bytes] | None = _table(*parts, order, specials, first)
    if vocab is None:
        tokens = token_bytes(zip(left.tolist(), right.tolist(), strict=True), order)
        refuse_clashes(special_tokens, tokens)
        vocab = dict(enumerate(specials + tokens if first else tokens + specials))
    ordinary = len(order) + len(left)
    before, base = (len(specials), 0) if first else (0, ordinary)
    results = np.arange(len(order), ordinary)
    return Vocabulary(
        vocab=vocab,
        merges=MergeList(vocab, *(before + part for part in (*parts, results))),
        special_tokens={token: base + index for index, token in enumerate(special_tokens)},
    )


def _table(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    order: Sequence[int],
    specials: Sequence[bytes],
    first: bool,
) -> TokenTable | None:
    """All tokens in order of their ids; None where two are equal, or one is too long."""
    ends = np.empty(len(order) + len(left), np.int64)
    measure_tokens(left, right, ends)
    lengths = np.diff(ends, prepend=0)
    if lengths.min() <= 0 or lengths.max() > MAX_TOKEN_BYTES:
        return None
    spelled = np.empty(ends[-1], np.uint8)
    spell_tokens(left, right, ends, spelled)
    tokens = np.array(order, np.uint8)[spelled].tobytes()
    of_specials = np.fromiter(map(len, specials), np.int64, len(specials))
    texts, sizes = ((*specials, tokens), (of_specials, lengths))
    if not first:
        texts, sizes = (tokens, *specials), (lengths, of_specials)
    return TokenTable.sound(
        b"".join(texts), np.concatenate(sizes), np.arange(len(ends) + len(specials))
    )
