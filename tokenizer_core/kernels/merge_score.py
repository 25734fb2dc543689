"""Merging by a score of the pair and its parts, as WordPiece does, instead of by count alone.

Scores rise as well as fall when counts change, so no queue can hold them: before each merge the
scores of all pairs are looked at. Their counts are exact at all times (see `merge_step`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.merge_layout import weight_of
from tokenizer_core.kernels.merge_pairs import COUNT, EMPTY, KEY, LENGTH, START
from tokenizer_core.kernels.merge_state import (
    PAIRS,
    TOKENS,
    WEIGHT,
    Integer,
    Limits,
    MergeState,
)
from tokenizer_core.kernels.merge_step import (
    DONE,
    EXHAUSTED,
    add_token,
    missing_room,
    place_occurrences,
    renew_pairs,
    replace_occurrences,
)

RATIO, GAIN = 0, 1
_LOW = np.int64(0xFFFFFFFF)


@kernel
def score_of(kind: Integer, together: float, left: float, right: float, total: float) -> float:
    """The score of a pair that occurs ``together`` times, of tokens that occur so often."""
    if kind == RATIO:
        return together / (left * right)
    return together * math.log(together * total / (left * right))


@kernel
def best_by_score(
    state: MergeState, limits: Limits, kind: Integer, counts: NDArray[np.int64], total: Integer
) -> Integer:
    """The pair of the greatest score, then count, then of the smallest ids; or `EMPTY`."""
    pairs = state.pairs
    best = np.int64(EMPTY)
    highest = -np.inf
    for row in range(state.sizes[PAIRS]):
        count = pairs[row, COUNT]
        if count < limits.min_count:
            continue
        left, right = pairs[row, KEY] >> 32, pairs[row, KEY] & _LOW
        score = score_of(
            kind,
            np.float64(count),
            np.float64(counts[left]),
            np.float64(counts[right]),
            np.float64(total),
        )
        if score < highest:
            continue
        if score == highest and best != EMPTY:
            if count < pairs[best, COUNT]:
                continue
            if count == pairs[best, COUNT] and pairs[row, KEY] > pairs[best, KEY]:
                continue
        best = np.int64(row)
        highest = score
    return best


@kernel
def merge_scored(
    state: MergeState, limits: Limits, pair: Integer, counts: NDArray[np.int64]
) -> Integer:
    """Make one token of a pair everywhere and keep token counts; returns how often it occurs."""
    pairs = state.pairs
    left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & _LOW
    token = add_token(state, left, right, pairs[pair, COUNT])
    start = pairs[pair, START]
    merged = replace_occurrences(state, pair, token)
    made = np.int64(0)
    for index in range(merged):
        made += weight_of(state.cells[state.arena[start + index], WEIGHT], state.large_counts)
    counts[left] -= made
    counts[right] -= made
    counts[token] = made
    for side in range(2):
        renew_pairs(state, limits, side, pair, token)
    pairs[pair, COUNT] = 0
    pairs[pair, LENGTH] = 0
    for side in range(2):
        place_occurrences(state, side, start, merged)
    return made


@kernel
def learn_by_score(
    state: MergeState,
    limits: Limits,
    kind: Integer,
    counts: NDArray[np.int64],
    total: NDArray[np.int64],
    goal: Integer,
) -> Integer:
    """Merge the best pairs until there are ``goal`` tokens.

    Args:
        kind: `RATIO` or `GAIN`.
        counts: int64 ``[goal]``: how often each token occurs.
        total: int64 ``[1]``: their sum.

    Returns:
        As `merge_step.learn`.
    """
    while state.sizes[TOKENS] < goal:
        pair = best_by_score(state, limits, kind, counts, total[0])
        if pair == EMPTY:
            return EXHAUSTED
        missing = missing_room(state, state.pairs[pair, LENGTH])
        if missing != DONE:
            return missing
        total[0] -= merge_scored(state, limits, pair, counts)
    return DONE
