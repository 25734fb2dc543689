"""The seam between a tokenizer and the algorithm that makes its ids; knows no algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

_NO_ID_BEHIND = np.full(1, -1, np.int64)


class Encoder(Protocol):
    """What makes token ids of marked or unmarked text; `BytePairEncoder` is one.

    An encoder is complete when it is made and then never changes what it answers, so any number
    of threads may call it at once. An algorithm that subclasses this protocol writes the first two
    methods; the other two have bodies, to be replaced where there is a quicker way.
    """

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Token ids of spans, one after the other.

        Args:
            text: valid UTF-8.
            spans: int64 ``[n, 2]``: half-open byte ranges, each cut into pre-tokens and encoded
                on its own.
            behind: int64 ``[n]``: an id written behind each span, or −1 for none.

        Returns:
            ids, uint32; and int64 ``[n]``: the number of ids up to the end of each span.
        """
        ...

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Token ids of words, each one pre-token whatever the pattern says; returns as `encode`."""
        ...

    def encode_whole(self, text: Text) -> NDArray[np.uint32]:
        """Token ids of a whole text as one span: uint32."""
        span = np.empty((1, 2), np.int64)
        span[0, 0] = 0
        span[0, 1] = text.size
        return self.encode(text, span, _NO_ID_BEHIND)[0]

    def encode_short(self, content: bytes) -> list[int]:
        """Token ids of UTF-8 text of at most `SHORT_TEXT` bytes, as soon as can be."""
        ids: list[int] = self.encode_whole(Text.of(content)).tolist()
        return ids


class TokenizerParts(Protocol):
    """A tokenizer as the rooms below it see it: what it does, and what makes its ids."""

    @property
    def spec(self) -> TokenizerSpec: ...

    @property
    def encoder(self) -> Encoder: ...
