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
from tokenizer_core.kernels.decode_ids import join_tokens

_FEW = 64  # ids up to which joining Python objects is quicker than a kernel
_LIKELY = 8  # bytes per token; where it is not enough, the kernel is asked twice
_SPARSE = 1 << 20  # ids beyond which a table over all of them would be mostly empty

OnInvalid = Literal["replace", "strict"]


def decoded_text(content: bytes, errors: OnInvalid) -> str:
    """``content`` as text.

    Raises:
        UnicodeDecodeError: not UTF-8, with ``"strict"``.
        InvalidOption: another way of handling errors.
    """
    _check_errors(errors)
    return content.decode(errors=errors)


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

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: an id that the vocab does not hold.
        """
        if isinstance(ids, np.ndarray):
            if ids.dtype == np.uint32 and len(ids) > _FEW and self._is_dense:
                return self._decode_array(np.require(ids, requirements=["C", "W"]))
            ids = ids.tolist()
        listed = ids if isinstance(ids, list) else list(ids)
        if len(listed) > 1 and self._is_dense:
            try:
                if len(listed) <= _FEW:
                    return b"".join(itemgetter(*listed)(self._listed))
                return self._decode_array(np.frombuffer(array("I", listed), np.uint32))
            except (IndexError, TypeError, OverflowError):
                pass  # the slow way takes what equals an id, and says which one does not
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
        offsets = self._table[0]
        lengths: NDArray[np.int64] = offsets[ids + np.uint32(1)] - offsets[ids]
        return lengths

    def _decode_array(self, ids: NDArray[np.uint32]) -> bytes:
        offsets, tokens = self._table
        content = np.empty(_LIKELY * len(ids) + 8, np.uint8)
        size = join_tokens(ids, offsets, tokens, content)
        if size < 0:
            raise self._unknown([int(ids[-1 - size])])
        if size + 8 > len(content):
            content = np.empty(size + 8, np.uint8)
            join_tokens(ids, offsets, tokens, content)
        return content.data[:size].tobytes()

    @cached_property
    def _listed(self) -> list[bytes | None]:
        """Tokens by id. Gaps are None, which cannot be joined, and so is what negative ids find."""
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
    def _table(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Offsets by id, and the tokens joined in order of id with 8 bytes behind."""
        in_order = sorted(self._vocab)
        tokens = [self._vocab[id_] for id_ in in_order]
        offsets = np.zeros(self._highest + 2, np.int64)
        offsets[np.array(in_order) + 1] = np.fromiter(map(len, tokens), np.int64, len(tokens))
        joined = bytearray(b"".join(tokens) + bytes(8))
        return np.cumsum(offsets), np.frombuffer(joined, np.uint8)

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
