"""Merging over words of symbols: owns the arrays that the kernels fill and lets them grow.

Knows nothing of checkpoints, special tokens or vocabularies, and nothing of what a symbol stands
for. A trainer supplies `SymbolWords`: every word as a row of *symbols* from an alphabet of *base
tokens* numbered from 0, with its count and its place in the order of sight. `byte_words` makes
them of word counts and the 256 bytes; an alphabet of characters is the same with ``content`` int32.
Merge k makes token ``base + k``.

What decides the next pair is the queue alone (`kernels.merging.merge_queue`), which relies on
counts that only fall. Another score, such as n_ab / (n_a · n_b), needs another queue alone:
`kernels.merging.merge_step.merge` replaces a given pair and keeps all counts of pairs exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import CorpusError, InvalidOption
from bpeline.tokenizer_core.kernels.merging import (
    merge_layout,
    merge_queue,
    merge_state,
    merge_step,
)
from bpeline.tokenizer_core.kernels.merging.merge_state import Limits, MergeState
from bpeline.tokenizer_core.kernels.tables import pair_tables
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY, HashKey
from bpeline.tokenizer_core.vocabulary import byte_order

NO_LIMIT = 2**31 - 1  # base tokens of a token
_POSITIONS = 2**31 - 1  # of all distinct words together: positions are int32
_COUNTS = 2**63 - 1
_DENSE_ALPHABET = 256  # base tokens whose pairs are counted in a square table
_FIRST_TOKENS = 4096  # room that grows by doubling: a vocabulary size costs nothing in advance
_FIRST_PAIRS = 1 << 16
_JUDGED_AT_ONCE = 64  # pairs, when one must be: those beside it in the queue come next
_LINE = 64  # bytes of a cache line: two rows of the pair table share one and none straddles two

Number = TypeVar("Number", bound=np.generic)

_ORDERS = {
    "smallest-ids": merge_queue.SMALLEST_IDS,
    "greatest-bytes": merge_queue.GREATEST_BYTES,
    "first-seen": merge_queue.FIRST_SEEN,
    "given-ties": merge_queue.GIVEN_TIES,
}


@dataclass(frozen=True, slots=True, eq=False)
class SymbolWords:
    """Words to merge in, as rows of symbols.

    Attributes:
        content: uint8 or int32, all words one after the other.
        offsets: int64 ``[n + 1]``; word ``i`` is ``content[offsets[i]:offsets[i + 1]]``.
        counts: int64 ``[n]``. Words that occur 0 times do not count as seen.
        first_positions: int64 ``[n]``; a smaller one occurred earlier (for ``first-seen`` alone).
        ids: int32: the base token of each value in ``content``; a permutation of 0 … base − 1.
            ``smallest-ids`` compares base tokens by these numbers, and so does ``greatest-bytes``:
            for that one, number them in the order of their bytes.
        base_tokens: the bytes of base token 0, 1, …
    """

    content: NDArray[Any]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_positions: NDArray[np.int64]
    ids: NDArray[np.int32]
    base_tokens: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.counts)


def byte_words(counts: WordCounts, tie_break: str) -> SymbolWords:
    """Word counts as words over the 256 bytes, numbered in the order of the tie-break."""
    order = byte_order(tie_break)
    ids = np.empty(256, np.int32)
    ids[list(order)] = np.arange(256, dtype=np.int32)
    return SymbolWords(
        counts.word_bytes,
        counts.offsets,
        counts.counts,
        counts.first_positions,
        ids,
        tuple(bytes([byte]) for byte in order),
    )


def check_bounds(words: SymbolWords) -> None:
    """Refuse words on which 64-bit sums or 32-bit positions could overflow.

    No pair can occur more than Σ count · (length − 1) times, so one check holds for all of
    training.

    Raises:
        CorpusError: that sum reaches 2⁶³, a count is negative, or the distinct words hold 2³¹
            symbols.
    """
    if len(words) == 0:
        return
    if int(words.counts.min()) < 0:
        raise CorpusError(
            f"a word has the count {int(words.counts.min())}",
            "counts are whole numbers from 0 to 2⁶³ − 1",
            "count the corpus again",
        )
    gaps = np.diff(words.offsets) - 1
    estimate = float(np.dot(words.counts.astype(np.float64), gaps.astype(np.float64)))
    if estimate > 2.0**62:  # the estimate is good to nine digits; near the limit be exact
        pairs = sum(map(int.__mul__, words.counts.tolist(), gaps.tolist()))
        if pairs > _COUNTS:
            raise CorpusError(
                f"the words hold {pairs} pairs, more than 64-bit counts can add up",
                f"Σ count · (length − 1) may be at most {_COUNTS}",
                "divide all counts or the weights of the sources by the same number",
            )
    size = int(words.offsets[-1]) + len(words) + 1
    if size > _POSITIONS:
        raise CorpusError(
            f"the distinct words hold {int(words.offsets[-1])} symbols",
            f"symbols and words together may be at most {_POSITIONS}",
            "leave out words that occur once, or train on a part of the corpus",
        )


class MergeEngine:
    """Merges pairs over words, one after another.

    Args:
        words: what to merge in.
        tie_break: one of `tokenizer_core.vocabulary.numbering.TIE_BREAKS`; or ``given-ties``: the
            smaller ``ties`` of the left token, then of the right one, and ``aaa`` holds (a, a)
            once.
        min_count: pairs whose count is smaller are not learned; at least 1.
        max_length: pairs that make tokens of more base tokens are not learned.
        free_application: whether merges that were learned from *other* counts will be applied:
            then rare and long pairs are kept in sight too, which costs memory.
        allows: whether a token of these bytes may be made; None allows all. A pair whose token is
            not allowed is never learned, and counting goes on as if it were too rare. Asked once
            about each pair that comes near the front of the queue.
        ties: int64 ``[base]``, with ``given-ties``; those of learned tokens are told by `tie_next`.

    Attributes:
        base: how many base tokens there are.

    Raises:
        CorpusError: see `check_bounds`.
    """

    def __init__(
        self,
        words: SymbolWords,
        *,
        tie_break: str,
        min_count: int,
        max_length: int | None = None,
        free_application: bool = False,
        allows: Callable[[bytes], bool] | None = None,
        ties: NDArray[np.int64] | None = None,
    ) -> None:
        check_bounds(words)
        self._base_tokens = words.base_tokens
        self.base = len(words.base_tokens)
        longest = min(max_length or NO_LIMIT, NO_LIMIT)
        least = min(min_count, _COUNTS)
        self._limits = Limits(_ORDERS[tie_break], least, longest, least, longest, self.base)
        if free_application:
            self._limits = self._limits._replace(kept_count=1, kept_length=NO_LIMIT)
        self._state = self._laid_out(words)
        if ties is not None:
            self._state.token_ties[: self.base] = ties
        self._enter_base_pairs()
        self._allows = allows
        self._verdicts = np.zeros(0 if allows is None else len(self._state.pairs), np.uint8)
        self._texts = list(words.base_tokens)
        self._removed = np.zeros(2, np.int64)

    @property
    def merges_done(self) -> int:
        return int(self._state.sizes[merge_state.TOKENS]) - self.base

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged. Changes with further merging."""
        return self._state.learned[self.base : self.base + self.merges_done]

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        while True:
            status = self._learned_on(self.base + goal)
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                return False
            if status == merge_step.NEEDS_VERDICTS:
                self._judge()
            else:
                self._grow(status)

    def _learned_on(self, tokens: int) -> merge_state.Integer:
        """Learn until there are ``tokens``, or until the kernel needs something."""
        status: merge_state.Integer
        if self._allows is None:
            status = merge_step.learn(self._state, self._limits, tokens)
        else:
            status = merge_step.learn_allowed(self._state, self._limits, self._verdicts, tokens)
        return status

    def _judge(self) -> None:
        """Say of the pairs near the front of the queue whether their tokens are allowed."""
        assert self._allows is not None
        state, verdicts, texts = self._state, self._verdicts, self._texts
        new = state.learned[len(texts) : int(state.sizes[merge_state.TOKENS])]
        for left, right, _ in new.tolist():
            texts.append(texts[left] + texts[right])
        rows = min(int(state.sizes[merge_state.QUEUED]), _JUDGED_AT_ONCE)
        pairs = state.heap[:rows, merge_queue.HEAP_PAIR]
        pairs = pairs[verdicts[pairs] == merge_step.UNJUDGED]
        keys = state.pairs[pairs, pair_tables.KEY].tolist()
        for pair, key in zip(pairs.tolist(), keys, strict=True):
            allowed = self._allows(texts[key >> 32] + texts[key & 0xFFFFFFFF])
            verdicts[pair] = merge_step.ALLOWED if allowed else merge_step.REFUSED

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until ``goal`` have been made; goal ≤ n.

        Row k is merge k of this engine, so merges come before all learned ones.
        """
        rows = _writable(given)
        while True:
            status = merge_step.apply(self._state, self._limits, rows, self.base + goal)
            if status == merge_step.DONE:
                return
            self._grow(status)

    def best(self) -> tuple[int, int, int] | None:
        """What `learn` would merge next: left id, right id, count; None where nothing."""
        row = merge_step.best_pair(self._state, self._limits)
        if row == pair_tables.EMPTY:
            return None
        key = int(self._state.pairs[row, pair_tables.KEY])
        return key >> 32, key & 0xFFFFFFFF, int(self._state.heap[0, merge_queue.HEAP_COUNT])

    def tie_next(self, tie: int) -> None:
        """Say the tie of the token that is made next, with ``given-ties``."""
        token = int(self._state.sizes[merge_state.TOKENS])
        if token >= len(self._state.token_ties):
            self._grow(merge_step.NEEDS_TOKENS)
        self._state.token_ties[token] = tie

    def merge(self, given: NDArray[np.int64], goal: int) -> tuple[int, int]:
        """Merge the pair in row ``goal - 1`` of ``given`` [n, 3], which was chosen elsewhere.

        Rows before it that were not merged here must be pairs that occur nowhere in these words.
        For engines with ``free_application``, which keep rare and long pairs in sight.

        Returns:
            How many tokens fewer the words have then, and the pair's count.
        """
        removed = self._removed
        while True:
            status = merge_step.merge_given(self._state, self._limits, given, goal, removed)
            if status == merge_step.DONE:
                return int(removed[0]), int(removed[1])
            self._grow(status)

    def token(self, token: int) -> bytes:
        """The bytes of a token."""
        learned = self._state.learned
        pieces: list[bytes] = []
        waiting = [token]
        while waiting:
            last = waiting.pop()
            if last < self.base:
                pieces.append(self._base_tokens[last])
            else:
                waiting.append(int(learned[last, merge_state.RIGHT]))
                waiting.append(int(learned[last, merge_state.LEFT]))
        return b"".join(pieces)

    def _laid_out(self, words: SymbolWords) -> MergeState:
        """The state of words without any pairs."""
        lengths = np.diff(words.offsets)
        chosen = np.flatnonzero((lengths > 1) & (words.counts > 0)).astype(np.int64)
        if self._limits.order == merge_queue.FIRST_SEEN:
            sight = np.argsort(words.first_positions[chosen], kind="stable")
            chosen = np.ascontiguousarray(chosen[sight])
        size = int(lengths[chosen].sum()) + len(chosen) + 1
        compares_text = self._limits.order == merge_queue.GREATEST_BYTES
        width = max(1, ((self.base - 1).bit_length() + 7) // 8)
        counts = words.counts[chosen]
        word_weights = np.minimum(counts, merge_state.MANY).astype(np.int32)
        large = np.flatnonzero(counts >= merge_state.MANY)
        ends = np.cumsum(lengths[chosen] + 1)
        sizes = np.zeros(merge_state.SIZES, np.int64)
        sizes[merge_state.TOKENS] = self.base
        sizes[merge_state.CLASS] = merge_queue.CLASSES
        tokens = max(_FIRST_TOKENS, self.base)
        nothing = np.zeros(0, np.int32)
        state = MergeState(
            cells=np.empty(size, np.int32),
            large_starts=ends[large] - lengths[chosen[large]],
            large_counts=counts[large],
            arena=nothing,
            pairs=np.zeros((0, pair_tables.COLUMNS), np.int64),
            slots=nothing,
            hash_key=HashKey(*HASH_KEY),
            heap=np.zeros((0, merge_queue.HEAP_COLUMNS), np.int64),
            waiting=np.full(merge_queue.CLASSES + 1, pair_tables.EMPTY, np.int32),
            following=nothing,
            text=np.empty((size + self.base) * width if compares_text else 0, np.uint8),
            width=width,
            token_starts=np.zeros(tokens, np.int32),
            token_lengths=np.zeros(tokens, np.int32),
            token_ties=np.zeros(tokens, np.int64),
            learned=np.zeros((tokens, 3), np.int64),
            changes=_no_changes(tokens),
            touched=np.empty((2, tokens + 1), np.int32),
            noted=np.empty((4, 0), np.int32),
            sizes=sizes,
        )
        merge_layout.lay_out_words(
            _writable(words.content).view(np.uint8),
            words.content.itemsize > 1,
            _writable(words.offsets),
            chosen,
            _writable(words.ids),
            word_weights,
            state.cells,
            state.text,
            width,
        )
        state.token_lengths[: self.base] = 1
        if compares_text:  # the base tokens stand behind the words
            numbers = np.arange(self.base, dtype=">u4").view(np.uint8).reshape(-1, 4)
            state.text[size * width :] = numbers[:, 4 - width :].ravel()
            state.token_starts[: self.base] = np.arange(size, size + self.base)
            for token in range(self.base):
                start = (size + token) * width
                state.token_ties[token] = merge_queue.prefix_tie(state.text, start, width)
        return state

    def _enter_base_pairs(self) -> None:
        """Enter the pairs of base tokens; make room for all occurrences there can ever be.

        A merged occurrence leaves one symbol less and makes at most two new occurrences, so
        the arena never holds more than three times as many as there are pairs of base tokens.
        """
        state = self._state
        is_dense = self.base <= _DENSE_ALPHABET
        rows = self._dense_pairs() if is_dense else self._sparse_pairs()
        occurrences = int(rows[:, pair_tables.LENGTH].sum())
        if self._limits.kept_length < 2:
            rows = rows[:0]
        rows = rows[rows[:, pair_tables.COUNT] >= self._limits.kept_count]
        lengths = rows[:, pair_tables.LENGTH]
        rows[:, pair_tables.START] = np.cumsum(lengths) - lengths
        capacity = max(2 * len(rows), _FIRST_PAIRS)
        pairs = grown(rows, len(rows), capacity)
        self._state = state = state._replace(
            arena=np.empty(int(lengths.sum()) + 2 * occurrences, np.int32),
            noted=np.empty((4, int(lengths.max(initial=0))), np.int32),
            pairs=pairs,
            slots=_slots_for(pairs, len(rows), state.hash_key),
            heap=np.empty((capacity, merge_queue.HEAP_COLUMNS), np.int64),
            following=np.empty(capacity, np.int32),
        )
        state.sizes[merge_state.PAIRS] = len(rows)
        state.sizes[merge_state.ARENA] = int(lengths.sum())
        if is_dense:
            keys = rows[:, pair_tables.KEY]
            places = np.full((self.base, self.base), -1, np.int64)
            places[keys >> 32, keys & 0xFFFFFFFF] = rows[:, pair_tables.START]
            merge_layout.collect_dense_pairs(state.cells, places, state.arena)
        else:
            places = rows[:, pair_tables.START].copy()
            merge_layout.collect_sparse_pairs(
                state.cells, state.pairs, state.slots, state.hash_key, places, state.arena
            )
        merge_queue.queue_new_pairs(state, self._limits, 0, len(rows))

    def _dense_pairs(self) -> NDArray[np.int64]:
        """Rows for all pairs of base tokens, without `START`, by means of a square table."""
        state, square = self._state, (self.base, self.base)
        counts, occurrences = np.zeros(square, np.int64), np.zeros(square, np.int64)
        merge_layout.count_dense_pairs(
            state.cells, state.large_starts, state.large_counts, counts, occurrences
        )
        left, right = np.nonzero(occurrences)
        rows = np.empty((len(left), pair_tables.COLUMNS), np.int64)
        rows[:, pair_tables.KEY] = (left << 32) | right
        rows[:, pair_tables.COUNT] = counts[left, right]
        rows[:, pair_tables.LENGTH] = occurrences[left, right]
        return rows

    def _sparse_pairs(self) -> NDArray[np.int64]:
        """The same by means of a table that grows, for large alphabets."""
        state = self._state
        position: merge_state.Integer = 1
        size: merge_state.Integer = 0
        rows = np.empty((_FIRST_PAIRS, pair_tables.COLUMNS), np.int64)
        while True:
            slots = _slots_for(rows, size, state.hash_key)
            position, size = merge_layout.count_sparse_pairs(
                state.cells,
                state.large_starts,
                state.large_counts,
                position,
                size,
                rows,
                slots,
                state.hash_key,
            )
            if position == len(state.cells):
                return rows[:size]
            rows = grown(rows, size, 2 * len(rows))

    def _grow(self, status: merge_state.Integer) -> None:
        state = self._state
        if status == merge_step.NEEDS_TOKENS:
            tokens = len(state.token_lengths)
            more = min(2 * tokens, merge_state.MOST_TOKENS)
            if more == tokens:
                raise InvalidOption(
                    f"more than {tokens:,} base tokens and merges were asked for",
                    f"at most {tokens:,}",
                    "ask for fewer: --vocab-size, --merges",
                )
            self._state = state._replace(
                token_starts=grown(state.token_starts, tokens, more),
                token_lengths=grown(state.token_lengths, tokens, more),
                token_ties=grown(state.token_ties, tokens, more),
                learned=grown(state.learned, tokens, more),
                changes=_no_changes(more),
                touched=np.empty((2, more + 1), np.int32),
            )
        else:
            sizes, capacity = state.sizes.tolist(), 2 * len(state.pairs)
            size, queued = sizes[merge_state.PAIRS], sizes[merge_state.QUEUED]
            pairs = grown(state.pairs, size, capacity)
            self._state = state._replace(
                pairs=pairs,
                slots=_slots_for(pairs, size, state.hash_key),
                heap=grown(state.heap, queued, capacity),
                following=grown(state.following, size, capacity),
            )
            if self._allows is not None:
                verdicts = np.zeros(capacity, np.uint8)
                verdicts[:size] = self._verdicts[:size]
                self._verdicts = verdicts


def _no_changes(tokens: int) -> NDArray[np.int64]:
    changes = np.zeros((2, tokens + 1, 2), np.int64)
    changes[:, 0, merge_state.OCCURRENCES] = 1  # separators are never met for the first time
    return changes


def _slots_for(
    pairs: NDArray[np.int64], size: merge_state.Integer, hash_key: HashKey
) -> NDArray[np.int32]:
    """Hash slots for a table of pairs with ``size`` rows, at most half full when it is."""
    slots = np.full(1 << (2 * len(pairs) - 1).bit_length(), pair_tables.EMPTY, np.int32)
    pair_tables.fill_slots(pairs, size, slots, hash_key)
    return slots


def grown(array: NDArray[Number], size: merge_state.Integer, capacity: int) -> NDArray[Number]:
    """Room for ``capacity`` rows at the beginning of a cache line, the first ``size`` copied."""
    shape = (capacity, *array.shape[1:])
    wanted = math.prod(shape) * array.itemsize
    memory = np.empty(wanted + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    larger = memory[begin : begin + wanted].view(array.dtype).reshape(shape)
    larger[:size] = array[:size]
    return larger


def _writable(array: NDArray[Number]) -> NDArray[Number]:
    """Kernels are compiled for writable contiguous arrays; others are copied."""
    return np.require(array, array.dtype, ["C", "W"])
