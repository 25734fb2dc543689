"""BPE over characters as in Llama 2, Mistral and Gemma: encoder and decoder.

HuggingFace calls it BPE with ``byte_fallback``. SentencePiece models of type BPE use it too, with
derived merges. Texts are normalized first; their spaces are ▁.
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
    """Byte pair encoding over the characters of pre-tokens or whole texts.

    The pair of lowest rank is merged first, leftmost of equals, until no merge applies. A
    character without a token becomes its byte tokens, the unknown token, or nothing.

    Attributes:
        byte_fallback: such a character becomes byte tokens (``<0xE2>`` …) if the vocab has all 256.
        unknown: otherwise it becomes this token; if the vocab lacks it, encoding raises. None: such
            characters are dropped, and their neighbours merge.
        fuse_unknown: a run of unknown characters becomes one token.
        by_piece: all merges that make the same token share one rank, that of the first of them, as
            in SentencePiece, where tokens have scores.
        ties: with ``by_piece``, tokens of equal score: indices, among the tokens in the order in
            which merges make them, of those that share the rank of the token before.
        user_defined: tokens matched in the normalized text before all else (leftmost, then
            longest); they never merge.
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
        names = {field.name for field in fields(cls)}
        if given.keys() != names:
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
    """Build the encoder and the decoder, which follows SentencePiece for its models."""
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
    """Decodes ids as ``sentencepiece`` does.

    Control tokens decode to nothing, the unknown token to `UNKNOWN_SURFACE`, each invalid byte to
    U+FFFD. The leading space is dropped if the model adds a dummy prefix or trims spaces.
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
        #: Ids of byte tokens.
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
        return b"".join(self._parts(ids))

    def stream(self, errors: encoding.OnInvalid = "replace") -> DecodeStream:
        return _ModelStream(self, errors)

    def opening(self, id_: int) -> tuple[bytes, bool]:
        """Bytes of a token that opens a text, and whether the next token opens it too."""
        content = self.contents[id_]
        if id_ in self._marked:
            content = content[1:]
            return content, self._drops_each and not content
        return content, not content

    def _parts(self, ids: Iterable[int] | NDArray[Any]) -> list[bytes]:
        """Decoded bytes in parts that end between characters."""
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
        except TypeError:  # a value that cannot be an id
            pass
        runs = groupby(self.known(rest), self._silent.__contains__)
        return parts + [bytes(self._joined(list(run))) for silent, run in runs if not silent]


class _ModelStream(DecodeStream):
    """Decodes ids one by one; runs of byte tokens are held back until they end."""

    def __init__(self, decoder: ModelDecoder, errors: encoding.OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._model, self._errors = decoder, _ERRORS[errors]
        self._run, self._opens = bytearray(), True

    def feed(self, id_: int) -> str:
        (token_id,) = self._model.known([id_])
        content = self._model.contents[token_id]
        if token_id in self._model.bytes_alone:
            self._run += content
            self._opens = False
            return ""
        if self._opens:
            content, self._opens = self._model.opening(token_id)
        return self._text_of_run() + content.decode()

    def flush(self) -> str:
        self._opens = True
        return self._text_of_run()

    def _text_of_run(self) -> str:
        run, self._run = bytes(self._run), bytearray()
        return run.decode("utf-8", self._errors)


def explained(spec: TokenizerSpec) -> Decide:
    """Explain pre-tokens (possibly whole texts) after normalization."""
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
        for match in find.finditer(word) if find else ():
            symbols += [(character, True) for character in word[place : match.start()]]
            symbols.append((match.group(), False))
            place = match.end()
            shown = (*(text for text, _ in symbols), *word[place:])
            yield Decision("user-defined token", (match.group(),), shown)
        symbols += [(character, True) for character in word[place:]]
        if algorithm.unknown is None and not by_bytes:
            left_out = [text for text, _ in symbols if text not in known]
            symbols = [symbol for symbol in symbols if symbol[0] in known]
            if left_out:
                remaining = tuple(text for text, _ in symbols)
                yield Decision("unknown, dropped", tuple(left_out), remaining)
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
    """The rank of each merge or, with ``by_piece``, of the token it makes."""
    if not algorithm.by_piece:
        return {pair: rank for rank, pair in reversed([*enumerate(pairs)])}
    of_piece = ranks_by_piece((left + right for left, right in pairs), set(algorithm.ties))
    return {(left, right): of_piece[left + right] for left, right in pairs}


def _of_unknown(
    symbols: list[str], known: set[str], by_bytes: bool, algorithm: SentencePieceBpe
) -> Iterator[Decision]:
    """Replace characters without a token after all merges."""
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
