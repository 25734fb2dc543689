"""Merging one pair after another until a goal, an end, or the edge of an array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import prefetch
from tokenizer_core.kernels.merge_layout import INSIDE
from tokenizer_core.kernels.merge_pairs import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    START,
    Integer,
    find_pair,
    key_of,
    slot_of,
)
from tokenizer_core.kernels.merge_queue import (
    FIRST_SEEN,
    GREATEST_BYTES,
    HEAP_COUNT,
    HEAP_PAIR,
    HEAP_TIE,
    SMALLEST_IDS,
    prefix_tie,
    push,
    replace_first,
)
from tokenizer_core.kernels.merge_state import (
    ARENA,
    GAINED,
    LEFT,
    LOST,
    MERGED_COUNT,
    MET_LEFT,
    MET_RIGHT,
    OCCURRENCES,
    PAIRS,
    PLACE,
    QUEUED,
    RIGHT,
    TOKENS,
    Limits,
    MergeState,
)

# What `learn` and `apply` answer.
DONE, EXHAUSTED, NEEDS_TOKENS, NEEDS_PAIRS = 0, 1, 2, 3

AHEAD = 16  # occurrences between asking for a symbol and reading it

_LOW = np.int64(0xFFFFFFFF)


@kernel
def occurs_at(state: MergeState, pair: Integer, position: Integer) -> bool:
    """Whether a position from the pair's segment is still an occurrence of it.

    The token that begins at ``position`` may have grown since, never shrunk, so equal ids at the
    two boundary tags are the same two tokens.
    """
    left = state.pairs[pair, KEY] >> 32
    if state.symbols[position] != left:
        return False
    return state.symbols[position + state.token_lengths[left]] == state.pairs[pair, KEY] & _LOW


@kernel
def tie_of(state: MergeState, order: Integer, pair: Integer) -> Integer:
    """What decides among equal counts at present; see `merge_queue`.

    Under `FIRST_SEEN` the segment is shortened to begin at an occurrence that is not stale.
    """
    pairs = state.pairs
    if order == SMALLEST_IDS:
        return pairs[pair, KEY]
    if order != FIRST_SEEN:
        return state.token_ties[pairs[pair, KEY] >> 32]
    while pairs[pair, LENGTH] > 0 and not occurs_at(state, pair, state.arena[pairs[pair, START]]):
        pairs[pair, START] += 1
        pairs[pair, LENGTH] -= 1
    return np.int64(state.arena[pairs[pair, START]]) if pairs[pair, LENGTH] > 0 else np.int64(0)


@kernel
def queue_pairs(state: MergeState, limits: Limits, first: Integer) -> None:
    """Queue the pairs from row ``first`` on."""
    for pair in range(first, state.sizes[PAIRS]):
        tie = tie_of(state, limits.order, pair)
        push(state, limits.order, state.sizes[QUEUED], state.pairs[pair, COUNT], tie, pair)
        state.sizes[QUEUED] += 1


@kernel
def next_pair(state: MergeState, limits: Limits) -> Integer:
    """The best pair, which stays first in the queue, or `EMPTY` when none may be merged."""
    heap, sizes = state.heap, state.sizes
    while sizes[QUEUED] > 0:
        pair = heap[0, HEAP_PAIR]
        count = state.pairs[pair, COUNT]
        length = state.token_lengths[state.pairs[pair, KEY] >> 32]
        length += state.token_lengths[state.pairs[pair, KEY] & _LOW]
        if count >= limits.min_count and length <= limits.max_token_bytes:
            # Every word occurs, so the loss of any occurrence, the first too, lowers the count.
            if heap[0, HEAP_COUNT] == count:
                return pair
            tie = tie_of(state, limits.order, pair)
            replace_first(state, limits.order, sizes[QUEUED], count, tie, pair)
        else:
            drop_first(state, limits.order)
    return EMPTY


@kernel
def drop_first(state: MergeState, order: Integer) -> None:
    heap, sizes = state.heap, state.sizes
    last = sizes[QUEUED] - 1
    sizes[QUEUED] = last
    replace_first(
        state, order, last, heap[last, HEAP_COUNT], heap[last, HEAP_TIE], heap[last, HEAP_PAIR]
    )


@kernel
def replace_occurrences(state: MergeState, pair: Integer, token: Integer) -> Integer:
    """Write ``token`` over every occurrence of ``pair``, left to right; returns how many.

    The positions are gathered at the front of the pair's segment, which is not needed any more;
    their neighbours go to ``beside``, and what the neighbours' pairs lose and gain to ``changes``.
    """
    symbols, arena, changes = state.symbols, state.arena, state.changes
    beside, sizes = state.beside, state.sizes
    left, right = state.pairs[pair, KEY] >> 32, state.pairs[pair, KEY] & _LOW
    left_length, right_length = state.token_lengths[left], state.token_lengths[right]
    start = state.pairs[pair, START]
    merged = 0
    symbols_at, words_at = symbols.ctypes.data, state.word_of.ctypes.data
    behind = start + state.pairs[pair, LENGTH]
    for place in range(start, behind):
        if place + AHEAD < behind:  # occurrences lie anywhere: do not wait for each in turn
            coming = np.int64(arena[place + AHEAD])
            prefetch(np.int64(symbols_at) + coming * 4)
            prefetch(np.int64(words_at) + coming * 4)
        position = np.int64(arena[place])
        middle = position + left_length
        if symbols[position] != left or symbols[middle] != right:
            continue
        end = middle + right_length
        weight = state.word_counts[state.word_of[position]]
        before, after = np.int64(symbols[position - 1]), np.int64(symbols[end])
        symbols[middle - 1] = INSIDE
        symbols[middle] = INSIDE
        symbols[position] = token
        symbols[end - 1] = token
        arena[start + merged] = position
        if before == token:  # the occurrence just merged: what it noted to its right is gone
            changes[1, left, GAINED] -= weight
            changes[1, left, OCCURRENCES] -= 1
            beside[1, merged - 1] = -1
        if before >= 0:
            if changes[0, before, PLACE] == 0:
                changes[0, before, PLACE] = 1
                state.touched[0, sizes[MET_LEFT]] = before
                sizes[MET_LEFT] += 1
            if before != token:
                changes[0, before, LOST] += weight
            changes[0, before, GAINED] += weight
            changes[0, before, OCCURRENCES] += 1
        if after >= 0:
            if changes[1, after, PLACE] == 0:
                changes[1, after, PLACE] = 1
                state.touched[1, sizes[MET_RIGHT]] = after
                sizes[MET_RIGHT] += 1
            changes[1, after, LOST] += weight
            changes[1, after, GAINED] += weight
            changes[1, after, OCCURRENCES] += 1
        beside[0, merged] = before
        beside[1, merged] = after
        merged += 1
    return merged


@kernel
def renew_pairs(
    state: MergeState, limits: Limits, side: Integer, pair: Integer, token: Integer
) -> None:
    """Take from the pairs of the neighbours met on one side what they lost; enter the new ones.

    The place where a new pair's occurrences go is left in ``changes``, −1 where none is wanted.
    """
    changes, pairs, sizes = state.changes, state.pairs, state.sizes
    left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & _LOW
    for met in range(sizes[MET_LEFT + side]):
        neighbour = np.int64(state.touched[side, met])
        old = key_of(neighbour, left) if side == 0 else key_of(right, neighbour)
        new = key_of(neighbour, token) if side == 0 else key_of(token, neighbour)
        if changes[side, neighbour, LOST] > 0:
            row = find_pair(pairs, state.slots, old)
            if row != EMPTY:
                pairs[row, COUNT] -= changes[side, neighbour, LOST]
        gained = changes[side, neighbour, GAINED]
        length = state.token_lengths[neighbour] + state.token_lengths[token]
        changes[side, neighbour, PLACE] = -1
        if gained >= limits.kept_count and length <= limits.kept_bytes:
            row = sizes[PAIRS]
            pairs[row, KEY] = new
            pairs[row, COUNT] = gained
            pairs[row, START] = sizes[ARENA]
            pairs[row, LENGTH] = changes[side, neighbour, OCCURRENCES]
            state.slots[slot_of(pairs, state.slots, new)] = row
            changes[side, neighbour, PLACE] = sizes[ARENA]
            sizes[ARENA] += changes[side, neighbour, OCCURRENCES]
            sizes[PAIRS] += 1


@kernel
def place_occurrences(state: MergeState, side: Integer, start: Integer, merged: Integer) -> None:
    """Write the positions of the new pairs on one side into their segments; forget the changes.

    ``arena[start:start + merged]`` and ``beside`` hold what `replace_occurrences` left there.
    """
    arena, changes, sizes = state.arena, state.changes, state.sizes
    for index in range(merged):
        neighbour = np.int64(state.beside[side, index])
        if neighbour < 0:
            continue
        place = changes[side, neighbour, PLACE]
        if place < 0:
            continue
        position = arena[start + index]
        arena[place] = position - (state.token_lengths[neighbour] if side == 0 else 0)
        changes[side, neighbour, PLACE] = place + 1
    for met in range(sizes[MET_LEFT + side]):
        neighbour = np.int64(state.touched[side, met])
        changes[side, neighbour, :] = 0
    sizes[MET_LEFT + side] = 0


@kernel
def add_token(state: MergeState, left: Integer, right: Integer, count: Integer) -> Integer:
    token = state.sizes[TOKENS]
    state.sizes[TOKENS] = token + 1
    state.learned[token, LEFT] = left
    state.learned[token, RIGHT] = right
    state.learned[token, MERGED_COUNT] = count
    state.token_lengths[token] = state.token_lengths[left] + state.token_lengths[right]
    return token


@kernel
def merge(state: MergeState, limits: Limits, pair: Integer) -> None:
    """Make one token of a pair, everywhere; the arrays have room (see `missing_room`)."""
    pairs = state.pairs
    key = pairs[pair, KEY]
    token = add_token(state, key >> 32, key & _LOW, pairs[pair, COUNT])
    start = pairs[pair, START]
    merged = replace_occurrences(state, pair, token)
    if limits.order == GREATEST_BYTES and merged > 0:
        state.token_starts[token] = state.arena[start]
        state.token_ties[token] = prefix_tie(
            state.text, np.int64(state.arena[start]), np.int64(state.token_lengths[token])
        )
    first_new = state.sizes[PAIRS]
    for side in range(2):  # a loop, because literal sides would be compiled one by one
        renew_pairs(state, limits, side, pair, token)
    pairs[pair, COUNT] = 0
    pairs[pair, LENGTH] = 0
    for side in range(2):
        place_occurrences(state, side, start, merged)
    queue_pairs(state, limits, first_new)


@kernel
def missing_room(state: MergeState, length: Integer) -> Integer:
    """`DONE`, or which arrays must grow before a pair with ``length`` occurrences is merged."""
    tokens = state.sizes[TOKENS]
    if tokens >= state.token_lengths.size:
        return NEEDS_TOKENS
    if state.sizes[PAIRS] + 2 * min(length, tokens + 1) > state.pairs.shape[0]:
        return NEEDS_PAIRS
    return DONE


@kernel
def learn(state: MergeState, limits: Limits, goal: Integer) -> Integer:
    """Merge the best pairs until there are ``goal`` tokens.

    Returns:
        `DONE`, `EXHAUSTED` when no pair may be merged, or what has to grow to go on.
    """
    while state.sizes[TOKENS] < goal:
        pair = next_pair(state, limits)
        if pair == EMPTY:
            return EXHAUSTED
        missing = missing_room(state, state.pairs[pair, LENGTH])
        if missing != DONE:
            return missing
        drop_first(state, limits.order)
        merge(state, limits, pair)
    return DONE


@kernel
def apply(state: MergeState, limits: Limits, given: NDArray[np.int64], goal: Integer) -> Integer:
    """Merge the pairs of ``given`` ([n, 2], row k makes token 256 + k) up to ``goal`` tokens.

    A pair that occurs nowhere makes a token all the same. Returns what `learn` returns.
    """
    while state.sizes[TOKENS] < goal:
        left, right = given[state.sizes[TOKENS] - 256, 0], given[state.sizes[TOKENS] - 256, 1]
        pair = find_pair(state.pairs, state.slots, key_of(left, right))
        missing = missing_room(state, state.pairs[pair, LENGTH] if pair != EMPTY else 0)
        if missing != DONE:
            return missing
        if pair == EMPTY:
            add_token(state, left, right, np.int64(0))
        else:
            merge(state, limits, pair)
    return DONE
