"""The merge loop: merges pairs up to a goal, or until an array must grow."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import prefetch
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, Int, U8s
from bpeline.tokenizer_core.kernels.merging import merge_state as field
from bpeline.tokenizer_core.kernels.merging.merge_layout import (
    put_symbol,
    run_of,
    symbol_at,
    weight_at,
)
from bpeline.tokenizer_core.kernels.merging.merge_queue import (
    GREATEST_BYTES,
    HEAP_PAIR,
    drop_first,
    next_pair,
    queue_pairs,
    tie_of_bytes,
)
from bpeline.tokenizer_core.kernels.merging.merge_state import Limits, MergeState
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COLUMNS,
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    START,
    find_row,
    first_slot,
    pair_key,
    slot_of,
)

# Results of `learn`, `learn_allowed` and `apply`.
DONE, EXHAUSTED, NEEDS_TOKENS, NEEDS_PAIRS, NEEDS_VERDICTS = 0, 1, 2, 3, 4

# Verdicts on pairs for `learn_allowed`.
UNJUDGED, ALLOWED, REFUSED = 0, 1, 2

AHEAD = 16  # occurrences between prefetching a symbol and reading it
BLOCK = 512  # occurrences found before the first of them is rewritten: they stay in the cache

_LOW = np.int64(0xFFFFFFFF)


@kernel
def ask_for(state: MergeState, place: I64) -> None:
    position = np.int64(state.arena[np.uint64(place)])
    prefetch(np.int64(state.cells.ctypes.data) + position * 2)
    if state.high.size > 0:
        prefetch(np.int64(state.high.ctypes.data) + position)


@kernel
def ask_for_some(state: MergeState, start: I64, length: I64) -> None:
    """Prefetch the cells of up to `AHEAD` occurrences."""
    for index in range(min(AHEAD, length)):
        ask_for(state, start + index)


@kernel
def find_occurrences(state: MergeState, pair: I64, begin: I64, end: I64, found: Int) -> I64:
    """Write the places ``begin`` … ``end - 1`` that are not stale to ``noted``.

    Columns from ``found`` on receive positions and neighbours; returns the next free column. No
    branch depends on a load, so many loads overlap. Occurrences may overlap in a run of one token.
    """
    cells, high, arena, noted = state.cells, state.high, state.arena, state.noted
    left, right = state.pairs[pair, KEY] >> 32, state.pairs[pair, KEY] & _LOW
    left_width, right_width = state.token_widths[left], state.token_widths[right]
    start = state.pairs[pair, START]
    last = start + state.pairs[pair, LENGTH] - 1
    for index in range(begin, end):
        ask_for(state, min(start + index + AHEAD, last))
        position = np.int64(arena[np.uint64(start + index)])
        middle = position + left_width
        column = np.uint64(found)
        noted[field.POSITION, column] = position
        first, second = symbol_at(cells, high, position), symbol_at(cells, high, middle)
        noted[field.BEFORE, column] = symbol_at(cells, high, position - 1)
        noted[field.AFTER, column] = symbol_at(cells, high, middle + right_width)
        found += np.int64((first == left) & (second == right))
    return found


@kernel
def note_neighbour(state: MergeState, side: I64, neighbour: I64, weight: I64) -> None:
    """Count an occurrence of the new token next to ``neighbour``, maybe a separator."""
    changes, sizes = state.changes, state.sizes
    its_side, row, met_there = (
        np.uint64(side),
        np.uint64(neighbour + 1),
        np.uint64(field.MET_LEFT + side),
    )
    met = sizes[met_there]
    occurrences = changes[its_side, row, field.OCCURRENCES]
    state.touched[its_side, np.uint64(met)] = neighbour
    sizes[met_there] = met + np.int64(occurrences == 0)
    changes[its_side, row, field.GAINED] += weight
    changes[its_side, row, field.OCCURRENCES] = occurrences + 1


@kernel
def replace_occurrences(
    state: MergeState, pair: I64, token: I64, first: Int, after_last: Int
) -> tuple[I64, I64]:
    """Write ``token`` over the occurrences ``first`` … ``after_last - 1`` of a pair.

    Leaves positions and neighbours in ``noted`` and the gains of new pairs in ``changes``. Returns
    the end of the used columns of ``noted``, and what the pair (right, left) loses between adjacent
    occurrences, where (token, token) arises.
    """
    cells, high, noted, weights = state.cells, state.high, state.noted, state.weights
    # With literals, Numba would compile `note_neighbour` once per side.
    sides = np.int64(field.LEFT_SIDE), np.int64(field.RIGHT_SIDE)
    left, right = state.pairs[pair, KEY] >> 32, state.pairs[pair, KEY] & _LOW
    left_width, right_width = state.token_widths[left], state.token_widths[right]
    ask_for_some(state, state.pairs[pair, START] + first, after_last - first)
    merged, end, lost_between = np.int64(first), np.int64(0), np.int64(0)
    weight, run_end = np.int64(0), np.int64(0)  # of the run of the last occurrence
    for begin in range(first, after_last, BLOCK):
        noted_end = find_occurrences(state, pair, begin, min(begin + BLOCK, after_last), merged)
        for index in range(merged, noted_end):
            column = np.uint64(index)
            position = np.int64(noted[field.POSITION, column])
            if position < end:  # in a run of one token: its start was just merged
                continue
            before, after = (
                np.int64(noted[field.BEFORE, column]),
                np.int64(noted[field.AFTER, column]),
            )
            if position >= run_end:  # rare: most words are in a few long runs
                run = run_of(weights, position)
                weight = weights.counts[np.uint64(run)]
                run_end = np.int64(weights.starts[np.uint64(run + 1)])
            if position == end:
                before = np.int64(token)
            middle = position + left_width
            end = middle + right_width
            put_symbol(cells, high, middle - 1, np.int64(field.INSIDE))
            put_symbol(cells, high, middle, np.int64(field.INSIDE))
            put_symbol(cells, high, position, token)
            put_symbol(cells, high, end - 1, token)
            # The next occurrence is adjacent.
            if after == left and symbol_at(cells, high, end + left_width) == right:
                after = np.int64(field.SEPARATOR)  # no pair with what follows
                lost_between += weight
            else:
                note_neighbour(state, sides[1], after, weight)
            note_neighbour(state, sides[0], before, weight)
            column = np.uint64(merged)
            noted[field.POSITION, column] = position
            noted[field.BEFORE, column] = before
            noted[field.AFTER, column] = after
            merged += 1
    return merged, lost_between


@kernel
def lose(state: MergeState, row: I64, count: I64) -> None:
    """Lower the count of a pair, if it is in the table."""
    if row != EMPTY:
        state.pairs[row, COUNT] -= count


@kernel
def renew_pairs(state: MergeState, limits: Limits, side: I64, pair: I64, token: I64) -> None:
    """Lower the counts of old pairs on one side and enter the new pairs.

    Leaves in ``changes`` where the occurrences of each new pair go: `NOWHERE` if it is not entered.
    """
    changes, pairs, slots, sizes = state.changes, state.pairs, state.slots, state.sizes
    left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & _LOW
    its_side = np.uint64(side)
    met = sizes[field.MET_LEFT + side]
    # Three passes: prefetch all slots, then all rows, then update.
    for index in range(met):
        neighbour = np.int64(state.touched[its_side, np.uint64(index)])
        old = pair_key(neighbour, left) if side == field.LEFT_SIDE else pair_key(right, neighbour)
        new = pair_key(neighbour, token) if side == field.LEFT_SIDE else pair_key(token, neighbour)
        prefetch(np.int64(slots.ctypes.data) + first_slot(slots, old, state.hash_key) * 4)
        prefetch(np.int64(slots.ctypes.data) + first_slot(slots, new, state.hash_key) * 4)
    for index in range(met):
        neighbour = np.int64(state.touched[its_side, np.uint64(index)])
        old = pair_key(neighbour, left) if side == field.LEFT_SIDE else pair_key(right, neighbour)
        # `EMPTY` prefetches an unrelated address, which is harmless.
        row = slots[np.uint64(first_slot(slots, old, state.hash_key))]
        prefetch(np.int64(pairs.ctypes.data) + np.int64(row) * (8 * COLUMNS))
    for index in range(met):
        neighbour = np.int64(state.touched[its_side, np.uint64(index)])
        change = np.uint64(neighbour + 1)
        gained = changes[its_side, change, field.GAINED]
        # There was no old pair between two new tokens.
        if side == field.RIGHT_SIDE or neighbour != token:
            old = (
                pair_key(neighbour, left) if side == field.LEFT_SIDE else pair_key(right, neighbour)
            )
            lose(state, find_row(pairs, slots, state.hash_key, old), gained)
        occurrences = changes[its_side, change, field.OCCURRENCES]
        length = state.token_lengths[np.uint64(neighbour)] + state.token_lengths[np.uint64(token)]
        place = sizes[field.NOWHERE]
        if gained >= limits.kept_count and length <= limits.kept_length:
            new = (
                pair_key(neighbour, token)
                if side == field.LEFT_SIDE
                else pair_key(token, neighbour)
            )
            row = sizes[field.PAIRS]
            # Use the segment of the merged pair while it has room, else the end of the arena.
            space = (
                field.FREE
                if occurrences <= sizes[field.FREE_END] - sizes[field.FREE]
                else field.ARENA
            )
            place = sizes[space]
            sizes[space] = place + occurrences
            its_row = np.uint64(row)
            pairs[its_row, KEY] = new
            pairs[its_row, COUNT] = gained
            pairs[its_row, START] = place
            pairs[its_row, LENGTH] = occurrences
            slots[np.uint64(slot_of(pairs, slots, state.hash_key, new))] = row
            sizes[field.PAIRS] = row + 1
        changes[its_side, change, field.PLACE] = place


@kernel
def place_occurrences(state: MergeState, side: I64, first: Int, after_last: I64) -> None:
    """Write positions in ``noted`` to the segments of new pairs; clear ``changes``.

    No branch depends on a load: unwanted positions are written too, all to one place.
    """
    arena, changes, sizes = state.arena, state.changes, state.sizes
    its_side, nowhere = np.uint64(side), sizes[field.NOWHERE]
    changes[its_side, 0, field.PLACE] = nowhere  # of separators
    for index in range(first, after_last):
        column = np.uint64(index)
        neighbour = np.int64(state.noted[its_side, column])
        place = changes[its_side, np.uint64(neighbour + 1), field.PLACE]
        position = np.int64(state.noted[field.POSITION, column])
        if side == field.LEFT_SIDE:
            position -= state.token_widths[np.uint64(max(neighbour, np.int64(0)))]
        arena[np.uint64(place)] = position
        changes[its_side, np.uint64(neighbour + 1), field.PLACE] = place + np.int64(
            place != nowhere
        )
    changes[its_side, 0, field.OCCURRENCES] = 1
    for index in range(sizes[field.MET_LEFT + side]):
        row = np.uint64(np.int64(state.touched[its_side, np.uint64(index)]) + 1)
        changes[its_side, row, field.GAINED] = 0
        changes[its_side, row, field.PLACE] = 0
    sizes[field.LATELY_MET_LEFT + side] = sizes[field.MET_LEFT + side]
    sizes[field.MET_LEFT + side] = 0


@kernel
def add_token(state: MergeState, left: I64, right: I64, count: I64) -> I64:
    token = state.sizes[field.TOKENS]
    state.sizes[field.TOKENS] = token + 1
    state.learned[token, field.LEFT] = left
    state.learned[token, field.RIGHT] = right
    state.learned[token, field.MERGED_COUNT] = count
    state.token_lengths[token] = state.token_lengths[left] + state.token_lengths[right]
    state.token_widths[token] = state.token_widths[left] + state.token_widths[right]
    return token


@kernel
def enter_merged(
    state: MergeState, limits: Limits, pair: I64, token: I64, lost_between: I64, place: I64
) -> None:
    """Update the counts of pairs after all occurrences of ``pair`` were replaced.

    ``lost_between`` is the loss of the pair (right, left); ``place`` is a position of the token in
    the text, or 0 if it does not occur.
    """
    pairs, key = state.pairs, state.pairs[pair, KEY]
    if lost_between > 0:  # rare, and the row is likely not in the cache
        mirrored = pair_key(key & _LOW, key >> 32)
        lose(state, find_row(pairs, state.slots, state.hash_key, mirrored), lost_between)
    state.sizes[field.FREE] = pairs[pair, START]
    state.sizes[field.FREE_END] = pairs[pair, START] + pairs[pair, LENGTH]
    if limits.order == GREATEST_BYTES and place > 0:
        state.token_starts[token] = place
        state.token_ties[token] = tie_of_bytes(
            state.text, place * state.width, state.token_lengths[token] * state.width
        )
    for side in range(2):
        renew_pairs(state, limits, side, pair, token)
    pairs[pair, COUNT] = 0
    pairs[pair, LENGTH] = 0


@kernel
def merge_everywhere(state: MergeState, limits: Limits, pair: I64) -> I64:
    """Merge all occurrences of a pair; the arrays have room (see `missing_room`).

    All counts are exact afterwards. New pairs are the last rows and not queued yet. Returns the
    number of merged occurrences, whose positions are the first in ``noted``.
    """
    pairs = state.pairs
    key = pairs[pair, KEY]
    token = add_token(state, key >> 32, key & _LOW, pairs[pair, COUNT])
    merged, lost_between = replace_occurrences(state, pair, token, 0, pairs[pair, LENGTH])
    place = np.int64(state.noted[field.POSITION, 0]) if merged > 0 else np.int64(0)
    enter_merged(state, limits, pair, token, lost_between, place)
    for side in range(2):
        place_occurrences(state, side, 0, merged)
    return merged


@kernel
def merged_count(state: MergeState, merged: I64) -> I64:
    """The count of the first ``merged`` occurrences in ``noted``, weighted by words."""
    count = np.int64(0)
    for index in range(merged):
        count += weight_at(state.weights, np.int64(state.noted[field.POSITION, index]))
    return count


@kernel
def merge(state: MergeState, limits: Limits, pair: I64) -> None:
    first_new = state.sizes[field.PAIRS]
    merge_everywhere(state, limits, pair)
    queue_pairs(state, limits, first_new, state.sizes[field.PAIRS])


@kernel
def missing_room(state: MergeState, length: I64) -> I64:
    """`DONE`, or which arrays must grow before a pair can be merged."""
    tokens = state.sizes[field.TOKENS]
    if tokens >= state.token_lengths.size:
        return NEEDS_TOKENS
    if state.sizes[field.PAIRS] + 2 * min(length, tokens + 1) > state.pairs.shape[0]:
        return NEEDS_PAIRS
    return DONE


@kernel
def take_first(state: MergeState, limits: Limits) -> I64:
    """Remove the first pair of the queue; returns the likely next one, or `EMPTY`.

    Prefetches its positions and the rows of the two after it, to load during the merge.
    """
    drop_first(state, limits.order)
    heap, queued = state.heap, state.sizes[field.QUEUED]
    if queued == 0:
        return np.int64(EMPTY)
    for heap_row in range(1, min(queued, 3)):
        row = heap[np.uint64(heap_row), HEAP_PAIR]
        prefetch(np.int64(state.pairs.ctypes.data) + row * (8 * COLUMNS))
    likely_next = heap[0, HEAP_PAIR]
    prefetch(np.int64(state.arena.ctypes.data) + state.pairs[likely_next, START] * 4)
    return likely_next


@kernel
def ask_for_coming(state: MergeState, coming: I64) -> None:
    if coming != EMPTY:
        ask_for_some(state, state.pairs[coming, START], state.pairs[coming, LENGTH])


@kernel
def merge_first(state: MergeState, limits: Limits, pair: I64) -> None:
    likely_next = take_first(state, limits)
    merge(state, limits, pair)
    ask_for_coming(state, likely_next)


@entry_kernel
def learn(state: MergeState, limits: Limits, goal: I64) -> I64:
    """Merge the best pairs until there are ``goal`` tokens.

    Returns `DONE`, `EXHAUSTED` if no pair may be merged, or which arrays must grow.
    """
    while state.sizes[field.TOKENS] < goal:
        pair = next_pair(state, limits)
        if pair == EMPTY:
            return EXHAUSTED
        missing = missing_room(state, state.pairs[pair, LENGTH])
        if missing != DONE:
            return missing
        merge_first(state, limits, pair)
    return DONE


@entry_kernel
def learn_allowed(state: MergeState, limits: Limits, verdicts: U8s, goal: I64) -> I64:
    """Like `learn`, but refused pairs are removed from the queue instead of merged.

    ``verdicts`` [P] is `ALLOWED`, `REFUSED` or `UNJUDGED` for each pair, read only when the pair is
    first in the queue. Returns `NEEDS_VERDICTS` when the first pair is unjudged.
    """
    while state.sizes[field.TOKENS] < goal:
        pair = next_pair(state, limits)
        if pair == EMPTY:
            return EXHAUSTED
        if verdicts[pair] == UNJUDGED:
            return NEEDS_VERDICTS
        if verdicts[pair] == REFUSED:
            drop_first(state, limits.order)
            continue
        missing = missing_room(state, state.pairs[pair, LENGTH])
        if missing != DONE:
            return missing
        merge_first(state, limits, pair)
    return DONE


@entry_kernel
def apply(state: MergeState, limits: Limits, given: I64Rows, goal: I64) -> I64:
    """Apply given merges up to ``goal`` tokens; returns what `learn` returns.

    Row k of ``given`` [n, 2] creates token base + k, even if its pair does not occur.
    """
    while state.sizes[field.TOKENS] < goal:
        rank = state.sizes[field.TOKENS] - limits.base
        left, right = given[rank, 0], given[rank, 1]
        pair = find_row(state.pairs, state.slots, state.hash_key, pair_key(left, right))
        missing = missing_room(state, state.pairs[pair, LENGTH] if pair != EMPTY else 0)
        if missing != DONE:
            return missing
        if pair == EMPTY:
            add_token(state, left, right, np.int64(0))
        else:
            merge(state, limits, pair)
    return DONE
