"""Merging the pair after which a unigram model, estimated anew, gives the words most likelihood.

Every pair is looked at before every merge, because N, the number of all tokens, changes all their
gains: for small corpora.
"""

from __future__ import annotations

import math

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import F64, I64, I64s
from bpeline.tokenizer_core.kernels.merging.merge_layout import symbol_at, weight_at
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    PAIRS,
    TOKENS,
    Limits,
    MergeState,
)
from bpeline.tokenizer_core.kernels.merging.merge_step import (
    DONE,
    EXHAUSTED,
    merge_everywhere,
    merged_count,
    missing_room,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import COUNT, EMPTY, KEY, LENGTH

_LOW = np.int64(0xFFFFFFFF)


@kernel
def part_of_likelihood(count: I64) -> F64:
    """n · log n: the log-likelihood is the sum of it over all tokens, less N · log N."""
    return np.float64(count) * math.log(np.float64(count)) if count > 0 else 0.0


@kernel
def gained_by(made: I64, left: I64, right: I64, total: I64) -> F64:
    """What the log-likelihood gains when ``made`` occurrences of two tokens become one token."""
    gained = part_of_likelihood(made)
    gained += part_of_likelihood(left - made) - part_of_likelihood(left)
    gained += part_of_likelihood(right - made) - part_of_likelihood(right)
    return gained - (part_of_likelihood(total - made) - part_of_likelihood(total))


@kernel
def gained_by_double(made: I64, count: I64, total: I64) -> F64:
    """The same of a token that is joined with itself."""
    gained = part_of_likelihood(made)
    gained += part_of_likelihood(count - 2 * made) - part_of_likelihood(count)
    return gained - (part_of_likelihood(total - made) - part_of_likelihood(total))


@kernel
def count_doubles(state: MergeState, doubles: I64s) -> None:
    """How often each token can be joined with itself: ``aaa`` gives one (a, a)."""
    doubles[:] = 0
    position, before, run = np.int64(0), np.int64(-1), 0
    while position < state.cells.size:
        token = symbol_at(state.cells, state.high, position)
        run = run + 1 if token >= 0 and token == before else 1
        before = token
        if token < 0:
            position += 1
            continue
        if run == 2:
            doubles[token] += weight_at(state.weights, position)
            before = np.int64(-1)
        position += np.int64(state.token_widths[token])


@kernel
def most_likely(state: MergeState, limits: Limits, counts: I64s, doubles: I64s, total: I64) -> I64:
    """The pair of the greatest gain, then count, then of the rarest parts, then of the smallest
    ids; `EMPTY` when there is none."""
    pairs = state.pairs
    best = np.int64(EMPTY)
    most, most_often, least, smallest = -np.inf, np.int64(0), np.inf, np.int64(0)
    for pair in range(state.sizes[PAIRS]):
        count, key = pairs[pair, COUNT], pairs[pair, KEY]
        if count < limits.min_count:
            continue
        left, right = counts[key >> 32], counts[key & _LOW]
        if key >> 32 == key & _LOW:
            gained = gained_by_double(doubles[key & _LOW], left, total)
        else:
            gained = gained_by(count, left, right, total)
        product = np.float64(left) * np.float64(right)
        better = gained > most
        if gained == most:
            better = count > most_often
            if count == most_often:
                better = product < least or (product == least and key < smallest)
        if better:
            best, most, most_often, least, smallest = np.int64(pair), gained, count, product, key
    return best


@entry_kernel
def learn_by_likelihood(
    state: MergeState, limits: Limits, counts: I64s, doubles: I64s, total: I64s, goal: I64
) -> I64:
    """Merge the pairs of the greatest gain until there are ``goal`` tokens.

    Args:
        counts: int64 ``[goal]``, or more: how often each token occurs.
        doubles: int64, as long: scratch memory.
        total: int64 ``[1]``: the sum of ``counts``.

    Returns:
        As `merge_step.learn`.
    """
    pairs, sizes = state.pairs, state.sizes
    while sizes[TOKENS] < goal:
        count_doubles(state, doubles)
        pair = most_likely(state, limits, counts, doubles, total[0])
        if pair == EMPTY:
            return EXHAUSTED
        missing = missing_room(state, pairs[pair, LENGTH])
        if missing != DONE:
            return missing
        token, key = sizes[TOKENS], pairs[pair, KEY]
        made = merged_count(state, merge_everywhere(state, limits, pair))
        counts[key >> 32] -= made
        counts[key & _LOW] -= made
        counts[token] = made
        total[0] -= made
    return DONE
