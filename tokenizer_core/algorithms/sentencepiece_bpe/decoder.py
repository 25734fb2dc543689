"""Ids of a SentencePiece model to text, as its own library decodes them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.sentencepiece_bpe.model_proto import UNKNOWN_SURFACE
from bpeline.tokenizer_core.encoding import (
    Decoder,
    DecodeStream,
    OnInvalid,
    check_errors,
    list_of,
    refuse_other_arrays,
)
from bpeline.tokenizer_core.normalization import SentencePieceText
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

_MARK, _BROKEN = "▁", "\ufffd"
_ERRORS: dict[OnInvalid, str] = {"strict": "strict", "replace": "bpeline-each-byte"}


def _replace_one_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _BROKEN, error.start + 1


codecs.register_error(_ERRORS["replace"], _replace_one_byte)


class ModelDecoder(Decoder):
    """What ``sentencepiece`` decodes.

    Control tokens have no text, the unknown token is `UNKNOWN_SURFACE`, and each byte that belongs
    to no character is U+FFFD. The space before the first word is dropped as a model says.

    Args:
        spec: of a model.
        written: how its texts are normalized.
        unknown: its unknown token.
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

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        return "".join(part.decode("utf-8", _ERRORS[errors]) for part in self._parts(ids))

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of a text, also those that are not UTF-8.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        return b"".join(self._parts(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
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
            refuse_other_arrays(ids)
        rest = list_of(ids)
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

    def __init__(self, decoder: ModelDecoder, errors: OnInvalid) -> None:
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
