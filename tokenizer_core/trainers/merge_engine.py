"""Merging over word counts: owns the arrays that the kernels fill and lets them grow.

Knows nothing of checkpoints, special tokens or vocabularies.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.errors import CorpusError
from tokenizer_core.kernels import merge_layout, merge_pairs, merge_queue, merge_state, merge_step
from tokenizer_core.kernels.merge_state import Limits, MergeState
from tokenizer_core.vocabulary import byte_order
from tokenizer_core.word_counts import WordCounts

NO_LIMIT = 2**31 - 1  # bytes of a token
_POSITIONS = 2**31 - 1  # of all distinct words together: positions are int32
_COUNTS = 2**63 - 1
_BYTES = 256
_FIRST_TOKENS = 4096  # room that grows by doubling: a vocabulary size costs nothing in advance
_FIRST_PAIRS = 4096

Number = TypeVar("Number", bound=np.generic)

_ORDERS = {
    "smallest-ids": merge_queue.SMALLEST_IDS,
    "greatest-bytes": merge_queue.GREATEST_BYTES,
    "first-seen": merge_queue.FIRST_SEEN,
}


def check_bounds(counts: WordCounts) -> None:
    """Refuse word counts on which 64-bit sums or 32-bit positions could overflow.

    No pair can occur more than Σ count · (length − 1) times, so one check holds for all of
    training.

    Raises:
        CorpusError: that sum reaches 2⁶³, a count is negative, or the distinct words hold 2³¹
            bytes.
    """
    if len(counts) == 0:
        return
    if int(counts.counts.min()) < 0:
        raise CorpusError(
            f"a word has the count {int(counts.counts.min())}",
            "counts are whole numbers from 0 to 2⁶³ − 1",
            "count the corpus again",
        )
    gaps = np.diff(counts.offsets) - 1
    estimate = float(np.dot(counts.counts.astype(np.float64), gaps.astype(np.float64)))
    if estimate > 2.0**62:  # the estimate is good to nine digits; near the limit be exact
        pairs = sum(map(int.__mul__, counts.counts.tolist(), gaps.tolist()))
        if pairs > _COUNTS:
            raise CorpusError(
                f"the words hold {pairs} pairs, more than 64-bit counts can add up",
                f"Σ count · (bytes − 1) may be at most {_COUNTS}",
                "divide all counts or the weights of the sources by the same number",
            )
    size = int(counts.offsets[-1]) + len(counts) + 1
    if size > _POSITIONS:
        raise CorpusError(
            f"the distinct words hold {int(counts.offsets[-1])} bytes",
            f"bytes and words together may be at most {_POSITIONS}",
            "leave out words that occur once, or train on a part of the corpus",
        )


class MergeEngine:
    """Merges pairs over the words of a corpus, one after another.

    Tokens are numbered 0..255 for the bytes (in the order of the tie-break) and 256 + k for
    merge k.

    Args:
        counts: the words. Those that occur 0 times do not count as seen.
        tie_break: one of `tokenizer_core.vocabulary.TIE_BREAKS`.
        min_count: pairs whose count is smaller are not learned; at least 1.
        max_token_bytes: pairs that make longer tokens are not learned.
        free_application: whether merges that were learned from *other* counts will be applied:
            then rare and long pairs are kept in sight too, which costs memory.

    Raises:
        CorpusError: see `check_bounds`.
    """

    def __init__(
        self,
        counts: WordCounts,
        *,
        tie_break: str,
        min_count: int,
        max_token_bytes: int | None = None,
        free_application: bool = False,
    ) -> None:
        check_bounds(counts)
        longest = min(max_token_bytes or NO_LIMIT, NO_LIMIT)
        least = min(min_count, _COUNTS)
        self._limits = Limits(_ORDERS[tie_break], least, longest, least, longest)
        if free_application:
            self._limits = self._limits._replace(kept_count=1, kept_bytes=NO_LIMIT)
        self._state = _empty_state()
        self._lay_out(counts, np.array(byte_order(tie_break), np.int64))
        self._collect_byte_pairs()

    @property
    def merges_done(self) -> int:
        return int(self._state.sizes[merge_state.TOKENS]) - _BYTES

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged. Changes with further merging."""
        return self._state.learned[_BYTES : _BYTES + self.merges_done]

    @property
    def memory(self) -> int:
        """Bytes of all arrays as far as they have been used."""
        state, sizes = self._state, self._state.sizes.tolist()
        whole = (state.symbols, state.word_of, state.word_counts, state.slots, state.text)
        return int(
            sum(array.nbytes for array in whole)
            + sizes[merge_state.ARENA] * state.arena.itemsize
            + sizes[merge_state.PAIRS] * 8 * merge_pairs.COLUMNS
            + sizes[merge_state.PAIRS] * 8 * merge_queue.HEAP_COLUMNS
            + state.beside.nbytes
            + state.changes.nbytes
            + state.learned.nbytes
        )

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        while True:
            status = merge_step.learn(self._state, self._limits, _BYTES + goal)
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                return False
            self._grow(status)

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until ``goal`` have been made; goal ≤ n.

        Row k is merge k of this engine, so merges come before all learned ones.
        """
        while True:
            status = merge_step.apply(self._state, self._limits, given, _BYTES + goal)
            if status == merge_step.DONE:
                return
            self._grow(status)

    def token(self, token: int) -> bytes:
        """The bytes of a token."""
        learned, order = self._state.learned, self._order
        pieces: list[int] = []
        waiting = [token]
        while waiting:
            last = waiting.pop()
            if last < _BYTES:
                pieces.append(order[last])
            else:
                waiting.append(int(learned[last, merge_state.RIGHT]))
                waiting.append(int(learned[last, merge_state.LEFT]))
        return bytes(pieces)

    def _lay_out(self, counts: WordCounts, order: NDArray[np.int64]) -> None:
        self._order: list[int] = order.tolist()
        lengths = np.diff(counts.offsets)
        chosen = np.flatnonzero((lengths > 1) & (counts.counts > 0)).astype(np.int64)
        if self._limits.order == merge_queue.FIRST_SEEN:
            sight = np.argsort(counts.first_positions[chosen], kind="stable")
            chosen = np.ascontiguousarray(chosen[sight])
        size = int(lengths[chosen].sum()) + len(chosen) + 1
        compares_bytes = self._limits.order == merge_queue.GREATEST_BYTES
        byte_ids = np.empty(_BYTES, np.int32)
        byte_ids[order] = np.arange(_BYTES, dtype=np.int32)
        state = self._state._replace(
            symbols=np.empty(size, np.int32),
            word_of=np.zeros(size, np.int32),
            word_counts=counts.counts[chosen].astype(np.int64),
            text=np.zeros(size + _BYTES if compares_bytes else 0, np.uint8),
        )
        merge_layout.lay_out_words(
            _writable(counts.word_bytes),
            _writable(counts.offsets),
            chosen,
            byte_ids,
            state.symbols,
            state.word_of,
            state.text,
        )
        state.token_lengths[:_BYTES] = 1
        if compares_bytes:  # the single bytes stand behind the words
            state.text[size:] = order
            state.token_starts[:_BYTES] = np.arange(size, size + _BYTES)
            for token in range(_BYTES):
                state.token_ties[token] = merge_queue.prefix_tie(state.text, size + token, 1)
        self._state = state

    def _collect_byte_pairs(self) -> None:
        """Enter the pairs of bytes and make room for all occurrences there can ever be.

        A merged occurrence leaves one symbol less and makes at most two new occurrences, so
        the arena never holds more than three times as many as there are pairs of bytes.
        """
        state = self._state
        totals = np.zeros(_BYTES * _BYTES, np.int64)
        occurrences = np.zeros(_BYTES * _BYTES, np.int64)
        merge_layout.count_byte_pairs(
            state.symbols, state.word_of, state.word_counts, totals, occurrences
        )
        kept = totals >= self._limits.kept_count
        kept &= occurrences > 0
        if self._limits.kept_bytes < 2:
            kept[:] = False
        wanted = np.flatnonzero(kept)
        found = len(wanted)
        lengths = occurrences[wanted]
        starts = np.cumsum(lengths) - lengths
        places = np.full(_BYTES * _BYTES, -1, np.int64)
        places[wanted] = starts
        capacity = max(2 * found, _FIRST_PAIRS)
        pairs = np.empty((capacity, merge_pairs.COLUMNS), np.int64)
        pairs[:found, merge_pairs.KEY] = (wanted >> 8 << 32) | (wanted & 0xFF)
        pairs[:found, merge_pairs.COUNT] = totals[wanted]
        pairs[:found, merge_pairs.START] = starts
        pairs[:found, merge_pairs.LENGTH] = lengths
        self._state = state._replace(
            arena=np.empty(int(lengths.sum()) + 2 * int(occurrences.sum()), np.int32),
            beside=np.empty((2, int(lengths.max(initial=0))), np.int32),
            pairs=pairs,
            heap=np.empty((capacity, merge_queue.HEAP_COLUMNS), np.int64),
        )
        merge_layout.collect_byte_pairs(self._state.symbols, places, self._state.arena)
        self._state.sizes[merge_state.PAIRS] = found
        self._state.sizes[merge_state.ARENA] = int(lengths.sum())
        self._index_pairs()
        merge_step.queue_pairs(self._state, self._limits, 0)

    def _index_pairs(self) -> None:
        """Give the pair table hash slots, at most half of them full."""
        wanted = 2 * len(self._state.pairs)
        slots = np.full(1 << (wanted - 1).bit_length(), merge_pairs.EMPTY, np.int32)
        merge_pairs.fill_slots(self._state.pairs, int(self._state.sizes[merge_state.PAIRS]), slots)
        self._state = self._state._replace(slots=slots)

    def _grow(self, status: merge_pairs.Integer) -> None:
        state = self._state
        if status == merge_step.NEEDS_TOKENS:
            capacity = 2 * len(state.token_lengths)
            self._state = state._replace(
                token_starts=_grown(state.token_starts, capacity),
                token_lengths=_grown(state.token_lengths, capacity),
                token_ties=_grown(state.token_ties, capacity),
                learned=_grown(state.learned, capacity),
                changes=np.zeros((2, capacity, 4), np.int64),
                touched=np.zeros((2, capacity), np.int32),
            )
        else:
            capacity = 2 * len(state.pairs)
            self._state = state._replace(
                pairs=_grown(state.pairs, capacity), heap=_grown(state.heap, capacity)
            )
            self._index_pairs()


def _empty_state() -> MergeState:
    sizes = np.zeros(merge_state.SIZES, np.int64)
    sizes[merge_state.TOKENS] = _BYTES
    nothing = np.zeros(0, np.int32)
    return MergeState(
        symbols=nothing,
        word_of=nothing,
        word_counts=np.zeros(0, np.int64),
        arena=nothing,
        pairs=np.zeros((0, merge_pairs.COLUMNS), np.int64),
        slots=nothing,
        heap=np.zeros((0, merge_queue.HEAP_COLUMNS), np.int64),
        text=np.zeros(0, np.uint8),
        token_starts=np.zeros(_FIRST_TOKENS, np.int32),
        token_lengths=np.zeros(_FIRST_TOKENS, np.int32),
        token_ties=np.zeros(_FIRST_TOKENS, np.int64),
        learned=np.zeros((_FIRST_TOKENS, 3), np.int64),
        changes=np.zeros((2, _FIRST_TOKENS, 4), np.int64),
        touched=np.zeros((2, _FIRST_TOKENS), np.int32),
        beside=np.zeros((2, 0), np.int32),
        sizes=sizes,
    )


def _grown(array: NDArray[Number], capacity: int) -> NDArray[Number]:
    larger = np.empty((capacity, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _writable(array: NDArray[Number]) -> NDArray[Number]:
    """Kernels are compiled for writable contiguous arrays; others are copied."""
    return np.require(array, array.dtype, ["C", "W"])
