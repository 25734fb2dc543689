"""Decoding of token ids to bytes and text, at once or as a stream."""

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

_FEW = 5  # up to this many ids, joining Python strings is faster than a kernel
_MANY = 4096  # from this many ids, allocating memory does not matter
_LIKELY = 8  # bytes per token; if too few, the kernel runs twice
_SPARSE = 1 << 20  # larger ids in a small vocab would make tables mostly empty

_ROOM = _LIKELY * _MANY

# Output buffers with their addresses, shared by threads; bytearrays slice faster than arrays.
_spare = list[tuple[bytearray, int]]()
_take, _give = _spare.pop, _spare.append

OnInvalid = Literal["replace", "strict", "ignore"]
_REPLACE = "replace"


def _made_spare() -> tuple[bytearray, int]:
    content = bytearray(_ROOM + SLOT)
    return content, np.frombuffer(content, np.uint8).ctypes.data


def check_errors(errors: str) -> None:
    """Raise InvalidOption for an unknown value of ``errors``."""
    if not isinstance(errors, str) or errors not in get_args(OnInvalid):
        raise InvalidOption(
            f"errors is {errors!r}", "expected: 'replace', 'strict' or 'ignore'", "leave it out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Kernel tables of a vocab without large gaps; keep a reference while in use.

    Attributes:
        lengths: int64: bytes of each token by id; 0 in gaps.
        slots, long_tokens: see `join_tokens`.
        facts: uint64, arguments of `join_listed`; ``address`` is theirs.
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
    """Return the bytes of each token by id, 0 in gaps: int64."""
    lengths = np.zeros(max(vocab) + 1, np.int64)
    if isinstance(vocab, TokenTable):
        lengths[vocab.ids] = vocab.lengths
    else:
        lengths[list(vocab)] = list(map(len, vocab.values()))
    return lengths


def _beginnings(vocab: Mapping[int, bytes], size: int) -> NDArray[Any]:
    if not isinstance(vocab, TokenTable):
        short = np.zeros(size, f"S{SLOT}")
        short[list(vocab)] = list(vocab.values())  # truncates longer tokens
        return short
    cells = np.zeros((size, SLOT), np.uint8)
    rows = np.arange(len(vocab))
    for place in range(SLOT):
        rows = rows[vocab.lengths[rows] > place]
        cells[vocab.ids[rows], place] = vocab.words[vocab.begins[rows] + place]
    return cells


def _tokens(vocab: Mapping[int, bytes], ids: NDArray[np.int64]) -> Iterator[bytes]:
    if isinstance(vocab, TokenTable):
        yield from vocab.tokens_of(ids)
    else:
        yield from map(vocab.__getitem__, ids.tolist())


class Decoder:
    """Joins the bytes of tokens; bools are not ids, and the vocab has no empty tokens."""

    def __init__(self, vocab: Mapping[int, bytes]) -> None:
        self._vocab = vocab

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        """Decode token ids to text; see `Tokenizer.decode`."""
        if errors is not _REPLACE:
            check_errors(errors)
        if type(ids) is list and len(ids) <= _MANY:
            if len(ids) <= _FEW:
                try:
                    tokens = itemgetter(*ids)(self._texts)
                    if type(tokens) is str:
                        return tokens
                    if type(tokens) is tuple and None not in tokens:
                        return "".join(tokens)
                except (IndexError, TypeError, OverflowError):
                    pass  # the slow path accepts index-like ids and reports bad ones
            tables = self._tables  # a reference while the kernel reads them
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
        """Decode token ids to bytes; UnknownToken for ids that are not in the vocab."""
        return bytes(self._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
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
        """Return ids as plain ints, or raise `UnknownToken`."""
        try:
            plain = list(map(index, ids))
        except TypeError:
            raise self._unknown(ids) from None
        if bool in map(type, ids) or not all(map(self._vocab.__contains__, plain)):
            raise self._unknown(ids)
        return plain

    @cached_property
    def longest(self) -> int:
        return max(map(len, self._vocab.values()))

    def lengths(self, ids: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return the bytes of each token: int64 ``[n]``. All ids must be in the vocab."""
        tables = self._tables
        if tables is None:
            sizes = (len(self._vocab[id_]) for id_ in ids.tolist())
            return np.fromiter(sizes, np.int64, len(ids))
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
        """Join a list of ids; None if it contains other objects, or ids are sparse."""
        tables = self._tables
        if tables is None:
            return None
        content = np.empty(_LIKELY * len(ids) + SLOT, np.uint8)
        size = join_listed(id(ids), tables.address, content.ctypes.data, len(content) - SLOT)
        if size + SLOT > len(content):
            content = np.empty(size + SLOT, np.uint8)
            again = join_listed(id(ids), tables.address, content.ctypes.data, size)
            if again != size:
                return None  # another thread changed the list
        return None if size < 0 else content.data[:size]

    @cached_property
    def _texts(self) -> list[str | None]:
        """Texts of tokens by id; None for incomplete characters and gaps.

        Also None where bools or negative ids would index.
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
        size = max(max(self._vocab), len(self._vocab))
        return _Tables.of(self._vocab) if size < max(_SPARSE, 4 * len(self._vocab)) else None

    def _unknown(self, ids: list[Any]) -> UnknownToken:
        vocab_ids = self._vocab.keys()
        unknown = next(id_ for id_ in ids if not _is_whole(id_) or index(id_) not in vocab_ids)
        happened = f"the id {repr(unknown)[:40]} is not in the vocab"
        if not _is_whole(unknown):
            return UnknownToken(
                f"{happened}: it is not a whole number but of type {type(unknown).__name__}",
                "expected ints or NumPy integers",
                "pass ids as `encode` returns them: tokenizer.decode([65, 66])",
            )
        return UnknownToken(
            happened,
            f"expected an id between {min(vocab_ids)} and {max(vocab_ids)}",
            "check that the text was encoded with this tokenizer: compare the digests",
        )


def _is_whole(id_: Any) -> bool:
    try:
        index(id_)
    except TypeError:
        return False
    return not isinstance(id_, bool)


def list_of(ids: Iterable[int] | NDArray[Any]) -> list[Any]:
    """Return ids as a list; raise WrongKind for text, sets, mappings and scalars."""
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            refuse_other_arrays(ids)
        return list(ids.tolist())
    if isinstance(ids, list | tuple):
        return list(ids)
    if isinstance(ids, str | bytes | bytearray | Mapping | Set) or not isinstance(ids, Iterable):
        raise WrongKind(
            f"one value of type {type(ids).__name__} was given where ids are decoded",
            "expected: a list or an array of ids, as `encode` returns them",
            f"write [{ids!r}]" if _is_whole(ids) else "write decode([65, 66])",
        )
    return list(ids)


def refuse_other_arrays(ids: NDArray[Any]) -> None:
    """Raise `UnknownToken` for arrays that are not one-dimensional integers."""
    if ids.ndim != 1 or (ids.dtype.kind not in "iuO" and ids.size):
        shape = "×".join(map(str, ids.shape)) or "no"
        raise UnknownToken(
            f"an array of {shape} values of type {ids.dtype} does not contain ids",
            "expected an array with one dimension and an integer type",
            "decode it row by row with `decode_batch`, or convert it to np.uint32",
        )


class DecodeStream:
    """Decodes ids that arrive one at a time; the joined text equals `decode`.

    Bytes of an incomplete character are held back until it is complete or invalid. Use one stream
    per thread. For ``errors``, see `Tokenizer.decode`.
    """

    def __init__(self, decoder: Decoder, errors: OnInvalid = "replace") -> None:
        check_errors(errors)
        self._decoder = decoder
        self._characters = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, id_: int) -> str:
        """Return the text that this id completes; often one token, sometimes nothing.

        Raises:
            UnknownToken: the id is not in the vocab; the stream is unchanged.
            UnicodeDecodeError: not UTF-8, with ``"strict"``.
        """
        return self._characters.decode(self._decoder.decode([id_]))

    def flush(self) -> str:
        """Return the text still held back, and reset the stream.

        With ``"strict"``, an incomplete character raises `UnicodeDecodeError`.
        """
        rest = self._characters.decode(b"", True)
        self._characters.reset()
        return rest


class WholeStream(DecodeStream):
    """Returns all text in `flush`, because later tokens may change earlier text."""

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
    """Decodes exactly as ``tokenizers`` with ``skip_special_tokens=False``.

    The decoder steps replace bytes that are not UTF-8. ``errors="strict"`` raises for them where
    steps join bytes (`DecoderSteps.joining`).

    Args:
        names: id → token as in the file, or `TextPreparation.contents` for added tokens that are
            found in normalized text.
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
            contents_between = steps.applied(["", *tokens, ""])[1:-1] if steps.by_place else tokens
            contents = [token.encode() for token in contents_between]
        shown = dict(zip(self._names, contents, strict=True))
        super().__init__(shown)
        self._silent = [id_ for id_, content in shown.items() if not content]

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        ids = ids if isinstance(ids, (list, np.ndarray)) else list_of(ids)
        if self._joining is not None:
            return self._text_of_bytes(ids, errors)
        vocab_ids = self._known_ids(ids)
        if not self.steps.by_place or len(vocab_ids) < 2:
            return self._by_steps(vocab_ids)
        between = str(self._joined(vocab_ids[1:-1]), "utf-8")
        return (
            self.text_at(vocab_ids[0], True, False)
            + between
            + self.text_at(vocab_ids[-1], False, True)
        )

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        joining = self._joining
        if joining is None or joining.after.taken_from_the_beginning is None:
            return self.text(ids, "replace").encode()
        content = bytes(self._joined(ids))
        if not joining.after.steps:
            return content
        text = joining.after.text_of([content.decode("utf-8", "surrogateescape")])
        return text.encode("utf-8", "surrogateescape")

    def text_at(self, id_: int, is_first: bool, is_last: bool) -> str:
        """Decode a token at its place, for steps that look at nothing else (`by_place`)."""
        before, after = [""] * (not is_first), [""] * (not is_last)
        decoded = self.steps.applied([*before, self._names[id_], *after])
        return decoded[len(before)]

    def joined(self, ids: list[int]) -> bytes:
        return bytes(self._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        joining = self._joining
        if joining is not None and not joining.whole_runs and not joining.after.steps:
            return DecodeStream(self, errors)
        if joining is not None:
            stripped = joining.after.taken_from_the_beginning
            if stripped is not None and joining.whole_runs and errors != "ignore":
                return _RunStream(self, errors, stripped)
            return WholeStream(self, errors)
        return (_PlaceStream if self.steps.by_place else WholeStream)(self, errors)

    def _text_of_bytes(self, ids: list[int] | NDArray[Any], errors: OnInvalid) -> str:
        assert self._joining is not None
        if not self._joining.whole_runs or errors == "ignore":
            text = super().text(ids, errors)
        else:
            try:
                # If all bytes together are UTF-8, those of each run are.
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
        if self._silent:  # kernels do not support empty tokens
            if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
                ids = ids[~np.isin(ids, self._silent)]
            else:
                silent = frozenset(self._silent)
                ids = [id_ for id_ in self._known_ids(list_of(ids)) if id_ not in silent]
        return super()._joined(ids)


class _StepStream(DecodeStream):
    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._steps = decoder
        self._errors = errors


class _PlaceStream(_StepStream):
    """Stream where the first and last token are decoded differently."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._held = list[int]()  # the last token, where the end of text changes it
        self._count = 0

    def feed(self, id_: int) -> str:
        self._held += self._steps.known([id_])
        if self._steps.steps.ends_differ and len(self._held) < 2:
            return ""
        decoded = self._steps.text_at(self._held.pop(0), self._count == 0, False)
        self._count += 1
        return decoded

    def flush(self) -> str:
        held, self._held = self._held, []
        count, self._count = self._count, 0
        return self._steps.text_at(held[0], count == 0, True) if held else ""


class _RunStream(_StepStream):
    """Stream where runs of byte tokens are held back, and the beginning is stripped."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid, taken: tuple[str, int]) -> None:
        super().__init__(decoder, errors)
        self._run = list[int]()
        self._character, self._most = taken
        self._left = self._most

    def feed(self, id_: int) -> str:
        (vocab_id,) = self._steps.known([id_])
        if vocab_id in self._steps.bytes_alone:
            self._run.append(vocab_id)
            return ""
        return self._beginning_taken(self._text_of_run() + self._steps.joined([vocab_id]).decode())

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
