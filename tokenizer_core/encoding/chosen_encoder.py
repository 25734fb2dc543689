"""Byte-level BPE encoders for special cases: superwords, missing bytes, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.explanation import tokens_not_made_by_merges
from bpeline.tokenizer_core.encoding.merge_encoding import (
    DEFAULT_CACHE_WORDS,
    BytePairEncoder,
    merge_table,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    MOST_DROPPED,
    WAITING_SCRATCH,
    merge_with_dropout,
)
from bpeline.tokenizer_core.kernels.encoding.superword_merges import (
    DONE,
    SEAM_WORDS,
    SUPERWORD_PROGRESS,
    find_layers,
    mark_pieces,
    merge_superwords,
    note_neighbours,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY, STEP, scramble
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec

_LEAST_OF_WORDS = 4  # at least one in this many merges is within words
_SCRATCH = 1 << 10  # uint64, for some hundred tokens merged at once
_BITS_PER_NEIGHBOUR = 32  # at most one in this many bits is set


@dataclass(frozen=True, slots=True, eq=False)
class SuperwordLayers:
    """Merges in two layers; see `kernels.encoding.superword_merges`.

    Attributes:
        words: encodes with the first layer.
        inside: uint64: pairs of bytes that are not seams.
        lengths: uint32: bytes of each word token, by id.
        neighbours: uint64: which word tokens may be joined.
        merges: table of the second layer.
    """

    words: BytePairEncoder
    inside: NDArray[np.uint64]
    lengths: NDArray[np.uint32]
    neighbours: NDArray[np.uint64]
    merges: NDArray[np.uint64]

    @classmethod
    def of(cls, encoder: BytePairEncoder) -> SuperwordLayers | None:
        """Split an encoder's merges into two layers; None if they are not in two."""
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
                SplitPattern.named("gpt2"),  # unused: the text is already marked
                cache_words=encoder.cache_words,
            ),
            inside,
            lengths,
            neighbours,
            merge_table(second),
        )


class SuperwordEncoder(BytePairEncoder):
    """`BytePairEncoder` for patterns under which tokens may contain several words."""

    @cached_property
    def _layers(self) -> SuperwordLayers | None:
        # Built for the first text that is not short. Concurrent threads build equal values.
        return SuperwordLayers.of(self) if self.merges_once else None

    lending = Encoder.lending  # uses `encode_marked`

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
        scratch = np.empty(_SCRATCH, np.uint64)
        merging = text.data, marks, spans, behind, layers.lengths, layers.neighbours, layers.merges
        while merge_superwords(*merging, HASH_KEY, scratch, ids, ends, state) != DONE:
            scratch = np.empty(2 * int(state["needed"][0]), np.uint64)
        return ids[: ends[-1] if len(ends) else 0], ends


class AbsentBytesEncoder(Encoder):
    """An encoder that drops ``absent`` bytes, bool ``[256]``, before merging."""

    def __init__(self, merging: BytePairEncoder, absent: NDArray[np.bool_]) -> None:
        self.merging = merging
        self._absent = absent
        self._splitter = Splitter(merging.pattern)

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        is_kept = ~self._absent[text.data[: text.size]]
        if is_kept.all():
            return self.merging.encode(text, spans, behind)
        starts = np.unpackbits(
            self._splitter.mark_every_byte(text, spans).view(np.uint8), bitorder="little"
        )[: text.size]
        # If the first byte of a word is dropped, the word begins with its next byte.
        before = np.zeros(text.size + 1, np.int64)
        np.cumsum(is_kept, out=before[1:])
        places = before[np.flatnonzero(starts)]
        size = int(before[-1])
        marks = np.zeros(size // 64 + 2, np.uint64)
        bits = np.zeros(len(marks) * 64, np.uint8)
        bits[places[places < size]] = 1
        marks[:] = np.packbits(bits, bitorder="little").view(np.uint64)
        rest = Text.of(text.data[: text.size][is_kept].tobytes())
        return self.merging.encode_marked(rest, marks, before[spans], behind)

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        table = bytes(np.flatnonzero(self._absent).tolist())
        return self.merging.encode_words([word.translate(None, table) for word in words])


_MOST_SEED = 1 << 64


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Documents and offsets of spans, int64 ``[n]``: seeds of random numbers."""

    documents: NDArray[np.int64]
    offsets: NDArray[np.int64]


class DropoutEncoder:
    """Encodes with BPE-dropout; see `derived.DropoutEncoding`. Thread-safe."""

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
        """Encode as `Encoder.encode`; equal places and samples give equal ids."""
        marks = self._splitter.mark_every_byte(text, spans)
        begins = np.flatnonzero(np.unpackbits(marks.view(np.uint8), bitorder="little"))
        # Empty spans have no marks, so the last span that begins here is not empty.
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
            np.empty(WAITING_SCRATCH * longest // 8 + 1, np.uint64),
            ids,
            ends,
        )
        of_spans = np.append(0, ends)[np.searchsorted(span, np.arange(len(spans)), "right")]
        ids = ids[: of_spans[-1] if len(spans) else 0]
        marked = behind >= 0
        ids = np.insert(ids, of_spans[marked], behind[marked].astype(np.uint32))
        return ids, of_spans + np.cumsum(marked)


def require_dropout(dropout: float) -> None:
    if not 0 <= checks.number("dropout", dropout) <= 1:
        raise InvalidOption(
            f"dropout is {dropout}",
            "expected a number from 0, which drops no merge, to 1, which drops all",
            "choose 0.1",
        )


def require_natural(name: str, number: int) -> None:
    """Raise InvalidOption for a seed or sample that is not an unsigned 64-bit number."""
    if not 0 <= checks.whole_number(name, number) < _MOST_SEED:
        raise InvalidOption(
            f"the {name} is {number}",
            "expected a whole number from 0 to 2⁶⁴ − 1",
            f"choose {name}=0",
        )


def _below(streams: NDArray[np.uint64], numbers: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    parts: NDArray[np.uint64] = scramble((streams ^ np.uint64(numbers)) + STEP)
    return parts


def _refuse(why: str) -> None:
    raise InvalidOption(
        f"this tokenizer {why}",
        "expected byte-level BPE without a normalizer and with ids for all bytes",
        "encode without dropout",
    )


def byte_pair_encoder(
    spec: TokenizerSpec, cache_words: int = DEFAULT_CACHE_WORDS
) -> BytePairEncoder:
    """Build the encoder of a byte-level BPE spec."""
    byte_ids = spec.byte_ids.copy()
    absent = byte_ids < 0
    if absent.any():
        first = spec.largest_id + 1
        byte_ids[absent] = first + np.arange(absent.sum())  # unused: see AbsentBytesEncoder
    # Named patterns split at spaces, so no token contains several words.
    kind = BytePairEncoder if spec.pattern.cuts_at_spaces else SuperwordEncoder
    encoder = kind(byte_ids, *spec.merge_ids, spec.pattern, cache_words=cache_words)
    if spec.ignore_merges:
        encoder.add_whole_words(tokens_not_made_by_merges(encoder, spec.ids))
    return encoder
