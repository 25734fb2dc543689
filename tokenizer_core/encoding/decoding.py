"""Token ids back to bytes and text, at once or one id after the other."""

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
from bpeline.tokenizer_core.pipeline import DecoderSteps
from bpeline.tokenizer_core.vocabulary import TokenTable

_FEW = 5  # ids up to which joining Python strings is quicker than a kernel
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
        facts: uint64, what `join_listed` must know.
        address: of the facts.
    """

    lengths: NDArray[np.int64]
    slots: NDArray[np.uint64]
    long_tokens: NDArray[np.uint8]
    facts: NDArray[np.uint64]
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
        addresses = slots.ctypes.data, len(slots), long_tokens.ctypes.data
        facts = np.array([id(True), id(False), *addresses], np.uint64)
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
            if tables is not None:
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
        """None where something else than ids is listed, or ids are sparse."""
        tables = self._tables
        if tables is None:
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


_BROKEN = "\ufffd"


class StepDecoder(Decoder):
    """What ``tokenizers`` decodes with ``skip_special_tokens=False``, exactly.

    Bytes that are not UTF-8 become what the steps make of them. With ``errors="strict"`` they are
    an error where steps join bytes (`DecoderSteps.joining`); other steps never meet such bytes, or
    replace them before anybody sees them.

    Args:
        names: id → the string of its token: of an added token that is found in normalized text
            `TextPreparation.contents`, else what is in the file.
        steps: how strings become text.
    """

    def __init__(self, names: Mapping[int, str], steps: DecoderSteps) -> None:
        self.steps = steps
        self._names = dict(names)
        self._joining = steps.joining
        tokens = list(self._names.values())
        #: Ids of tokens that are single bytes.
        self.bytes_alone = frozenset[int]()
        if self._joining is not None:
            contents, alone = self._joining.show(tokens)
            self.bytes_alone = frozenset(id_ for n, id_ in enumerate(self._names) if n in alone)
        else:
            between = steps.applied(["", *tokens, ""])[1:-1] if steps.by_place else tokens
            contents = [token.encode() for token in between]
        shown = dict(zip(self._names, contents, strict=True))
        super().__init__(shown)
        self._silent = [id_ for id_, content in shown.items() if not content]

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        ids = ids if isinstance(ids, (list, np.ndarray)) else list_of(ids)
        if self._joining is not None:
            return self._text_of_bytes(ids, errors)
        known = self._known_ids(ids)
        if not self.steps.by_place or len(known) < 2:
            return self._by_steps(known)
        between = str(self._joined(known[1:-1]), "utf-8")
        return self.text_at(known[0], True, False) + between + self.text_at(known[-1], False, True)

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of a text, those that are not UTF-8 too where steps join bytes.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        joining = self._joining
        if joining is None or joining.after.taken_from_the_beginning is None:
            return self.text(ids, "replace").encode()
        content = bytes(self._joined(ids))
        if not joining.after.steps:
            return content
        text = joining.after.text_of([content.decode("utf-8", "surrogateescape")])
        return text.encode("utf-8", "surrogateescape")

    def text_at(self, id_: int, is_first: bool, is_last: bool) -> str:
        """What becomes of a token at its place, where steps look at no more (`by_place`)."""
        before, behind = [""] * (not is_first), [""] * (not is_last)
        made = self.steps.applied([*before, self._names[id_], *behind])
        return made[len(before)]

    def joined(self, ids: list[int]) -> bytes:
        """The bytes of tokens as steps join them, before other steps see them."""
        return bytes(self._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        joining = self._joining
        if joining is not None and not joining.whole_runs and not joining.after.steps:
            return DecodeStream(self, errors)
        if joining is not None:
            taken = joining.after.taken_from_the_beginning
            if taken is not None and joining.whole_runs and errors != "ignore":
                return _RunStream(self, errors, taken)
            return WholeStream(self, errors)
        return (_PlaceStream if self.steps.by_place else WholeStream)(self, errors)

    def _text_of_bytes(self, ids: list[int] | NDArray[Any], errors: OnInvalid) -> str:
        assert self._joining is not None
        if not self._joining.whole_runs or errors == "ignore":
            text = super().text(ids, errors)
        else:
            try:
                # Where all bytes together are UTF-8, those of each run are.
                text = super().text(ids, "strict")
            except UnicodeDecodeError:
                if errors == "strict":
                    raise
                return self._by_steps(self._known_ids(ids))
        return self._joining.after.text_of([text]) if self._joining.after.steps else text

    def _by_steps(self, known: list[int]) -> str:
        return self.steps.text_of([self._names[id_] for id_ in known])

    def _known_ids(self, ids: list[int] | NDArray[Any]) -> list[int]:
        if isinstance(ids, np.ndarray):
            refuse_other_arrays(ids)
        return self.known(list_of(ids))

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes | memoryview:
        if self._silent:  # kernels know of no empty tokens
            if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
                ids = ids[~np.isin(ids, self._silent)]
            else:
                silent = frozenset(self._silent)
                ids = [id_ for id_ in self._known_ids(list_of(ids)) if id_ not in silent]
        return super()._joined(ids)


class _StepStream(DecodeStream):
    """Text from ids, for decoders whose tokens are not just joined."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._steps = decoder
        self._errors = errors


class _PlaceStream(_StepStream):
    """The first and the last token may become something else than those between."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._held = list[int]()  # the last token, where the end of the text would change it
        self._count = 0

    def feed(self, id_: int) -> str:
        self._held += self._steps.known([id_])
        if self._steps.steps.ends_differ and len(self._held) < 2:
            return ""
        made = self._steps.text_at(self._held.pop(0), self._count == 0, False)
        self._count += 1
        return made

    def flush(self) -> str:
        held, self._held = self._held, []
        count, self._count = self._count, 0
        return self._steps.text_at(held[0], count == 0, True) if held else ""


class _RunStream(_StepStream):
    """Runs of single bytes are held back until they end; the beginning loses some characters.

    Args:
        taken: the character, and how many of it at most.
    """

    def __init__(self, decoder: StepDecoder, errors: OnInvalid, taken: tuple[str, int]) -> None:
        super().__init__(decoder, errors)
        self._run = list[int]()
        self._character, self._most = taken
        self._left = self._most

    def feed(self, id_: int) -> str:
        (known,) = self._steps.known([id_])
        if known in self._steps.bytes_alone:
            self._run.append(known)
            return ""
        return self._beginning_taken(self._text_of_run() + self._steps.joined([known]).decode())

    def flush(self) -> str:
        rest = self._beginning_taken(self._text_of_run())
        self._left = self._most
        return rest

    def _text_of_run(self) -> str:
        run, self._run = self._run, []
        try:
            return self._steps.joined(run).decode()
        except UnicodeDecodeError:
            if self._errors == "strict":
                raise
            return _BROKEN * len(run)

    def _beginning_taken(self, text: str) -> str:
        while self._left and text:
            if not text.startswith(self._character):
                self._left = 0
                break
            text, self._left = text[1:], self._left - 1
        return text
