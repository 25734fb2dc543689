"""BPE over characters as in Llama 2, Mistral and Gemma: value, coders, decoder, explanation.

HuggingFace calls it BPE with ``byte_fallback`` and the like; SentencePiece's models of type BPE
become it once their merges are derived. Texts come normalized, spaces as ▁.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import groupby, pairwise
from typing import Any, ClassVar, Self

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core import encoding
from bpeline.tokenizer_core.algorithms.sentencepiece_bpe_encoder import (
    WHOLE_TEXT,
    SentencePieceEncoder,
    ranks_by_piece,
    symbols_of,
)
from bpeline.tokenizer_core.algorithms.sentencepiece_model import UNKNOWN_SURFACE
from bpeline.tokenizer_core.encoding import Decoder, DecodeStream
from bpeline.tokenizer_core.pipeline import SentencePieceText
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision

_MARK, _BROKEN = "▁", "\ufffd"
_ERRORS: dict[encoding.OnInvalid, str] = {"strict": "strict", "replace": "bpeline-each-byte"}


@dataclass(frozen=True, slots=True)
class SentencePieceBpe(Algorithm):
    """Byte pair encoding over the characters of a text that need not be cut into words.

    In each pre-token the pair of lowest rank is merged, leftmost first, until none is left. A
    character that is no token becomes its bytes, or the unknown token, or nothing.

    Attributes:
        byte_fallback: whether such a character becomes the tokens of its bytes, ``<0xE2>`` …, if
            the vocab holds all 256 of them.
        unknown: else it becomes this token; where the vocab lacks it, texts with such characters
            are refused. None: such characters are left out, and their neighbours merge.
        fuse_unknown: whether several unknown characters in a row become one token.
        by_piece: whether all merges that make one token have one rank, as in SentencePiece, where
            only tokens have scores: the place of the first of them in the list of merges.
        ties: with ``by_piece`` tokens of equal score: of the tokens that merges make, in this
            order, the numbers of those that have the rank of the one before.
        user_defined: tokens that are found in the normalized text before all else (leftmost, then
            longest), and never merge.
    """

    name: ClassVar[str] = "sentencepiece-bpe"
    default_pattern: ClassVar[str] = WHOLE_TEXT
    has_merges: ClassVar[bool] = True
    may_ignore_merges: ClassVar[bool] = True
    byte_fallback: bool = True
    unknown: str | None = "<unk>"
    fuse_unknown: bool = True
    by_piece: bool = False
    ties: tuple[int, ...] = ()
    user_defined: tuple[str, ...] = ()

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        known = {field.name for field in fields(cls)}
        if given.keys() != known:
            return None
        flags = given["byte_fallback"], given["fuse_unknown"], given["by_piece"]
        if not all(isinstance(flag, bool) for flag in flags):
            return None
        if not isinstance(given["unknown"], str | None):
            return None
        ties, user_defined = given["ties"], given["user_defined"]
        if not all(isinstance(listed, list | tuple) for listed in (ties, user_defined)):
            return None
        if set(map(type, ties)) - {int} or set(map(type, user_defined)) - {str}:
            return None
        return cls(**{**given, "ties": tuple(ties), "user_defined": tuple(user_defined)})


KIND = SentencePieceBpe


def coders(spec: TokenizerSpec) -> tuple[SentencePieceEncoder, Decoder]:
    """The encoder and the decoder: of a model as its library decodes, else tokens as spelled.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, some bytes of 256, or merges of tokens that
            stand for bytes or unknown characters; a user-defined token that the vocab lacks.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    ties = frozenset(algorithm.ties) if algorithm.by_piece else None
    symbols = symbols_of(spec, algorithm.byte_fallback, algorithm.unknown, ties)
    encoder = SentencePieceEncoder(symbols, spec, algorithm.fuse_unknown, algorithm.user_defined)
    steps = spec.pipeline.normalizer.steps if spec.pipeline and spec.pipeline.normalizer else ()
    if len(steps) == 1 and isinstance(steps[0], SentencePieceText) and algorithm.unknown:
        fallback = algorithm.byte_fallback
        return encoder, ModelDecoder(spec, steps[0], algorithm.unknown, fallback)
    return encoder, Decoder(spec.vocab)


def _replace_one_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _BROKEN, error.start + 1


codecs.register_error(_ERRORS["replace"], _replace_one_byte)


class ModelDecoder(Decoder):
    """What ``sentencepiece`` decodes.

    Control tokens have no text, the unknown token is `UNKNOWN_SURFACE`, and each byte that belongs
    to no character is U+FFFD. The space before the first word is dropped as a model says.

    Args:
        written: how its texts are normalized.
        byte_fallback: whether it has tokens of bytes.
    """

    def __init__(
        self, spec: TokenizerSpec, written: SentencePieceText, unknown: str, byte_fallback: bool
    ) -> None:
        surfaces = {id_: token.decode().replace(_MARK, " ") for id_, token in spec.vocab.items()}
        surfaces |= dict.fromkeys(spec.special_tokens.values(), "")
        surfaces[spec.special_tokens[unknown]] = UNKNOWN_SURFACE
        contents = {id_: surface.encode() for id_, surface in surfaces.items()}
        if byte_fallback:
            names = {f"<0x{byte:02X}>".encode(): bytes([byte]) for byte in range(256)}
            contents |= {id_: names[t] for id_, t in spec.vocab.items() if t in names}
        super().__init__(contents)
        self.contents = contents
        #: Ids of single bytes.
        self.bytes_alone = frozenset(i for i, c in contents.items() if c != surfaces[i].encode())
        self._silent = frozenset(id_ for id_, content in contents.items() if not content)
        mark = _MARK.encode()
        self._marked = frozenset(i for i, token in spec.vocab.items() if token.startswith(mark))
        self._drops_each = written.remove_extra_whitespaces
        if not (written.add_dummy_prefix or self._drops_each):
            self._marked = frozenset()
        self._changed_at_begin = self._marked | self._silent

    def text(self, ids: Iterable[int] | NDArray[Any], errors: encoding.OnInvalid) -> str:
        encoding.check_errors(errors)
        return "".join(part.decode("utf-8", _ERRORS[errors]) for part in self._parts(ids))

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of a text, also those that are not UTF-8.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        return b"".join(self._parts(ids))

    def stream(self, errors: encoding.OnInvalid = "replace") -> DecodeStream:
        return _ModelStream(self, errors)

    def opening(self, id_: int) -> tuple[bytes, bool]:
        """What a known token is where no text stands before it, and whether none does behind it."""
        content = self.contents[id_]
        if id_ in self._marked:
            content = content[1:]
            return content, self._drops_each and not content
        return content, not content

    def _parts(self, ids: Iterable[int] | NDArray[Any]) -> list[bytes]:
        """Bytes of which no character goes on in the next ones."""
        if isinstance(ids, np.ndarray):
            encoding.refuse_other_arrays(ids)
        rest = encoding.list_of(ids)
        parts, opens = list[bytes](), True
        while opens and rest and (first := self.known(rest[:1])[0]) in self._changed_at_begin:
            content, opens = self.opening(first)
            parts.append(content)
            rest = rest[1:]
        try:
            if self._silent.isdisjoint(rest):
                return [*parts, bytes(self._joined(rest))]
        except TypeError:  # something that is no id
            pass
        runs = groupby(self.known(rest), self._silent.__contains__)
        return parts + [bytes(self._joined(list(run))) for silent, run in runs if not silent]


class _ModelStream(DecodeStream):
    """Text from ids one at a time: runs of single bytes are held until they end."""

    def __init__(self, decoder: ModelDecoder, errors: encoding.OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._model, self._errors = decoder, _ERRORS[errors]
        self._run, self._opens = bytearray(), True

    def feed(self, id_: int) -> str:
        (known,) = self._model.known([id_])
        content = self._model.contents[known]
        if known in self._model.bytes_alone:
            self._run += content
            self._opens = False
            return ""
        if self._opens:
            content, self._opens = self._model.opening(known)
        return self._text_of_run() + content.decode()

    def flush(self) -> str:
        self._opens = True
        return self._text_of_run()

    def _text_of_run(self) -> str:
        run, self._run = bytes(self._run), bytearray()
        return run.decode("utf-8", self._errors)


def explained(spec: TokenizerSpec) -> Decide:
    """Explains pre-tokens of a tokenizer, which may be whole texts, as they are once prepared."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    known = {token.decode() for token in spec.ids}
    pairs = [(left.decode(), right.decode()) for left, right in spec.merges]
    ranks = _ranks(pairs, algorithm)
    fixed = sorted(algorithm.user_defined, key=len, reverse=True)
    find = regex.compile("|".join(map(regex.escape, fixed))) if fixed else None
    by_bytes = algorithm.byte_fallback and "<0x00>" in known

    def decide(word: str) -> Iterator[Decision]:
        if spec.ignore_merges and word in known:
            yield Decision("one token by itself, whatever its merges say", (word,), (word,))
            return
        symbols: list[tuple[str, bool]] = []  # text, and whether it merges
        place = 0
        for found in find.finditer(word) if find else ():
            symbols += [(character, True) for character in word[place : found.start()]]
            symbols.append((found.group(), False))
            place = found.end()
            shown = (*(text for text, _ in symbols), *word[place:])
            yield Decision("defined by the user", (found.group(),), shown)
        symbols += [(character, True) for character in word[place:]]
        if algorithm.unknown is None and not by_bytes:
            left_out = [text for text, _ in symbols if text not in known]
            symbols = [one for one in symbols if one[0] in known]
            if left_out:
                kept = tuple(text for text, _ in symbols)
                yield Decision("unknown, left out", tuple(left_out), kept)
        while True:
            open_ = [
                ranks.get((left, right)) if merges and also else None
                for (left, merges), (right, also) in pairwise(symbols)
            ]
            present = [rank for rank in open_ if rank is not None]
            if not present:
                break
            place = open_.index(min(present))
            (left, _), (right, _) = symbols[place : place + 2]
            symbols[place : place + 2] = [(left + right, True)]
            shown = tuple(text for text, _ in symbols)
            yield Decision(f"rank {min(present)}", (left, right), shown)
        yield from _of_unknown([text for text, _ in symbols], known, by_bytes, algorithm)

    return decide


def _ranks(pairs: list[tuple[str, str]], algorithm: SentencePieceBpe) -> dict[tuple[str, str], int]:
    """The rank of each merge: its place, or that of what it makes, see `SentencePieceBpe`."""
    if not algorithm.by_piece:
        return {pair: rank for rank, pair in reversed([*enumerate(pairs)])}
    of_piece = ranks_by_piece((left + right for left, right in pairs), set(algorithm.ties))
    return {(left, right): of_piece[left + right] for left, right in pairs}


def _of_unknown(
    symbols: list[str], known: set[str], by_bytes: bool, algorithm: SentencePieceBpe
) -> Iterator[Decision]:
    """What becomes of characters that are no tokens, once everything is merged."""
    if all(text in known for text in symbols):
        return
    written: list[str] = []
    for text in symbols:
        if text in known:
            written.append(text)
        elif by_bytes:
            written += [f"<0x{byte:02X}>" for byte in text.encode()]
        elif not (algorithm.fuse_unknown and written and written[-1] == algorithm.unknown):
            written.append(str(algorithm.unknown))
    why = "unknown, written as its bytes" if by_bytes else "unknown"
    yield Decision(why, tuple(text for text in symbols if text not in known), tuple(written))
