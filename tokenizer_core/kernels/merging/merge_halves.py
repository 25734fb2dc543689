"""Merging in two threads: each replaces frequent pairs in half of the words that hold them.

One thread leads: it chooses the pairs, and all that belongs to none of the words is its own. The
other helps as long as there is work for it. What it finds out about neighbours it notes apart, and
the leader adds that to its own, in the order of one thread: rows, places and merges are the same.

Nobody depends on a helper: what it has not begun the leader does, who waits only for what is under
way. Both wait busily, since a merge takes microseconds; the helper leaves when it waits in vain.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.atomics import (
    let_others_run,
    load_acquire,
    store_release,
    take_if_zero,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s
from bpeline.tokenizer_core.kernels.merging.merge_layout import symbol_at
from bpeline.tokenizer_core.kernels.merging.merge_queue import next_pair, queue_pairs
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    GAINED,
    MET_LEFT,
    NOWHERE,
    OCCURRENCES,
    PAIRS,
    PLACE,
    POSITION,
    SEPARATOR,
    TOKENS,
    Limits,
    MergeState,
)
from bpeline.tokenizer_core.kernels.merging.merge_step import (
    DONE,
    EXHAUSTED,
    add_token,
    ask_for_coming,
    enter_merged,
    merge,
    missing_room,
    place_occurrences,
    replace_occurrences,
    take_first,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    START,
)

# Entries of ``task``; those that one thread waits for have a cache line each.
TAKEN = 0  # 0: there is work that nobody has begun
ENDED = 8  # 1: the helper has done it
PRESENT = 16  # 1: there is a helper
OVER = 24  # 1: there will be no more work
PART, PAIR, TOKEN, FIRST, AFTER_LAST, LOST = 32, 33, 34, 35, 36, 37  # what is to be done
SHARED, HELPED = 40, 41  # how many pairs were frequent enough; how many parts the helper did
TASK = 48

_REPLACE, _PLACE = 0, 1  # parts of a merge

_LOOKS = 1 << 16  # before another thread may have the processor; some 50 µs
_NEAR = 256  # cells in which an end of a word is looked for
_LOW = np.int64(0xFFFFFFFF)


@kernel
def address_of(task: I64s, entry: I64) -> I64:
    return np.int64(task.ctypes.data) + 8 * entry


@kernel
def do_part(half: MergeState, task: I64s) -> None:
    """Do the part of a merge that was offered."""
    if task[PART] == _REPLACE:
        task[AFTER_LAST], task[LOST] = replace_occurrences(
            half, task[PAIR], task[TOKEN], task[FIRST], task[AFTER_LAST]
        )
    else:
        for side in range(2):
            place_occurrences(half, side, task[FIRST], task[AFTER_LAST])


@kernel
def offer(task: I64s, part: I64) -> None:
    task[PART] = part
    store_release(address_of(task, ENDED), np.uint64(0))
    store_release(address_of(task, TAKEN), np.uint64(0))


@kernel
def see_to_end(half: MergeState, task: I64s) -> None:
    """Do what was offered unless the helper has begun it; wait for that."""
    if take_if_zero(address_of(task, TAKEN), np.uint64(1)):
        do_part(half, task)
    else:
        looks = 0
        while load_acquire(address_of(task, ENDED)) == 0:
            looks += 1
            if looks % _LOOKS == 0:
                let_others_run()


@entry_kernel
def help_merging(half: MergeState, task: I64s, patience: I64) -> None:
    """Do what is offered, until all is over or nothing was for a while.

    Args:
        half: the arrays of the leader, but ``changes``, ``touched`` and ``sizes`` of its own.
        task: int64 [`TASK`]; where ``TAKEN`` is 1.
        patience: how often to look in vain.
    """
    store_release(address_of(task, PRESENT), np.uint64(1))
    waited = 0
    while waited < patience and load_acquire(address_of(task, OVER)) == 0:
        waited += 1
        if waited % _LOOKS == 0:
            let_others_run()
        if load_acquire(address_of(task, TAKEN)) == 0:
            if take_if_zero(address_of(task, TAKEN), np.uint64(1)):
                do_part(half, task)
                task[HELPED] += 1
                store_release(address_of(task, ENDED), np.uint64(1))
            waited = 0
    store_release(address_of(task, PRESENT), np.uint64(0))


@kernel
def word_border(state: MergeState, pair: I64) -> I64:
    """Which occurrence, near the middle of all, is in another word than the one before it.

    0 where none is found soon.
    """
    start, length = state.pairs[pair, START], state.pairs[pair, LENGTH]
    index = length >> 1
    position = np.int64(state.arena[start + index - 1])
    for _ in range(_NEAR):
        position += 1
        if symbol_at(state.cells, state.high, position) == SEPARATOR:
            while index < length and state.arena[start + index] < position:
                index += 1
            return index if index < length else np.int64(0)
    return np.int64(0)


@kernel
def add_changes(state: MergeState, half: MergeState, side: I64) -> None:
    """Add what the helper noted of neighbours on one side.

    The helper keeps how many occurrences of each come before its own.
    """
    for index in range(half.sizes[MET_LEFT + side]):
        neighbour = np.int64(half.touched[side, index])
        mine, other = state.changes[side, neighbour + 1], half.changes[side, neighbour + 1]
        before = mine[OCCURRENCES]
        if before == 0:
            met = state.sizes[MET_LEFT + side]
            state.touched[side, met] = neighbour
            state.sizes[MET_LEFT + side] = met + 1
        mine[GAINED] += other[GAINED]
        mine[OCCURRENCES] = before + other[OCCURRENCES]
        other[OCCURRENCES] = before


@kernel
def tell_places(state: MergeState, half: MergeState, side: I64) -> None:
    """Say where the helper's occurrences go."""
    nowhere = half.sizes[NOWHERE]
    for index in range(half.sizes[MET_LEFT + side]):
        neighbour = np.int64(half.touched[side, index])
        place = state.changes[side, neighbour + 1, PLACE]
        before = half.changes[side, neighbour + 1, OCCURRENCES]
        wanted = place != state.sizes[NOWHERE]
        half.changes[side, neighbour + 1, PLACE] = place + before if wanted else nowhere


@kernel
def merge_in_halves(
    state: MergeState, limits: Limits, half: MergeState, task: I64s, pair: I64, border: I64
) -> None:
    """`merge_step.merge`, the occurrences from ``border`` on being left to the helper."""
    pairs, first_new = state.pairs, state.sizes[PAIRS]
    key = pairs[pair, KEY]
    token = add_token(state, key >> 32, key & _LOW, pairs[pair, COUNT])
    task[PAIR], task[TOKEN] = pair, token
    task[FIRST], task[AFTER_LAST] = border, pairs[pair, LENGTH]
    offer(task, np.int64(_REPLACE))
    merged, lost_between = replace_occurrences(state, pair, token, 0, border)
    see_to_end(half, task)
    for side in range(2):
        add_changes(state, half, side)
    place = np.int64(0)
    if merged > 0:
        place = np.int64(state.noted[POSITION, 0])
    elif task[AFTER_LAST] > border:
        place = np.int64(state.noted[POSITION, border])
    enter_merged(state, limits, pair, token, lost_between + task[LOST], place)
    for side in range(2):
        tell_places(state, half, side)
    offer(task, np.int64(_PLACE))
    for side in range(2):
        place_occurrences(state, side, 0, merged)
    see_to_end(half, task)
    queue_pairs(state, limits, first_new, state.sizes[PAIRS])


@entry_kernel
def learn_in_halves(
    state: MergeState, limits: Limits, half: MergeState, task: I64s, least: I64, goal: I64
) -> I64:
    """As `merge_step.learn`, while another thread is in `help_merging`, or none.

    Args:
        half, task: as the helper was given them.
        least: of so many occurrences on a pair is shared; 2 or more.
    """
    while state.sizes[TOKENS] < goal:
        pair = next_pair(state, limits)
        if pair == EMPTY:
            return EXHAUSTED
        length = state.pairs[pair, LENGTH]
        missing = missing_room(state, length)
        if missing != DONE:
            return missing
        border = np.int64(0)
        if length >= least:
            task[SHARED] += 1
            if load_acquire(address_of(task, PRESENT)) != 0:
                border = word_border(state, pair)
        coming = take_first(state, limits)
        if border > 0:
            merge_in_halves(state, limits, half, task, pair, border)
        else:
            merge(state, limits, pair)
        ask_for_coming(state, coming)
    return DONE
