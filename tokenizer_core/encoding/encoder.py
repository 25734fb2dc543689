"""Protocols of encoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.memory.python_objects import listed
from bpeline.tokenizer_core.splitting import Cuts
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

_NO_ID_BEHIND = np.full(1, -1, np.int64)


class Encoder(Protocol):
    """Encodes text to ids; `BytePairEncoder` is one. Immutable and thread-safe.

    Subclasses implement the first two methods, and override others where they can be faster.
    """

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode spans of a text.

        Args:
            text: valid UTF-8.
            spans: int64 ``[n, 2]``: half-open byte ranges, pre-tokenized independently.
            behind: int64 ``[n]``: id to append after each span, or −1.

        Returns:
            ids, uint32; and int64 ``[n]``: the number of ids up to the end of each span.
        """
        ...

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode words, each as one pre-token; returns the same as `encode`."""
        ...

    @contextmanager
    def lending(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Like `encode` without allocations; arrays are valid only in the block."""
        yield self.encode(text, spans, behind)

    def encode_rows(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Like `encode_words`; word ``i`` is ``content[offsets[i]:offsets[i + 1]]``."""
        joined, edges = content.tobytes(), offsets.tolist()
        return self.encode_words([joined[begin:end] for begin, end in pairwise(edges)])

    def encode_whole(self, text: Text) -> NDArray[np.uint32]:
        """Encode a whole text as one span: uint32."""
        span = np.empty((1, 2), np.int64)
        span[0, 0] = 0
        span[0, 1] = text.size
        return self.encode(text, span, _NO_ID_BEHIND)[0]

    def independent_cuts(self, cuts: Cuts) -> Cuts:
        """Return those of ``cuts`` at which both sides are encoded independently."""
        return cuts

    def encode_short(self, content: bytes) -> list[int]:
        """Encode UTF-8 text of at most `SHORT_TEXT` bytes with low latency."""
        return listed(self.encode_whole(Text.of(content)))


@dataclass(frozen=True, slots=True, eq=False)
class PlacedIds:
    """Ids with their places in the text.

    Attributes:
        ids: uint32 ``[n]``.
        places: int64 ``[n, 2]``: byte ranges; empty for marks that are not in the text.
        closes: bool ``[n]``: whether this id ends a word, special token or mark.
    """

    ids: NDArray[np.uint32]
    places: NDArray[np.int64]
    closes: NDArray[np.bool_]


@runtime_checkable
class PlacingEncoder(Protocol):
    """An encoder that locates tokens whose bytes do not join to the text."""

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """Encode with places; raises `InvalidOption` for a normalized text."""
        ...


class TokenizerParts(Protocol):
    """The parts of a tokenizer that lower layers use."""

    @property
    def spec(self) -> TokenizerSpec: ...

    @property
    def encoder(self) -> Encoder: ...
