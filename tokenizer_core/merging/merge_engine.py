"""Merge engine over words of symbols; owns the arrays that the kernels fill.

A trainer passes `SymbolWords`: every word as a row of *symbols* from an alphabet of *base tokens*
numbered from 0. `byte_words` builds them from word counts and the 256 bytes; for characters
``content`` is int32. Merge k makes token ``base + k``.

The queue alone decides the next pair (`kernels.merging.merge_queue`); it relies on counts that only
fall. Most pairs are rarer than any pair that is merged. They get no rows and no occurrences: pairs
are loaded down to a count, and to lower ones when needed (`MergeEngine._lower_threshold`). A score
other than the count, such as n_ab / (n_a · n_b), needs another queue only:
`kernels.merging.merge_step.merge` replaces a given pair and keeps all pair counts exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from bpeline.tokenizer_core.kernels.merging.merge_state import Limits, MergeState, Weights
from bpeline.tokenizer_core.kernels.tables import pair_tables
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY, HashKey
from bpeline.tokenizer_core.vocabulary import byte_order

NO_LIMIT = 2**31 - 1  # base tokens of a token
_POSITIONS = 2**31 - 1  # symbols of all distinct words: positions are int32
MOST_COUNTED = 2**63 - 1
_DENSE = 1024  # most tokens whose pairs are counted in a square table: 16 MiB
_USUAL_MERGES = 32_000
_FIRST_TOKENS = 4096  # initial room, which doubles: a large vocabulary size costs nothing upfront
_FIRST_PAIRS = 1 << 16
_BYTES_PER_SYMBOL = 3.25  # for cells and for the occurrences collected at once
_AT_A_TIME = 1 << 16  # words per batch where arrays for all words would be large
_FEW_OCCURRENCES = 1 << 21  # always collected at once: a second pass would cost more
_STEEPNESS = 1.5  # in most texts merge counts fall with at most this power of the merge number
_MOST_SUMS = 1 << 20  # hash sums that separate rare pairs from frequent ones: 8 MiB
_JUDGED_AT_ONCE = 64  # pairs to check when one must be: its neighbours in the queue come next
_UNWANTED = 128  # places at the end of the arena for positions that are discarded
_LOW = 0xFFFFFFFF
_LINE = 64  # bytes of a cache line: two rows of the pair table fit, and none crosses lines

Number = TypeVar("Number", bound=np.generic)

_ORDERS = {
    "smallest-ids": merge_queue.SMALLEST_IDS,
    "greatest-bytes": merge_queue.GREATEST_BYTES,
    "first-seen": merge_queue.FIRST_SEEN,
}


@dataclass(frozen=True, slots=True, eq=False)
class SymbolWords:
    """Words to merge in, as rows of symbols.

    Attributes:
        content: uint8 or int32, all words one after the other.
        offsets: int64 ``[n + 1]``; word ``i`` is ``content[offsets[i]:offsets[i + 1]]``.
        counts: int64 ``[n]``. Words with count 0 do not count as seen.
        first_positions: int64 ``[n]``, order of first occurrence (for ``first-seen`` only).
        ids: int32, the base token of each value in ``content``; a permutation of 0 … base − 1.
            ``smallest-ids`` and ``greatest-bytes`` compare base tokens by these numbers: for
            ``greatest-bytes`` number them in the order of their bytes.
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
    """Convert word counts to words over the 256 bytes, in the order of the tie-break."""
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


def check_bounds(*several: SymbolWords) -> None:
    """Raise `CorpusError` if sums or positions of all words together could overflow.

    A pair occurs at most Σ count · (length − 1) times, so one check covers all of training.
    """
    for words in several:
        least = int(words.counts.min(initial=0))
        if least < 0:
            raise CorpusError(
                f"a word has the count {least}",
                "expected counts from 0 to 2⁶³ − 1",
                "count the corpus again",
            )
    symbols = sum(int(words.offsets[-1]) for words in several)
    if symbols + sum(map(len, several)) + 1 > _POSITIONS:
        raise CorpusError(
            f"the distinct words hold {symbols} symbols",
            f"expected at most {_POSITIONS} symbols and words together",
            "leave out words that occur once, or train on a part of the corpus",
        )
    pairs = sum(map(_pairs_of, several))
    if pairs > MOST_COUNTED:
        raise CorpusError(
            f"the words hold {pairs} pairs, more than 64-bit counts can sum",
            f"expected Σ count · (length − 1) of at most {MOST_COUNTED}",
            "divide all counts or the weights of the sources by the same number",
        )


def _pairs_of(words: SymbolWords) -> int:
    """The number of pairs in all words, weighted by word counts."""
    total = 0
    for begin in range(0, len(words), _AT_A_TIME):
        end = min(begin + _AT_A_TIME, len(words))
        total += exact_dot(words.counts[begin:end], np.diff(words.offsets[begin : end + 1]) - 1)
    return total


def exact_dot(counts: NDArray[np.int64], lengths: NDArray[np.int64]) -> int:
    """Σ count · length without overflow, for lengths whose sum is below 2³¹."""
    high, low = np.dot(counts >> 32, lengths), np.dot(counts & 0xFFFFFFFF, lengths)
    return (int(high) << 32) + int(low)


class MergeEngine:
    """Merges pairs over words, one after another.

    Args:
        tie_break: one of `tokenizer_core.vocabulary.numbering.TIE_BREAKS`.
        min_count: pairs below this count are not learned; at least 1.
        max_length: pairs that make tokens of more base tokens are not learned.
        free_application: whether merges learned from *other* counts will be applied: rare and long
            pairs are then loaded too, which costs memory.
        allows: whether merges may make a token of these bytes; None allows all. Counting treats
            other pairs as too rare. Called once for each pair near the front of the queue.
        expected: approximate number of merges; only decides how many pairs to load at once.
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
        expected: int = _USUAL_MERGES,
    ) -> None:
        check_bounds(words)
        self._base_tokens = words.base_tokens
        self.base = len(words.base_tokens)
        self._free = free_application
        self._limits = limits_for(
            tie_break, min_count, max_length, self.base, free_application=free_application
        )
        self._state, _ = initial_state([words], self._limits.order)
        self._expected = expected
        self._bytes = int(_BYTES_PER_SYMBOL * len(self._state.cells))
        self._here = self._limits
        self._is_begun = False
        self._allows = allows
        self._verdicts = np.zeros(0, np.uint8)
        self._texts = list(words.base_tokens)

    @property
    def merges_done(self) -> int:
        return int(self._state.sizes[merge_state.TOKENS]) - self.base

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged; a live view."""
        return self._state.learned[self.base : self.base + self.merges_done]

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; return False if no pair is left before."""
        self._begin()
        while True:
            status = self._learned_on(self.base + goal)
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                if not self._lower_threshold():
                    return False
            elif status == merge_step.NEEDS_VERDICTS:
                self._judge()
            else:
                self._grow(status)

    def _learned_on(self, tokens: int) -> merge_state.Integer:
        """Learn until there are ``tokens``, or the kernel needs room or verdicts."""
        status: merge_state.Integer
        if self._allows is None:
            status = merge_step.learn(self._state, self._here, tokens)
        else:
            status = merge_step.learn_allowed(self._state, self._here, self._verdicts, tokens)
        return status

    def _judge(self) -> None:
        """Check which tokens of the pairs near the front of the queue are allowed."""
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
        """Apply merges [n, 2] until there are ``goal``; they precede all learned ones."""
        rows = _writable(given)
        self.see_all()
        while True:
            status = merge_step.apply(self._state, self._limits, rows, self.base + goal)
            if status == merge_step.DONE:
                return
            self._grow(status)

    def token(self, token: int) -> bytes:
        return spelled(token, self._base_tokens, self.learned)

    def see_all(self) -> None:
        """Load all pairs that may ever be learned or applied."""
        if self._is_begun and self._here == self._limits:
            return
        if self._is_begun:
            self._close_up()
        self._see(self._frequent_pairs(self._limits.kept_count), 0)

    def _begin(self) -> None:
        """Load the most frequent pairs, unless some are loaded."""
        if self._is_begun:
            return
        if self._free or self._limits.order == merge_queue.GREATEST_BYTES:
            self.see_all()  # the text that decides ties is addressed by cell, so cells must stay
            return
        rows = self._frequent_pairs(self._limits.kept_count)
        most = int(rows[:, pair_tables.COUNT].max(initial=0))
        self._see(rows, self._least_to_see(rows, most))

    def _lower_threshold(self) -> bool:
        """Load rarer pairs when the loaded ones are used up; False if there are none."""
        if self._here == self._limits:
            return False
        before = self._here.kept_count
        share = max(self.merges_done, 1) / max(self._expected, self.merges_done, 1)
        least = min(int(before * share**_STEEPNESS), before // 2)
        least = max(least, self._limits.kept_count)
        self._close_up()
        rows = self._frequent_pairs(least)
        fitting = self._least_to_see(rows, before)
        room = (_DENSE - self.base) * 3 // 4
        if fitting > least and 2 * self.merges_done <= room:
            # Another pass will follow, which is cheap while there are few tokens. Early merges
            # occur about in inverse proportion to their number.
            fitting = max(fitting, min(before * self.merges_done // room, before // 2))
        self._see(rows, max(least, fitting))
        return True

    def _frequent_pairs(self, least: int) -> NDArray[np.int64]:
        return _frequent_pairs(self._state, least)

    def _close_up(self) -> None:
        self._state = closed_up(without_pairs(self._state, 0))

    def _least_to_see(self, rows: NDArray[np.int64], before: int) -> int:
        """The least count so that all occurrences fit in memory; at most ``before`` / 2."""
        room = (self._bytes - self._state.cells.nbytes) // 4
        counts, lengths = rows[:, pair_tables.COUNT], rows[:, pair_tables.LENGTH]
        most = max(room, _FEW_OCCURRENCES)
        if int(lengths.sum()) <= most:
            return 0
        order = np.argsort(counts)[::-1]
        number = int(np.searchsorted(np.cumsum(lengths[order]), most, side="right"))
        return min(int(counts[order[number]]) + 1, before // 2)

    def _see(self, rows: NDArray[np.int64], least: int) -> None:
        """Load those pairs of ``rows`` that occur ``least`` times, and queue them."""
        self._here = self._limits
        if least > self._limits.kept_count:
            self._here = self._limits._replace(min_count=least, kept_count=least)
        state = without_pairs(self._state, 0)
        self._state = with_pairs(state, self._here, rows)
        pairs = int(self._state.sizes[merge_state.PAIRS])
        merge_queue.queue_new_pairs(self._state, self._here, 0, pairs)
        self._is_begun = True
        if self._allows is not None:
            self._verdicts = np.zeros(len(self._state.pairs), np.uint8)

    def _grow(self, status: merge_state.Integer) -> None:
        if status == merge_step.NEEDS_TOKENS:
            self._state = with_more_tokens(self._state)
            return
        self._state = with_more_pairs(self._state)
        if self._allows is not None:
            earlier = self._verdicts
            self._verdicts = np.zeros(len(self._state.pairs), np.uint8)
            self._verdicts[: len(earlier)] = earlier


def spelled(token: int, base_tokens: tuple[bytes, ...], learned: NDArray[np.int64]) -> bytes:
    """The bytes of a token; ``learned`` [n, ≥ 2]: left id, right id."""
    pieces: list[bytes] = []
    waiting = [token]
    while waiting:
        last = waiting.pop()
        if last < len(base_tokens):
            pieces.append(base_tokens[last])
        else:
            row = last - len(base_tokens)
            waiting.append(int(learned[row, merge_state.RIGHT]))
            waiting.append(int(learned[row, merge_state.LEFT]))
    return b"".join(pieces)


def limits_for(
    tie_break: str, min_count: int, max_length: int | None, base: int, *, free_application: bool
) -> Limits:
    longest = min(max_length or NO_LIMIT, NO_LIMIT)
    least = min(min_count, MOST_COUNTED)
    kept = (1, NO_LIMIT) if free_application else (least, longest)
    return Limits(_ORDERS[tie_break], least, longest, *kept, base)


def initial_state(
    several: Sequence[SymbolWords], order: int
) -> tuple[MergeState, NDArray[np.int64]]:
    """Lay out words in cells, one collection after the other, without pairs.

    The second result is int64 ``[len(several) + 1]``: the words of collection i are between the
    separators in the cells ``starts[i]`` and ``starts[i + 1]``.
    """
    base_tokens = several[0].base_tokens
    base = len(base_tokens)
    chosen = [_words_of_pairs(words, order) for words in several]
    widths = [_widths_of(words, rows) for words, rows in zip(several, chosen, strict=True)]
    starts = np.concatenate([[0], np.cumsum([int(width.sum()) for width in widths])]).astype(
        np.int64
    )
    size = int(starts[-1]) + 1
    compares_text = order == merge_queue.GREATEST_BYTES
    symbol_bytes = max(1, ((base - 1).bit_length() + 7) // 8)
    weights = _weights(several, chosen, widths, size)
    sizes = np.zeros(merge_state.SIZES, np.int64)
    sizes[merge_state.TOKENS] = base
    sizes[merge_state.CLASS] = merge_queue.CLASSES
    tokens = max(_FIRST_TOKENS, base)
    nothing = np.zeros(0, np.int32)
    # Cells and occurrences share one block: occurrences use the room that cells give up.
    block = np.empty(4 * size, np.int32)
    cells, arena = _parted(block, size)
    state = MergeState(
        cells=cells,
        high=np.empty(size if tokens > merge_state.NARROW else 0, np.int8),
        weights=weights,
        arena=arena,
        pairs=np.zeros((0, pair_tables.COLUMNS), np.int64),
        slots=nothing,
        hash_key=HashKey(*HASH_KEY),
        heap=np.zeros((0, merge_queue.HEAP_COLUMNS), np.int64),
        waiting=np.full(merge_queue.CLASSES + 1, pair_tables.EMPTY, np.int32),
        following=nothing,
        text=np.empty((size + base) * symbol_bytes if compares_text else 0, np.uint8),
        width=symbol_bytes,
        token_starts=np.zeros(tokens, np.int32),
        token_lengths=np.zeros(tokens, np.int32),
        token_widths=np.zeros(tokens, np.int32),
        token_ties=np.zeros(tokens, np.int64),
        learned=np.zeros((tokens, 3), np.int64),
        changes=_no_changes(tokens),
        touched=np.empty((2, tokens + 1), np.int32),
        noted=np.empty((merge_state.NOTES, 0), np.int32),
        sizes=sizes,
    )
    for words, rows, begin in zip(several, chosen, starts.tolist(), strict=False):
        _lay_out(state, words, rows, begin)
    state.token_lengths[:base] = state.token_widths[:base] = 1
    if compares_text:  # the base tokens follow the words
        numbers = np.arange(base, dtype=">u4").view(np.uint8).reshape(-1, 4)
        state.text[size * symbol_bytes :] = numbers[:, 4 - symbol_bytes :].ravel()
        state.token_starts[:base] = np.arange(size, size + base)
        for token in range(base):
            start = (size + token) * symbol_bytes
            state.token_ties[token] = merge_queue.prefix_tie(state.text, start, symbol_bytes)
    return state, starts


def _lay_out(state: MergeState, words: SymbolWords, rows: NDArray[np.int64], begin: int) -> None:
    """Write words and the separators around them into cells from ``begin`` on."""
    content, offsets, ids = map(_writable, (words.content, words.offsets, words.ids))
    merge_layout.fill_initial_state(
        content.view(np.uint8),
        words.content.itemsize > 1,
        offsets,
        rows,
        ids,
        state.cells,
        state.high,
        begin,
        state.text,
        state.width,
    )


def _words_of_pairs(words: SymbolWords, order: int) -> NDArray[np.int64]:
    """The words that contain pairs and occur, in the order of the cells."""
    chosen = np.flatnonzero((np.diff(words.offsets) > 1) & (words.counts > 0))
    keys: NDArray[Any]
    if order == merge_queue.FIRST_SEEN:
        keys = words.first_positions[chosen]
    else:  # the most frequent first: runs of `Weights` are long, and 16 bits use a radix sort
        keys = words.counts[chosen]
        np.minimum(keys, 0xFFFF, out=keys)
        keys = 0xFFFF - keys.astype(np.uint16)
    return chosen[np.argsort(keys, kind="stable")].astype(np.int64, copy=False)


def _widths_of(words: SymbolWords, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of cells of some words, each with its separator."""
    widths = np.diff(words.offsets)[rows]
    widths += 1
    return widths


def _weights(
    several: Sequence[SymbolWords],
    chosen: Sequence[NDArray[np.int64]],
    widths: Sequence[NDArray[np.int64]],
    size: int,
) -> Weights:
    """How often the chosen words occur, by cell."""
    counts = _in_one([words.counts[rows] for words, rows in zip(several, chosen, strict=True)])
    differs = np.ones(len(counts), np.bool_)
    np.not_equal(counts[1:], counts[:-1], out=differs[1:])
    firsts = np.flatnonzero(differs)
    counts = counts[firsts]
    every_width = _in_one(widths)
    begins = np.cumsum(every_width)[firsts] - every_width[firsts] + 1
    return _paged(np.append(begins, size).astype(np.int32), counts, size)


def _in_one(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Concatenate at least one array, without a copy of a single one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _paged(starts: NDArray[np.int32], counts: NDArray[np.int64], size: int) -> Weights:
    pages = np.arange(0, size + 1, 1 << merge_state.PAGE_BITS, dtype=np.int32)
    runs = np.searchsorted(starts[:-1], pages, side="right") - 1
    return Weights(starts, counts, np.maximum(runs, 0).astype(np.int32))


def _parted(block: NDArray[np.int32], size: int) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """Split a block into cells and the rest, for occurrences."""
    return block.view(np.uint16)[:size], block[(size + 1) // 2 :]


def with_first_pairs(state: MergeState, limits: Limits, begin: int, end: int) -> MergeState:
    """Load the pairs of base tokens in the cells from ``begin`` to ``end``.

    The result has its own pairs, queue and ``sizes``, and shares all other arrays.
    """
    here = without_pairs(state, 0)._replace(arena=state.arena[:0])
    rows = _frequent_pairs(here, limits.kept_count, begin, end)
    return with_pairs(here, limits, rows, begin, end)


def with_pairs(
    state: MergeState,
    limits: Limits,
    rows: NDArray[np.int64],
    begin: int = 0,
    end: int | None = None,
) -> MergeState:
    """Load pairs without queueing them, with room for all future occurrences.

    A merged occurrence removes one symbol and makes at most two new occurrences, so the arena holds
    at most those of ``rows`` (from `_frequent_pairs`) plus two for each pair of neighbours. Each
    token must have one cell.
    """
    end = len(state.cells) if end is None else end
    if limits.kept_length < 2:
        rows = rows[:0]
    rows = rows[rows[:, pair_tables.COUNT] >= limits.kept_count]
    lengths = rows[:, pair_tables.LENGTH]
    rows[:, pair_tables.START] = np.cumsum(lengths) - lengths
    placed = int(lengths.sum())
    room = placed + 2 * (end - begin)
    # Pairs are at most as many as occurrences.
    capacity = max(2 * len(rows), min(_FIRST_PAIRS, room), 1)
    pairs = grown(rows, len(rows), capacity)
    filled = state._replace(
        arena=(
            state.arena
            if len(state.arena) >= room + _UNWANTED
            else np.empty(room + _UNWANTED, np.int32)
        ),
        noted=np.empty((merge_state.NOTES, int(lengths.max(initial=0))), np.int32),
        pairs=pairs,
        slots=_slots_for(pairs, len(rows), state.hash_key),
        heap=np.empty((capacity, merge_queue.HEAP_COLUMNS), np.int64),
        following=np.empty(capacity, np.int32),
    )
    filled.sizes[merge_state.PAIRS] = len(rows)
    filled.sizes[merge_state.ARENA] = placed
    filled.sizes[merge_state.NOWHERE] = len(filled.arena) - 1
    tokens = int(state.sizes[merge_state.TOKENS])
    if tokens <= _DENSE:
        places = np.full((tokens + 1, tokens + 1), placed, np.uint32)
        places[(rows[:, pair_tables.KEY] >> 32) + 1, (rows[:, pair_tables.KEY] & _LOW) + 1] = rows[
            :, pair_tables.START
        ]
        merge_layout.collect_dense_pairs(filled.cells, begin, end, places, placed, filled.arena)
    else:
        starts = rows[:, pair_tables.START].copy()
        table = filled.pairs, filled.slots, filled.hash_key
        merge_layout.collect_sparse_pairs(
            filled.cells, filled.high, begin, end, *table, starts, filled.arena
        )
    return filled


def closed_up(state: MergeState) -> MergeState:
    """Shrink each token to one cell and drop words of one token; keeps no occurrences."""
    cells, high, weights, widths = state.cells, state.high, state.weights, state.token_widths
    tokens = int(state.sizes[merge_state.TOKENS])
    special = [merge_layout.OF_INSIDE, merge_layout.OF_SEPARATOR]
    kinds = np.concatenate([special, widths[:tokens] > 1]).astype(np.uint8)
    size, runs = map(int, merge_layout.close_up(cells, high, weights, kinds))
    widths[:tokens] = 1
    block = cells.base
    assert block is not None
    cells, arena = _parted(block, size)
    starts = np.append(weights.starts[:runs], np.int32(size))
    return state._replace(
        cells=cells,
        high=high[:size],
        weights=_paged(starts, weights.counts[:runs].copy(), size),
        arena=arena,
    )


def without_pairs(state: MergeState, pairs: int) -> MergeState:
    """Empty the pair table and the queue, with room for ``pairs`` pairs."""
    room = grown(np.zeros((0, pair_tables.COLUMNS), np.int64), 0, pairs)
    sizes = np.zeros(merge_state.SIZES, np.int64)
    sizes[merge_state.TOKENS] = state.sizes[merge_state.TOKENS]
    sizes[merge_state.CLASS] = merge_queue.CLASSES
    return state._replace(
        noted=np.empty((merge_state.NOTES, 0), np.int32),
        pairs=room,
        slots=_slots_for(room, 0, state.hash_key),
        heap=np.empty((pairs, merge_queue.HEAP_COLUMNS), np.int64),
        waiting=np.full(merge_queue.CLASSES + 1, pair_tables.EMPTY, np.int32),
        following=np.empty(pairs, np.int32),
        sizes=sizes,
    )


def _frequent_pairs(
    state: MergeState, least: int, begin: int = 0, end: int | None = None
) -> NDArray[np.int64]:
    """Rows, without `START`, for all pairs with this count or more, and maybe others.

    Each token must have one cell; only the cells from ``begin`` to ``end`` are searched.
    """
    tokens = int(state.sizes[merge_state.TOKENS])
    end = len(state.cells) if end is None else end
    if tokens <= _DENSE:
        return _dense_pairs(state, tokens, least, begin, end)
    return _sparse_pairs(state, least, begin, end)


def _dense_pairs(
    state: MergeState, tokens: int, least: int, begin: int, end: int
) -> NDArray[np.int64]:
    """Exactly the frequent pairs, counted in a square table."""
    sums = _lent(state.arena, (tokens + 1, tokens + 1, 2))
    merge_layout.count_dense_pairs(state.cells, state.weights, begin, end, sums)
    frequent = sums[..., merge_layout.SUM] >= max(least, 1)
    frequent[0] = frequent[:, 0] = False  # separators
    cells = np.flatnonzero(frequent)
    left, right = np.divmod(cells, tokens + 1)
    entries = sums.reshape(-1, 2).take(cells, axis=0)
    rows = np.empty((len(cells), pair_tables.COLUMNS), np.int64)
    rows[:, pair_tables.KEY] = ((left - 1) << 32) | (right - 1)
    rows[:, pair_tables.COUNT] = entries[:, merge_layout.SUM]
    rows[:, pair_tables.LENGTH] = entries[:, merge_layout.OCCURRING]
    return rows


def _lent(arena: NDArray[np.int32], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Zeros in the memory of the arena, if there is room."""
    begin = -arena.ctypes.data % _LINE // arena.itemsize
    size = 2 * math.prod(shape)
    if begin + size > len(arena):
        return np.zeros(shape, np.int64)
    lent = arena[begin : begin + size].view(np.int64).reshape(shape)
    lent[:] = 0
    return lent


def _sparse_pairs(state: MergeState, least: int, begin: int, end: int) -> NDArray[np.int64]:
    """Frequent pairs by a hash table; sums by hash bits filter most of the rarer ones."""
    cells, high, weights = state.cells, state.high, state.weights
    sums = np.full(2, least, np.int64)
    if least > 1:
        sums = np.zeros(1 << (min(end - begin + 1, _MOST_SUMS) - 1).bit_length(), np.int64)
        merge_layout.add_up_pairs(cells, high, weights, begin, end, sums, state.hash_key)
    position: merge_state.Integer = begin
    size: merge_state.Integer = 0
    rows = np.empty((_FIRST_PAIRS, pair_tables.COLUMNS), np.int64)
    while True:
        slots = _slots_for(rows, size, state.hash_key)
        position, size = merge_layout.count_sparse_pairs(
            cells,
            high,
            weights,
            position,
            end,
            sums,
            least,
            size,
            rows,
            slots,
            state.hash_key,
        )
        if position == end:
            return rows[:size]
        rows = grown(rows, size, 2 * len(rows))


def with_more_tokens(state: MergeState) -> MergeState:
    """Make room for twice as many tokens; raise `InvalidOption` if ids are exhausted."""
    tokens = len(state.token_lengths)
    more = min(2 * tokens, merge_state.MOST_TOKENS)
    if tokens < merge_state.NARROW < more:
        more = merge_state.NARROW
    elif tokens == merge_state.NARROW:
        state = state._replace(high=-(state.cells >= merge_state.NARROW).astype(np.int8))
    if more == tokens:
        raise InvalidOption(
            f"more than {tokens:,} base tokens and merges are needed",
            f"expected at most {tokens:,}",
            "choose fewer: --vocab-size, --merges",
        )
    return state._replace(
        token_starts=grown(state.token_starts, tokens, more),
        token_lengths=grown(state.token_lengths, tokens, more),
        token_widths=grown(state.token_widths, tokens, more),
        token_ties=grown(state.token_ties, tokens, more),
        learned=grown(state.learned, tokens, more),
        changes=_no_changes(more),
        touched=np.empty((2, more + 1), np.int32),
    )


def with_more_pairs(state: MergeState) -> MergeState:
    """Make room for twice as many pairs."""
    sizes, capacity = state.sizes.tolist(), 2 * len(state.pairs)
    size, queued = sizes[merge_state.PAIRS], sizes[merge_state.QUEUED]
    pairs = grown(state.pairs, size, capacity)
    return state._replace(
        pairs=pairs,
        slots=_slots_for(pairs, size, state.hash_key),
        heap=grown(state.heap, queued, capacity),
        following=grown(state.following, size, capacity),
    )


def _no_changes(tokens: int) -> NDArray[np.int64]:
    changes = np.zeros((2, tokens + 1, 2), np.int64)
    changes[:, 0, merge_state.OCCURRENCES] = 1  # separators never count as newly met
    return changes


def _slots_for(
    pairs: NDArray[np.int64], size: merge_state.Integer, hash_key: HashKey
) -> NDArray[np.int32]:
    """Hash slots for a table of pairs with ``size`` rows; at most half full."""
    slots = np.full(1 << (2 * len(pairs) - 1).bit_length(), pair_tables.EMPTY, np.int32)
    pair_tables.fill_slots(pairs, size, slots, hash_key)
    return slots


def grown(array: NDArray[Number], size: merge_state.Integer, capacity: int) -> NDArray[Number]:
    """Room for ``capacity`` rows, aligned to a cache line; the first ``size`` copied."""
    shape = (capacity, *array.shape[1:])
    size_in_bytes = math.prod(shape) * array.itemsize
    memory = np.empty(size_in_bytes + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    larger = memory[begin : begin + size_in_bytes].view(array.dtype).reshape(shape)
    larger[:size] = array[:size]
    return larger


def _writable(array: NDArray[Number]) -> NDArray[Number]:
    """Return a writable contiguous array, which kernels require; copy if necessary."""
    return np.require(array, array.dtype, ["C", "W"])
