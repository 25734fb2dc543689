"""Ids of words to text: marks of words become spaces; knows nothing of encoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from tokenizer_core.algorithms import (
    ByteBpe,
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    WordPiece,
)
from tokenizer_core.decoding import Decoder, DecodeStream, OnInvalid

_GAPS = b" \n"  # what stands between words; a text neither begins nor ends with it


class WordDecoder(Decoder):
    """Joins what tokens look like in text, with one space between words.

    Args:
        shown: id → what it looks like, its space included.
    """

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        return without_gaps_around(self.decode_raw(ids))

    def decode_raw(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """As `decode`, with the spaces before the first and behind the last word."""
        return super().decode(ids)


class WordStream(DecodeStream):
    """Text from ids that come one at a time: spaces wait for the word behind them."""

    def __init__(self, decoder: WordDecoder, errors: OnInvalid = "replace") -> None:
        super().__init__(decoder, errors)
        self._raw = decoder
        self._held = b""
        self._begun = False

    def feed(self, id_: int) -> str:
        content = self._held + self._raw.decode_raw([id_])
        whole = content.rstrip(_GAPS)
        self._held = content[len(whole) :]
        if not self._begun:
            whole = whole.lstrip(_GAPS)
        self._begun = self._begun or bool(whole)
        return self._characters.decode(_one_gap(whole))

    def flush(self) -> str:
        self._held, self._begun = b"", False
        return super().flush()


def without_gaps_around(content: bytes) -> bytes:
    """Words with one gap between them and none around."""
    return _one_gap(content.strip(_GAPS))


def _one_gap(content: bytes) -> bytes:
    """A line that ended needs no space as well."""
    return content.replace(b" \n", b"\n")


def shown_tokens(
    algorithm: CharacterBpe | GreedyLongest | WordPiece | FrequencyBpe | ByteBpe,
    vocab: Mapping[int, bytes],
    whole: frozenset[int],
) -> dict[int, bytes]:
    """What each token looks like in text, with the space that it brings along.

    Args:
        whole: ids of special tokens and marks, which are words of their own.
    """
    if isinstance(algorithm, WordPiece):
        mark = algorithm.continuation.encode()
        return {
            id_: token[len(mark) :] if token.startswith(mark) and id_ not in whole else b" " + token
            for id_, token in vocab.items()
        }
    end = b"" if isinstance(algorithm, ByteBpe) else algorithm.end_of_word.encode()
    shown = {
        id_: token[: -len(end)] + b" " if token.endswith(end) else token
        for id_, token in vocab.items()
    }
    if isinstance(algorithm, FrequencyBpe):
        for id_, token in vocab.items():
            if token == algorithm.line_begin.encode():
                shown[id_] = b""
            elif token == algorithm.line_end.encode():
                shown[id_] = b"\n"
    return shown
