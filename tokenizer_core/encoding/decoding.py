"""Token ids back to bytes; knows tokens and ids, nothing of text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import index, itemgetter
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken, WrongKind
from bpeline.tokenizer_core.kernels.encoding.decode_ids import LONG, SLOT, join_listed, join_tokens
from bpeline.tokenizer_core.kernels.memory.python_lists import int_facts
from bpeline.tokenizer_core.vocabulary import TokenTable

_FEW = 13  # ids up to which joining Python strings is quicker than a kernel
_MANY = 4096  # ids from which memory of their own costs nothing
_LIKELY = 8  # bytes per token; where it is not enough, the kernel is asked twice
_SPARSE = 1 << 20  # ids beyond which a table over all of them would be mostly empty

_ROOM = _LIKELY * _MANY

# Memory to decode into and its address, for any thread: bytes, which are cut quicker than arrays.
_spare = list[tuple[bytearray, int]]()
_take, _give = _spare.pop, _spare.append

OnInvalid = Literal["replace", "strict", "ignore"]
_REPLACE = "replace"


def _made_spare() -> tuple[bytearray, int]:
    content = bytearray(_ROOM + SLOT)
    return content, np.frombuffer(content, np.uint8).ctypes.data


def check_errors(errors: str) -> None:
    """Raise InvalidOption for another way of handling bytes that are not UTF-8."""
    if not isinstance(errors, str) or errors not in get_args(OnInvalid):
        raise InvalidOption(
            f"errors is {errors!r}", "expected: 'replace', 'strict' or 'ignore'", "leave it out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """What kernels read of a vocab without large gaps, and its address, in one piece.

    Who decodes holds it as long as a kernel looks at it, so no address outlives its array, however
    many threads make the tables of one decoder at once.

    Attributes:
        lengths: int64: bytes of each token by id; 0 in gaps.
        slots, long_tokens: see `join_tokens`.
        facts: uint64, what `join_listed` must know; None when lists cannot be read.
        address: of the facts.
    """

    lengths: NDArray[np.int64]
    slots: NDArray[np.uint64]
    long_tokens: NDArray[np.uint8]
    facts: NDArray[np.uint64] | None
    address: int

    @classmethod
    def of(cls, vocab: Mapping[int, bytes]) -> _Tables:
        lengths = lengths_by_id(vocab)
        slots = _beginnings(vocab, len(lengths)).view(np.uint64).reshape(-1, 2)
        slots.view(np.uint8)[:, -1] = np.minimum(lengths, LONG)
        long = np.flatnonzero(lengths >= SLOT)
        slots[long, 0] = np.cumsum(lengths[long]) - lengths[long]
        slots[long, 1] = lengths[long].astype(np.uint64) | np.uint64(LONG << 56)
        joined = b"".join(_tokens(vocab, long))
        long_tokens = np.frombuffer(bytearray(joined + bytes(8)), np.uint8)
        of_ints = int_facts()
        if of_ints is None:
            return cls(lengths, slots, long_tokens, None, 0)
        addresses = slots.ctypes.data, len(slots), long_tokens.ctypes.data
        facts = np.array([*of_ints, *addresses], np.uint64)
        return cls(lengths, slots, long_tokens, facts, facts.ctypes.data)


def lengths_by_id(vocab: Mapping[int, bytes]) -> NDArray[np.int64]:
    """Bytes of each token by id, 0 in gaps: int64."""
    lengths = np.zeros(max(vocab) + 1, np.int64)
    if isinstance(vocab, TokenTable):
        lengths[vocab.ids] = vocab.lengths
    else:
        lengths[list(vocab)] = list(map(len, vocab.values()))
    return lengths


def _beginnings(vocab: Mapping[int, bytes], size: int) -> NDArray[Any]:
    """The first `SLOT` bytes of each token by id."""
    if not isinstance(vocab, TokenTable):
        short = np.zeros(size, f"S{SLOT}")
        short[list(vocab)] = list(vocab.values())  # cuts what is longer
        return short
    cells = np.zeros((size, SLOT), np.uint8)
    rows = np.arange(len(vocab))
    for place in range(SLOT):
        rows = rows[vocab.lengths[rows] > place]
        cells[vocab.ids[rows], place] = vocab.words[vocab.begins[rows] + place]
    return cells


def _tokens(vocab: Mapping[int, bytes], ids: NDArray[np.int64]) -> Iterator[bytes]:
    """The tokens of some ids, which are few."""
    if isinstance(vocab, TokenTable):
        yield from vocab.tokens_of(ids)
    else:
        yield from map(vocab.__getitem__, ids.tolist())


class Decoder:
    """Joins the bytes of tokens. An id is a whole number that the vocab holds; no bool is one.

    Args:
        vocab: id → bytes; ids not negative, tokens not empty.
    """

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        self._vocab = vocab

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        """The text of token ids.

        Raises:
            UnknownToken: something that is no id of the vocab.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
            InvalidOption: another way of handling errors.
        """
        if errors is not _REPLACE:
            check_errors(errors)
        if type(ids) is list and len(ids) <= _MANY:
            if len(ids) <= _FEW:
                try:
                    found = itemgetter(*ids)(self._texts)
                    if type(found) is str:
                        return found
                    if type(found) is tuple and None not in found:
                        return "".join(found)
                except (IndexError, TypeError, OverflowError):
                    pass  # slower ways take what is as good as an id, and name what is none
            tables = self._tables  # held as long as the kernel reads them
            if tables is not None and tables.address:
                try:
                    spare = _take()
                except IndexError:
                    spare = _made_spare()
                try:
                    size = join_listed(id(ids), tables.address, spare[1], _ROOM)
                    if 0 <= size <= _ROOM:
                        return spare[0][:size].decode("utf-8", errors)
                finally:
                    _give(spare)
        return str(self._joined(ids), "utf-8", errors)

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of token ids, joined.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        return bytes(self._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        """Text from ids that come one at a time.

        Raises:
            InvalidOption: another way of handling errors.
        """
        return DecodeStream(self, errors)

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes | memoryview:
        if isinstance(ids, np.ndarray):
            tables = self._tables
            if tables is not None and ids.ndim == 1 and ids.dtype == np.uint32:
                return self._join_array(tables, np.require(ids, requirements=["C", "W"]))
            if ids.ndim != 1:
                refuse_other_arrays(ids)
        listed = ids if type(ids) is list else list_of(ids)
        joined = self._join_listed(listed)
        if joined is not None:
            return joined
        if isinstance(ids, np.ndarray):
            refuse_other_arrays(ids)
        return b"".join(map(self._vocab.__getitem__, self.known(listed)))

    def known(self, ids: list[Any]) -> list[int]:
        """The same ids as plain ints.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        try:
            plain = list(map(index, ids))
        except TypeError:
            raise self._unknown(ids) from None
        if bool in map(type, ids) or not all(map(self._vocab.__contains__, plain)):
            raise self._unknown(ids)
        return plain

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(map(len, self._vocab.values()))

    def lengths(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Bytes of each token, int64 ``[n]``; all ids are known."""
        tables = self._tables
        if tables is None:
            found = (len(self._vocab[id_]) for id_ in ids.tolist())
            return np.fromiter(found, np.int64, len(ids))
        lengths: NDArray[np.int64] = tables.lengths[ids]
        return lengths

    def _join_array(self, tables: _Tables, ids: NDArray[np.uint32]) -> memoryview:
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_tokens(ids, tables.slots, tables.long_tokens, content)
        if size < 0:
            raise self._unknown([int(ids[-1 - size])])
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            join_tokens(ids, tables.slots, tables.long_tokens, content)
        return content.data[:size]

    def _join_listed(self, ids: list[int]) -> memoryview | None:
        """None where something else than small, known ints is listed, or lists cannot be read."""
        tables = self._tables
        if tables is None or tables.facts is None:
            return None
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_listed(id(ids), tables.address, content.ctypes.data, len(content) - SLOT)
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            again = join_listed(id(ids), tables.address, content.ctypes.data, size)
            if again != size:
                return None  # another thread changes the list
        return None if size < 0 else content.data[:size]

    @cached_property
    def _texts(self) -> list[str | None]:
        """Tokens by id that are whole characters; none when ids are sparse.

        None for other tokens and for gaps, for what negative ids find and for what bools find.
        """
        if self._tables is None:
            return []
        texts: list[str | None] = [None] * (2 * len(self._tables.lengths))
        for id_, token in self._vocab.items():
            if id_ > 1:
                with suppress(UnicodeDecodeError):
                    texts[id_] = token.decode()
        return texts

    @cached_property
    def _tables(self) -> _Tables | None:
        """None where a table over all ids would be mostly empty."""
        size = max(max(self._vocab), len(self._vocab))
        return _Tables.of(self._vocab) if size < max(_SPARSE, 4 * len(self._vocab)) else None

    def _unknown(self, ids: list[Any]) -> UnknownToken:
        known = self._vocab.keys()
        unknown = next(id_ for id_ in ids if not _is_whole(id_) or index(id_) not in known)
        happened = f"the vocab does not hold the id {repr(unknown)[:40]}"
        if not _is_whole(unknown):
            return UnknownToken(
                f"{happened}, which is no whole number but {type(unknown).__name__}",
                "ids are ints, or NumPy's integers",
                "give ids as `encode` returns them: tokenizer.decode([65, 66])",
            )
        return UnknownToken(
            happened,
            f"ids of this tokenizer lie between {min(known)} and {max(known)}",
            "was the text encoded with another tokenizer? compare their digests",
        )


def _is_whole(id_: Any) -> bool:
    try:
        index(id_)
    except TypeError:
        return False
    return not isinstance(id_, bool)


def list_of(ids: Iterable[int] | NDArray[Any]) -> list[Any]:
    """Ids in a list.

    Raises:
        WrongKind: text, bytes, what has no order, or what cannot be iterated over.
    """
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            refuse_other_arrays(ids)
        return list(ids.tolist())
    if isinstance(ids, list | tuple):
        return list(ids)
    if isinstance(ids, str | bytes | bytearray | Mapping | Set) or not isinstance(ids, Iterable):
        raise WrongKind(
            f"one value of type {type(ids).__name__} is given where ids are decoded",
            "accepted: a list or an array of ids, as `encode` returns them",
            f"write [{ids!r}]" if _is_whole(ids) else "write decode([65, 66])",
        )
    return list(ids)


def refuse_other_arrays(ids: NDArray[Any]) -> None:
    """Refuse arrays that hold no ids, such as masks.

    Raises:
        UnknownToken: not one row of whole numbers. (An empty array holds none of another kind.)
    """
    if ids.ndim != 1 or (ids.dtype.kind not in "iuO" and ids.size):
        shape = "×".join(map(str, ids.shape)) or "no"
        raise UnknownToken(
            f"an array of {shape} values of type {ids.dtype} holds no ids",
            "an array of ids has one dimension and an integer type",
            "decode it row by row with `decode_batch`, or make it one of np.uint32",
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
            UnknownToken: no id of the vocab; the stream goes on as if it had not
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


class WholeStream(DecodeStream):
    """All text in the end: where any token may change what those before it became."""

    def __init__(self, decoder: Decoder, errors: OnInvalid = "replace") -> None:
        super().__init__(decoder, errors)
        self._errors = errors
        self._fed = list[int]()

    def feed(self, id_: int) -> str:
        self._fed += self._decoder.known([id_])
        return ""

    def flush(self) -> str:
        fed, self._fed = self._fed, []
        return self._decoder.text(fed, self._errors)
