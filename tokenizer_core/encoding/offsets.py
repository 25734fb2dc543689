"""Where tokens stand in the text they were made of, in bytes and in characters; encodes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.text import utf8_of


@dataclass(frozen=True, slots=True, eq=False)
class EncodingWithOffsets:
    """Token ids of a text, each with its place. All ranges are half-open.

    Attributes:
        ids: the token ids.
        byte_offsets: int64 ``[n, 2]``: bytes of the text in UTF-8; byte-level BPE's lie end to end.
        char_offsets: int64 ``[n, 2]``: characters (code points) of the text, so that
            ``text[begin:end]`` shows the token. A token that holds part of a character has the
            offsets of the characters it touches; its neighbour with the rest has them too.
    """

    ids: list[int]
    byte_offsets: NDArray[np.int64]
    char_offsets: NDArray[np.int64]


def encoding_with_offsets(
    text: str, ids: NDArray[np.uint32], byte_offsets: NDArray[np.int64]
) -> EncodingWithOffsets:
    """Characters of tokens from their bytes.

    Args:
        text: what was encoded, as the caller gave it.
        byte_offsets: int64 ``[n, 2]``: the bytes of each token; an empty range is a mark that is
            not in the text.
    """
    leads = (np.frombuffer(utf8_of(text), np.uint8) & 0xC0) != 0x80
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(leads, dtype=np.int64)))
    char_offsets = np.empty_like(byte_offsets)
    filled = byte_offsets[:, 0] < byte_offsets[:, 1]
    # the character that byte belongs to
    char_offsets[:, 0] = before[byte_offsets[:, 0] + filled] - filled
    char_offsets[:, 1] = before[byte_offsets[:, 1]]
    if len(text) != before[-1]:
        char_offsets = _positions_with_pairs(text)[char_offsets]
    return EncodingWithOffsets(ids.tolist(), byte_offsets, char_offsets)


def beginning_of(text: str, characters: int) -> str:
    """The prefix of ``text`` that is so many characters of what is encoded.

    Surrogates stay as the caller gave them; no pair is split.
    """
    if text.isascii():
        return text[:characters]
    return text[: int(_positions_with_pairs(text)[characters])]


def _positions_with_pairs(text: str) -> NDArray[np.int64]:
    """Where each character of the encoded text begins in ``text``, and where the last one ends.

    A high and a low surrogate are two characters of a ``str`` and one of its UTF-8.
    """
    points = np.frombuffer(str.encode(text, "utf-32-le", "surrogatepass"), np.uint32)
    high, low = points >> 10 == 0xD800 >> 10, points >> 10 == 0xDC00 >> 10
    second_of_pair = np.concatenate((np.zeros(1, np.bool_), high[:-1] & low[1:]))
    return np.append(np.flatnonzero(~second_of_pair), len(points))
