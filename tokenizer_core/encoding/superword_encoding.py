"""Byte pair encoding where words are merged before superwords; knows no strings and no files.

A tokenizer whose pre-tokens are whole lines would look for the tokens of each line anew: lines
seldom come twice. Its words do: so these are looked up, and what is left to do is to merge their
tokens. The ids are those of `BytePairEncoder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder, merge_table
from bpeline.tokenizer_core.kernels.encoding.superword_merges import (
    DONE,
    LONGEST_RUN,
    SEAM_WORDS,
    SUPERWORD_PROGRESS,
    find_layers,
    mark_pieces,
    merge_superwords,
    note_neighbours,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

_LEAST_OF_WORDS = 4  # at least one in so many merges is one of words
_BITS_PER_NEIGHBOUR = 32  # one in so many bits is set, at most


@dataclass(frozen=True, slots=True, eq=False)
class SuperwordLayers:
    """The merges of a tokenizer in two layers: see `kernels.encoding.superword_merges`.

    Attributes:
        words: encodes by the first layer.
        inside: uint64: the pairs of bytes that are no seams.
        lengths: uint32: bytes of each token of words, by id.
        neighbours: uint64: which tokens of words may be joined.
        merges: the table of the second layer.
    """

    words: BytePairEncoder
    inside: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    neighbours: NDArray[np.uint64]
    merges: NDArray[np.uint64]

    @classmethod
    def of(cls, encoder: BytePairEncoder) -> SuperwordLayers | None:
        """The layers of an encoder's merges; None where they are not in two."""
        left, right, results = encoder.merge_ids
        ids = 1 + max(int(column.max(initial=0)) for column in (encoder.byte_ids, results))
        inside, lengths = np.zeros(SEAM_WORDS, np.uint64), np.zeros(ids, np.uint32)
        begins, ends = np.zeros((2, ids), np.uint8)
        transition = find_layers(
            encoder.byte_ids, left, right, results, begins, ends, lengths, inside
        )
        if _LEAST_OF_WORDS * transition < len(results):
            return None
        first = (left[:transition], right[:transition], results[:transition])
        second = (left[transition:], right[transition:], results[transition:])
        bits = _BITS_PER_NEIGHBOUR * max(len(second[2]), 2)
        neighbours = np.zeros(1 << (bits // 64).bit_length(), np.uint64)
        firsts, lasts = np.arange(ids, dtype=np.uint32), np.arange(ids, dtype=np.uint32)
        note_neighbours(*second, firsts, lasts, neighbours, HASH_KEY)
        return cls(
            BytePairEncoder(
                encoder.byte_ids,
                *first,
                SplitPattern.named("gpt2"),  # never asked: what is to be encoded is marked
                cache_words=encoder.cache_words,
            ),
            inside,
            lengths,
            neighbours,
            merge_table(second),
        )


class SuperwordEncoder(BytePairEncoder):
    """`BytePairEncoder` for a pattern under which tokens may hold several words."""

    @cached_property
    def _layers(self) -> SuperwordLayers | None:
        # Made for the first text that is not short. Threads that ask at once make the same.
        return SuperwordLayers.of(self) if self.merges_once else None

    lending = Encoder.lending  # by way of `encode_marked`

    def encode_marked(
        self,
        text: Text,
        marks: NDArray[np.uint64],
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        layers = None if self.has_whole_words else self._layers
        if layers is None:
            return super().encode_marked(text, marks, spans, behind)
        pieces = np.zeros(text.size // 64 + 2, np.uint64)
        mark_pieces(text.data, text.size, marks, layers.inside, pieces)
        ids, ends = layers.words.encode_marked(text, pieces, spans, behind)
        state = np.zeros(1, SUPERWORD_PROGRESS)
        state["position"] = -1
        room, values = np.empty(0, np.uint32), np.empty(LONGEST_RUN, np.uint64)
        with self._workspace() as workspace:
            while (
                merge_superwords(
                    text.data,
                    marks,
                    spans,
                    behind,
                    layers.lengths,
                    layers.neighbours,
                    layers.merges,
                    HASH_KEY,
                    workspace.fields,
                    room,
                    values,
                    ids,
                    ends,
                    state,
                )
                != DONE
            ):
                needed = int(state["needed"][0])
                workspace.grow_scratch(needed)
                room = np.empty(2 * needed, np.uint32)
        return ids[: ends[-1] if len(ends) else 0], ends
