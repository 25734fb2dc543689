"""The protocols between a tokenizer and the algorithms that make its ids."""

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
    """What makes token ids of marked or unmarked text; `BytePairEncoder` is one.

    An encoder is complete when it is made and then never changes what it answers, so any number
    of threads may call it at once. An algorithm that subclasses this protocol writes the first two
    methods; the others have bodies, to be replaced where there is a quicker way.
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

    @contextmanager
    def lending(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Like `encode`, but the arrays are valid only inside the `with` block.

        Ids of many long texts then do not take fresh memory for each.
        """
        yield self.encode(text, spans, behind)

    def encode_rows(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """`encode_words` of words that lie one after the other.

        Args:
            content: uint8.
            offsets: int64 ``[n + 1]``; word ``i`` is ``content[offsets[i]:offsets[i + 1]]``.
        """
        joined, edges = content.tobytes(), offsets.tolist()
        return self.encode_words([joined[begin:end] for begin, end in pairwise(edges)])

    def encode_whole(self, text: Text) -> NDArray[np.uint32]:
        """Token ids of a whole text as one span: uint32."""
        span = np.empty((1, 2), np.int64)
        span[0, 0] = 0
        span[0, 1] = text.size
        return self.encode(text, span, _NO_ID_BEHIND)[0]

    def independent_cuts(self, cuts: Cuts) -> Cuts:
        """Of ``cuts``, legal for the split pattern, those where ids do not depend on each other."""
        return cuts

    def encode_short(self, content: bytes) -> list[int]:
        """Token ids of UTF-8 text of at most `SHORT_TEXT` bytes, as soon as can be."""
        return listed(self.encode_whole(Text.of(content)))


@dataclass(frozen=True, slots=True, eq=False)
class PlacedIds:
    """Ids and where in the text they stand.

    Attributes:
        ids: uint32 ``[n]``.
        places: int64 ``[n, 2]``: byte ranges. A mark that is not in the text has an empty one.
        closes: bool ``[n]``: whether a word (or a special token, or a mark) ends with this id.
    """

    ids: NDArray[np.uint32]
    places: NDArray[np.int64]
    closes: NDArray[np.bool_]


@runtime_checkable
class PlacingEncoder(Protocol):
    """An encoder whose tokens do not join to the text, and which says where they stand in it."""

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """The ids of `Encoder.encode`, and their places.

        Raises:
            InvalidOption: the text is not the one that was encoded: it is normalized before.
        """
        ...


class TokenizerParts(Protocol):
    """A tokenizer as the rooms below it see it: what it does, and what makes its ids."""

    @property
    def spec(self) -> TokenizerSpec: ...

    @property
    def encoder(self) -> Encoder: ...
