"""Token ids back to bytes; knows tokens and ids, nothing of text."""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.errors import InvalidOption, UnknownToken
from tokenizer_core.kernels.decode_ids import LONG, SLOT, join_tokens

_FEW = 64  # ids up to which joining Python objects is quicker than a kernel
_LIKELY = 8  # bytes per token; where it is not enough, the kernel is asked twice
_SPARSE = 1 << 20  # ids beyond which a table over all of them would be mostly empty

OnInvalid = Literal["replace", "strict"]


def _check_errors(errors: str) -> None:
    if errors not in ("replace", "strict"):
        raise InvalidOption(
            f"errors is {errors!r}", "accepted: 'replace', 'strict'", "leave it out"
        )


class Decoder:
    """Joins the bytes of tokens.

    Args:
        vocab: id → bytes; ids not negative, tokens not empty.
    """

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        self._vocab = vocab

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        """The text of token ids.

        Raises:
            UnknownToken: an id that the vocab does not hold.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
            InvalidOption: another way of handling errors.
        """
        if errors != "replace":
            _check_errors(errors)
        return str(self._joined(ids), "utf-8", errors)

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: an id that the vocab does not hold.
        """
        return bytes(self._joined(ids))

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes | memoryview:
        if isinstance(ids, np.ndarray):
            if ids.dtype == np.uint32 and len(ids) > _FEW and self._is_dense:
                return self._decode_array(np.require(ids, requirements=["C", "W"]))
            ids = ids.tolist()
        if isinstance(ids, list) and 1 < len(ids) <= _FEW:
            try:
                return b"".join(itemgetter(*ids)(self._listed))
            except (IndexError, TypeError, OverflowError):
                pass  # the slow way takes what equals an id, and says which one does not
        listed = ids if isinstance(ids, list) else list(ids)
        if len(listed) > _FEW and self._is_dense:
            try:
                return self._decode_array(np.frombuffer(array("I", listed), np.uint32))
            except (TypeError, OverflowError):
                pass
        try:
            return b"".join(map(self._vocab.__getitem__, listed))
        except (KeyError, TypeError):
            raise self._unknown(listed) from None

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(map(len, self._vocab.values()))

    def lengths(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Bytes of each token, int64 ``[n]``; all ids are known."""
        if not self._is_dense:
            found = (len(self._vocab[id_]) for id_ in ids.tolist())
            return np.fromiter(found, np.int64, len(ids))
        lengths: NDArray[np.int64] = self._lengths[ids]
        return lengths

    def _decode_array(self, ids: NDArray[np.uint32]) -> memoryview:
        slots, long_tokens = self._table
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_tokens(ids, slots, long_tokens, content)
        if size < 0:
            raise self._unknown([int(ids[-1 - size])])
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            join_tokens(ids, slots, long_tokens, content)
        return content.data[:size]

    @cached_property
    def _listed(self) -> list[bytes | None]:
        """Tokens by id; none when ids are sparse.

        Gaps are None, which cannot be joined, and so is what negative ids find.
        """
        if not self._is_dense:
            return []
        listed: list[bytes | None] = [None] * (2 * (self._highest + 1))
        for id_, token in self._vocab.items():
            listed[id_] = token
        return listed

    @cached_property
    def _is_dense(self) -> bool:
        return max(self._highest, len(self._vocab)) < max(_SPARSE, 4 * len(self._vocab))

    @cached_property
    def _highest(self) -> int:
        return max(self._vocab)

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """Bytes of each token by id; 0 in gaps."""
        lengths = np.zeros(self._highest + 1, np.int64)
        lengths[list(self._vocab)] = list(map(len, self._vocab.values()))
        return lengths

    @cached_property
    def _table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Slots by id, and the long tokens: see `join_tokens`."""
        lengths = self._lengths
        short = np.zeros(len(lengths), f"S{SLOT}")
        short[list(self._vocab)] = list(self._vocab.values())  # cuts what is longer
        slots = short.view(np.uint64).reshape(-1, 2)
        slots.view(np.uint8)[:, -1] = np.minimum(lengths, LONG)
        long = np.flatnonzero(lengths >= SLOT)
        slots[long, 0] = np.cumsum(lengths[long]) - lengths[long]
        slots[long, 1] = lengths[long].astype(np.uint64) | np.uint64(LONG << 56)
        joined = b"".join([self._vocab[id_] for id_ in long.tolist()])
        return slots, np.frombuffer(bytearray(joined + bytes(8)), np.uint8)

    def _unknown(self, ids: list[Any]) -> UnknownToken:
        known = self._vocab.keys()
        unknown = next(id_ for id_ in ids if not isinstance(id_, Hashable) or id_ not in known)
        return UnknownToken(
            f"the vocab does not hold the id {repr(unknown)[:40]}",
            f"ids of this tokenizer lie between {min(known)} and {self._highest}",
            "was the text encoded with another tokenizer? compare their digests",
        )


class DecodeStream:
    """Text from ids that come one at a time. What is fed and flushed joins to `decode` of all ids.

    A token may end inside a character: its bytes are held back until the character is complete or
    known to be broken. One stream is for one thread.

    Args:
        decoder: of the tokenizer that made the ids.
        errors: as for `Tokenizer.decode`.

    Raises:
        InvalidOption: another way of handling errors.
    """

    def __init__(self, decoder: Decoder, errors: OnInvalid = "replace") -> None:
        _check_errors(errors)
        self._decoder = decoder
        self._characters = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, id_: int) -> str:
        """The characters that this id completes; often one token's, sometimes none.

        Raises:
            UnknownToken: an id that the vocab does not hold; the stream goes on as if it had not
                been fed.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
        """
        return self._characters.decode(self._decoder.decode([id_]))

    def flush(self) -> str:
        """What is still held back; the stream then begins anew.

        Raises:
            UnicodeDecodeError: half a character, with ``"strict"``.
        """
        rest = self._characters.decode(b"", True)
        self._characters.reset()
        return rest
