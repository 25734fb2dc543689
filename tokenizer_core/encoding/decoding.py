"""Token ids back to bytes; knows tokens and ids, nothing of text."""

from __future__ import annotations

import codecs
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken
from bpeline.tokenizer_core.kernels.decode_ids import LONG, SLOT, join_listed, join_tokens
from bpeline.tokenizer_core.kernels.python_lists import int_facts

_FEW = 24  # ids up to which joining Python strings is quicker than a kernel
_MANY = 4096  # ids from which memory of their own costs nothing
_LIKELY = 8  # bytes per token; where it is not enough, the kernel is asked twice
_SPARSE = 1 << 20  # ids beyond which a table over all of them would be mostly empty

_spare = list[tuple[NDArray[np.uint8], memoryview]]()  # memory to decode into, for any thread

OnInvalid = Literal["replace", "strict"]


def check_errors(errors: str) -> None:
    """Raise InvalidOption for another way of handling bytes that are not UTF-8."""
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
            check_errors(errors)
        if type(ids) is list:
            if len(ids) <= _FEW:
                try:
                    text = "".join(itemgetter(*ids)(self._texts))
                except (IndexError, TypeError, OverflowError):
                    pass  # the slow way takes what equals an id, and says which one does not
                else:
                    if text.isascii():
                        return text
                    return text.encode("utf-8", "surrogateescape").decode("utf-8", errors)
            elif len(ids) <= _MANY and (some := self._text_of_some(ids, errors)) is not None:
                return some
        return str(self._joined(ids), "utf-8", errors)

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: an id that the vocab does not hold.
        """
        return bytes(self._joined(ids))

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes | memoryview:
        if isinstance(ids, np.ndarray):
            if ids.dtype == np.uint32 and self._is_dense:
                return self._join_array(np.require(ids, requirements=["C", "W"]))
            ids = ids.tolist()
        listed = ids if type(ids) is list else list(ids)
        joined = self._join_listed(listed)
        if joined is not None:
            return joined
        try:  # the slow way takes what equals an id, and says which one does not
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

    def _text_of_some(self, ids: list[int], errors: OnInvalid) -> str | None:
        """The text by way of memory that is used again; None also where that is too small."""
        facts = self._facts
        if facts is None:
            return None
        try:
            spare = _spare.pop()
        except IndexError:
            content = np.empty(_LIKELY * _MANY + SLOT, np.uint8)
            spare = content, content.data
        size = join_listed(id(ids), facts, spare[0])
        try:
            fits = 0 <= size <= _LIKELY * _MANY
            return str(spare[1][:size], "utf-8", errors) if fits else None
        finally:
            _spare.append(spare)

    def _join_array(self, ids: NDArray[np.uint32]) -> memoryview:
        slots, long_tokens = self._table
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_tokens(ids, slots, long_tokens, content)
        if size < 0:
            raise self._unknown([int(ids[-1 - size])])
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            join_tokens(ids, slots, long_tokens, content)
        return content.data[:size]

    def _join_listed(self, ids: list[int]) -> memoryview | None:
        """None where something else than small, known ints is listed, or lists cannot be read."""
        facts = self._facts
        if facts is None:
            return None
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_listed(id(ids), facts, content)
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            if join_listed(id(ids), facts, content) != size:
                return None  # another thread changes the list
        return None if size < 0 else content.data[:size]

    @cached_property
    def _texts(self) -> list[str | None]:
        """Tokens as text by id, surrogates where it is not UTF-8; none when ids are sparse.

        Gaps are None, which cannot be joined, and so is what negative ids find.
        """
        if not self._is_dense:
            return []
        texts: list[str | None] = [None] * (2 * (self._highest + 1))
        for id_, token in self._vocab.items():
            texts[id_] = token.decode("utf-8", "surrogateescape")
        return texts

    @cached_property
    def _facts(self) -> int | None:
        """Address of what `join_listed` must know; None when it cannot be used."""
        of_ints = int_facts()
        if of_ints is None or not self._is_dense:
            return None
        slots, long_tokens = self._table
        addresses = slots.ctypes.data, len(slots), long_tokens.ctypes.data
        self._kept = np.array([*of_ints, *addresses], np.uint64)
        return self._kept.ctypes.data

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
        check_errors(errors)
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
