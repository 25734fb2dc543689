"""Merging by a score of the pair and its parts, as WordPiece does, instead of by count alone.

When (a, b) is merged, counts change only for pairs that hold a or b, and so do the products of
their parts' counts. Those of them that are in a group are looked at there and then; those that
wait cannot have risen above the promise under which they wait. N, the number of all tokens, falls
with every merge, and with it every `GAIN`: what a group promises is computed anew when the group
comes to the top. So the first group whose promise holds has the best pair.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.merge_groups import (
    NEXT,
    UNGROUPED,
    Groups,
    enter,
    group_for,
    leave,
    lower_product,
    promise,
    sink,
)
from tokenizer_core.kernels.merge_layout import weight_of
from tokenizer_core.kernels.merge_pairs import COUNT, EMPTY, KEY, LENGTH, START
from tokenizer_core.kernels.merge_state import (
    PAIRS,
    SYMBOL,
    TOKENS,
    WEIGHT,
    Integer,
    Limits,
    MergeState,
)
from tokenizer_core.kernels.merge_step import DONE, EXHAUSTED, merge_everywhere, missing_room

RATIO, GAIN = 0, 1
NEEDS_GROUPS = 4  # besides what `merge_step.learn` answers
_LOW = np.int64(0xFFFFFFFF)


@kernel
def score_of(kind: Integer, count: Integer, product: float, total: Integer) -> float:
    """The score of a pair that occurs ``count`` times, by the product of its parts' counts."""
    if kind == RATIO:
        return np.float64(count) / product
    return np.float64(count) * math.log(np.float64(count) * np.float64(total) / product)


@kernel
def most_for(kind: Integer, count: Integer, total: Integer) -> float:
    """What no pair with this count, or with a smaller one later, can score more than.

    A part occurs as often as the pair at least. n · log(N / n) falls again beyond n = N / e, where
    it is smaller than n.
    """
    most = score_of(kind, count, np.float64(count) * np.float64(count), total)
    return max(most, np.float64(count)) if kind == GAIN else most


@kernel
def count_tokens(state: MergeState, counts: NDArray[np.int64]) -> None:
    """Add to ``counts`` how often each token stands in the words."""
    position = 0
    while position < state.cells.shape[0]:
        token = np.int64(state.cells[position, SYMBOL])
        if token < 0:
            position += 1
        else:
            counts[token] += weight_of(state.cells[position, WEIGHT], state.large_counts)
            position += state.token_lengths[token]


@kernel
def product_of(groups: Groups, counts: NDArray[np.int64], pair: Integer) -> float:
    key = groups.pairs[pair, KEY]
    return np.float64(counts[key >> 32]) * np.float64(counts[key & _LOW])


@kernel
def wait(
    groups: Groups, limits: Limits, kind: Integer, total: Integer, first: Integer, behind: Integer
) -> None:
    """Let the pairs in rows ``first`` … ``behind - 1`` wait in the groups of their counts."""
    for pair in range(first, behind):
        count = groups.pairs[pair, COUNT]
        groups.group_of[pair] = UNGROUPED
        if count < limits.min_count:
            continue
        group = group_for(groups, count)
        groups.links[pair, NEXT] = groups.waiting[group]
        groups.waiting[group] = pair
        promise(groups, group, most_for(kind, count, total))


@kernel
def call_waiting(
    groups: Groups,
    limits: Limits,
    kind: Integer,
    counts: NDArray[np.int64],
    total: Integer,
    group: Integer,
) -> None:
    """Enter the pairs that wait in a group, while there is room for new groups."""
    while groups.waiting[group] != EMPTY and groups.size[0] < groups.counts.size:
        pair = np.int64(groups.waiting[group])
        groups.waiting[group] = groups.links[pair, NEXT]
        if groups.pairs[pair, COUNT] != groups.counts[group]:
            wait(groups, limits, kind, total, pair, pair + 1)
            continue
        groups.products[pair] = product_of(groups, counts, pair)
        enter(groups, group, pair)
        for side in range(2):
            part = groups.pairs[pair, KEY] & _LOW if side else groups.pairs[pair, KEY] >> 32
            groups.beside[pair, side] = groups.first_beside[part, side]
            groups.first_beside[part, side] = pair


@kernel
def best_by_score(
    groups: Groups,
    limits: Limits,
    kind: Integer,
    counts: NDArray[np.int64],
    total: Integer,
) -> Integer:
    """The pair of the greatest score, then count, then of the rarest parts, then of the smallest
    ids; `EMPTY` when there is none; −`NEEDS_GROUPS` when there is no room to find out."""
    while groups.size[0] > 0:
        group = np.int64(groups.queue[0])
        best = np.int64(groups.best[group])
        count = groups.counts[group]
        found = -np.inf
        if best != EMPTY:
            found = score_of(kind, count, groups.products[best], total)
        present = found
        if groups.waiting[group] != EMPTY:
            present = max(found, most_for(kind, count, total))
        if present < groups.promises[group]:
            groups.promises[group] = present
            sink(groups, group)
        elif groups.waiting[group] != EMPTY:
            if groups.size[0] == groups.counts.size:
                return -NEEDS_GROUPS
            call_waiting(groups, limits, kind, counts, total, group)
        else:
            return best
    return EMPTY


@kernel
def look_again(
    groups: Groups,
    limits: Limits,
    kind: Integer,
    counts: NDArray[np.int64],
    total: Integer,
    part: Integer,
    side: Integer,
) -> None:
    """Bring the grouped pairs that hold ``part`` on one side to their present groups and places."""
    beside = groups.beside
    before = np.int64(EMPTY)
    pair = np.int64(groups.first_beside[part, side])
    while pair != EMPTY:
        following = np.int64(beside[pair, side])
        count = groups.pairs[pair, COUNT]
        if count < limits.min_count:  # never again: out of this chain, and out of its group
            if groups.group_of[pair] != UNGROUPED:
                leave(groups, pair)
            if before == EMPTY:
                groups.first_beside[part, side] = following
            else:
                beside[before, side] = following
        else:
            product = product_of(groups, counts, pair)
            group: Integer = np.int64(groups.group_of[pair])
            if count != groups.counts[group]:
                leave(groups, pair)
                groups.products[pair] = product
                group = group_for(groups, count)
                enter(groups, group, pair)
                promise(groups, group, score_of(kind, count, product, total))
            elif product < groups.products[pair]:
                lower_product(groups, pair, product)
                promise(groups, group, score_of(kind, count, product, total))
            before = pair
        pair = following


@kernel
def learn_by_score(
    state: MergeState,
    limits: Limits,
    groups: Groups,
    kind: Integer,
    counts: NDArray[np.int64],
    total: NDArray[np.int64],
    goal: Integer,
) -> Integer:
    """Merge the best pairs until there are ``goal`` tokens.

    Args:
        groups: all pairs.
        kind: `RATIO` or `GAIN`.
        counts: int64 ``[goal]``, or more: how often each token occurs.
        total: int64 ``[1]``: their sum.

    Returns:
        As `merge_step.learn`, or `NEEDS_GROUPS`.
    """
    while state.sizes[TOKENS] < goal:
        pair = best_by_score(groups, limits, kind, counts, total[0])
        if pair == EMPTY:
            return EXHAUSTED
        if pair == -NEEDS_GROUPS:
            return NEEDS_GROUPS
        token, length = state.sizes[TOKENS], state.pairs[pair, LENGTH]
        missing = missing_room(state, length)
        if missing != DONE:
            return missing
        # New pairs, and old ones whose counts change, may each want a group.
        if groups.size[0] + 4 * min(length, token + 1) + 2 > groups.counts.size:
            return NEEDS_GROUPS
        left, right = state.pairs[pair, KEY] >> 32, state.pairs[pair, KEY] & _LOW
        start, first_new = state.pairs[pair, START], state.sizes[PAIRS]
        made = np.int64(0)
        for index in range(merge_everywhere(state, limits, pair)):
            position = state.arena[start + index]
            made += weight_of(state.cells[position, WEIGHT], state.large_counts)
        counts[left] -= made
        counts[right] -= made
        counts[token] = made
        total[0] -= made
        for side in range(2):
            groups.first_beside[token, side] = EMPTY
            look_again(groups, limits, kind, counts, total[0], left, side)
            look_again(groups, limits, kind, counts, total[0], right, side)
        wait(groups, limits, kind, total[0], first_new, state.sizes[PAIRS])
    return DONE
