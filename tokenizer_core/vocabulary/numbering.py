"""Numbering of bytes, merges and special tokens.

In training, ids 0..255 are the bytes in the order of the tie-break, and 256 + k is merge k. A
finished tokenizer shifts these ids by the number of special tokens that come first.
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
    """Return GPT-2's mapping of bytes to printable characters, by byte; shared.

    Printable Latin-1 bytes map to themselves, the others in order to U+0100, U+0101, …: space is
    ``Ġ``, line feed ``Ċ``. From ``bytes_to_unicode`` of GPT-2's ``encoder.py``.
    """
    return _PRINTABLE


def bytes_of_printable() -> dict[str, int]:
    """Return the inverse of `printable_bytes`: character → byte; shared."""
    return _BYTES


def to_printable(token: bytes) -> str:
    """Write ``token`` in GPT-2's printable characters, one per byte."""
    mapping = printable_bytes()
    return "".join([mapping[byte] for byte in token])


def from_printable(text: str) -> bytes:
    """Return the bytes that `to_printable` wrote; KeyError for other characters."""
    mapping = bytes_of_printable()
    return bytes([mapping[character] for character in text])


def validate_tie_break(tie_break: str) -> str:
    """Return ``tie_break``, or raise InvalidOption if it is not in `TIE_BREAKS`."""
    if tie_break not in TIE_BREAKS:
        raise InvalidOption(
            f"unknown tie-break {tie_break!r}",
            f"expected: {', '.join(TIE_BREAKS)}",
            "use 'smallest-ids' for the merges of HuggingFace's byte-level trainer",
        )
    return tie_break


@functools.cache
def byte_order(tie_break: str) -> tuple[int, ...]:
    """Return the bytes with ids 0, 1, … 255.

    ``smallest-ids`` orders bytes by printable character, as HuggingFace's byte-level trainer does
    (``!`` is 0); the other tie-breaks order by value.
    """
    if validate_tie_break(tie_break) != "smallest-ids":
        return tuple(range(256))
    mapping = printable_bytes()
    return tuple(sorted(range(256), key=mapping.__getitem__))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The result of training; special tokens have the first or the last ids."""

    vocab: Mapping[int, bytes]
    merges: MergeList
    special_tokens: dict[str, int]


def token_bytes(
    merge_ids: Iterable[tuple[int, int]], order: Sequence[int] = tuple(range(256))
) -> list[bytes]:
    """Return tokens by training id: 256 bytes in ``order``, then merges."""
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
    """Number special tokens, bytes and merges, without an object per token.

    Args:
        left, right: training ids of the parts of each merge.
        order: see `byte_order`.
        special_ids: ``first`` or ``last``: special tokens before bytes and merges, or after.

    Raises:
        InvalidSpecialToken: a special token is also an ordinary token.
    """
    if special_ids not in SPECIAL_IDS:
        raise InvalidOption(
            f"special_ids is {special_ids!r}",
            f"expected: {', '.join(SPECIAL_IDS)}",
            "use 'first' unless another tool expects the special tokens after the merges",
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
    """Return all tokens by id; None if two are equal or one is too long."""
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
