"""Ids of words to text: marks of words become spaces; knows nothing of encoding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding import (
    Decoder,
    DecodeStream,
    OnInvalid,
    check_errors,
    list_of,
    refuse_other_arrays,
)

_LINE_BREAKS = re.compile(rb" ?\n+")
_GAPS = b" \n"  # what stands between words; a text neither begins nor ends with it


class WordDecoder(Decoder):
    """Joins what tokens look like in text.

    Args:
        shown: id → what it looks like; b"" for marks that text does not show.
        spaced: whether words bring a space along, of which none is left at both ends of a text.
    """

    def __init__(self, shown: Mapping[int, bytes], spaced: bool) -> None:
        super().__init__(shown)
        self.spaced = spaced
        self._silent = frozenset(id_ for id_, content in shown.items() if not content)

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        return str(self._joined(ids), "utf-8", errors)

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        content = self.decode_raw(ids)
        return _one_gap(content.strip(_GAPS)) if self.spaced else content

    def decode_raw(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """As `decode`, with the spaces before the first and behind the last word."""
        if self._silent:
            if isinstance(ids, np.ndarray):
                refuse_other_arrays(ids)
            if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
                ids = ids[~np.isin(ids, list(self._silent))]
            else:
                ids = [id_ for id_ in self.known(list_of(ids)) if id_ not in self._silent]
        return bytes(super()._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        return WordStream(self, errors) if self.spaced else super().stream(errors)


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


def _one_gap(content: bytes) -> bytes:
    """The marks on both sides of a line break, and a space before it, are one line break."""
    return _LINE_BREAKS.sub(b"\n", content) if b"\n" in content else content


def without_ends(
    vocab: Mapping[int, bytes],
    end_of_word: str,
    whole: frozenset[int],
    gap: bytes,
    joined: bool = False,
) -> dict[int, bytes]:
    """What each token looks like in text where some end in the mark of the end of a word.

    Args:
        whole: ids of special tokens and marks, which are words of their own.
        gap: what stands between words: a space, or nothing where words hold their own spaces.
        joined: whether the mark is part of last characters, so that by itself it is text.
    """
    end = end_of_word.encode()
    return {
        id_: token[: -len(end)] + gap
        if token.endswith(end) and id_ not in whole and not (joined and token == end)
        else token
        for id_, token in vocab.items()
    }
