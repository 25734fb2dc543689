"""Byte pair encoding with dropout: which merges are left out depends on a seed and on places alone.

BPE-dropout of Provilkov, Emelianenko and Voita (ACL 2020), algorithm 1. Knows no strings and no
files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.merge_encoding import merge_table
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    DROPOUT_SCRATCH,
    MOST_DROPPED,
    merge_with_dropout,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.random_numbers import STEP, scramble
from bpeline.tokenizer_core.splitting import Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import ByteBpe, TokenizerSpec

_MOST_SEED = 1 << 64


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Which random numbers spans of a text have: those of where they stand.

    Attributes:
        documents: int64 ``[n]``: a number for the document of each span.
        offsets: int64 ``[n]``: where in that document, or in its file, the span begins.
    """

    documents: NDArray[np.int64]
    offsets: NDArray[np.int64]


class DropoutEncoder:
    """Merges at random, in the same way for the same seed, sample and place.

    Any number of threads may encode at once.

    Args:
        spec: of byte-level BPE that takes texts as they are.
        dropout: above 0, up to 1: the probability that a possible merge is left out at a step.
        seed: 0 to 2⁶⁴ − 1.

    Raises:
        InvalidOption: a probability or seed that is none, or a tokenizer of another kind.
    """

    def __init__(self, spec: TokenizerSpec, dropout: float, seed: int = 0) -> None:
        require_dropout(dropout)
        require_natural("seed", seed)
        if not isinstance(spec.algorithm, ByteBpe) or spec.pipeline is not None:
            _refuse("is of another algorithm, or changes texts before it merges")
        if (spec.byte_ids < 0).any():
            _refuse("has no ids for some bytes")
        self.dropout, self.seed = dropout, seed
        self._byte_ids = spec.byte_ids.astype(np.uint32)
        self._merges = merge_table(spec.merge_ids)
        self._splitter = Splitter(spec.pattern)

    def encode(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        places: Places,
        sample: int = 0,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Token ids of spans; for the first three and what is returned see `Encoder.encode`.

        Args:
            places: of each span. Spans with the same numbers have the same random numbers.
            sample: another number gives another encoding, 0 to 2⁶⁴ − 1.
        """
        marks = self._splitter.mark_every_byte(text, spans)
        begins = np.flatnonzero(np.unpackbits(marks.view(np.uint8), bitorder="little"))
        # Of an empty span nothing is marked: the last one that begins here is not empty.
        span = np.searchsorted(spans[:, 0], begins, "right") - 1
        stops = np.append(begins[1:], text.size)
        last = np.append(span[1:] != span[:-1], True)[: len(span)]
        stops[last] = spans[span[last], 1]
        streams = _below(_below(np.zeros(1, np.uint64), self.seed), sample)
        streams = _below(streams, places.documents[span])
        streams = _below(streams, places.offsets[span] + begins - spans[span, 0])
        ids = np.empty(int((stops - begins).sum()), np.uint32)
        ends = np.zeros(len(begins), np.int64)
        longest = int((stops - begins).max(initial=0))
        merge_with_dropout(
            text.data,
            begins,
            stops,
            streams,
            np.uint64(self.dropout * MOST_DROPPED),
            self._byte_ids,
            self._merges,
            HASH_KEY,
            np.empty(DROPOUT_SCRATCH * longest // 8 + 1, np.uint64),
            ids,
            ends,
        )
        of_spans = np.append(0, ends)[np.searchsorted(span, np.arange(len(spans)), "right")]
        ids = ids[: of_spans[-1] if len(spans) else 0]
        marked = behind >= 0
        ids = np.insert(ids, of_spans[marked], behind[marked].astype(np.uint32))
        return ids, of_spans + np.cumsum(marked)


def require_dropout(dropout: float) -> None:
    """Refuse what is no probability of dropout."""
    if not 0 <= dropout <= 1:
        raise InvalidOption(
            f"the probability of dropout is {dropout}",
            "a number from 0, which drops no merge, to 1, which drops all",
            "choose 0.1",
        )


def require_natural(name: str, number: int) -> None:
    """Refuse a seed, or the number of a sample, that 64 bits do not hold."""
    if not 0 <= number < _MOST_SEED:
        raise InvalidOption(
            f"the {name} is {number}", "a whole number from 0 to 2⁶⁴ − 1", f"choose {name}=0"
        )


def _below(streams: NDArray[np.uint64], numbers: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where the random numbers of a part begin, from where those of the whole do."""
    parts: NDArray[np.uint64] = scramble((streams ^ np.uint64(numbers)) + STEP)
    return parts


def _refuse(why: str) -> None:
    raise InvalidOption(
        f"this tokenizer {why}",
        "dropout works on byte-level BPE that takes texts as they are",
        "encode without dropout",
    )
