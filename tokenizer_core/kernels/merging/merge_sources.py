"""Merges chosen for the source with the worst compression.

All sources share cells and tokens. Each has its own pairs, occurrences and queue (`OWN`), on which
the kernels for a single corpus work. Sources of development text are only measured. The rules are
those of Foroutan, Meister et al. 2025 (arXiv 2508.04796).

Before that, merges may be chosen for all sources together. Then sources have no queues; one more
set of arrays holds pairs with the sum of their counts and no occurrences. Like counts, sums only
fall, so a sum is recomputed only when its pair is first in the queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import trailing_zeros
from bpeline.tokenizer_core.kernels.memory.records import with_arrays
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    F64s,
    Flags,
    I32s,
    I64Rows,
    I64s,
    U64Rows,
)
from bpeline.tokenizer_core.kernels.merging.merge_queue import next_pair, queue_pairs
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    LEFT,
    MERGED_COUNT,
    PAIRS,
    RIGHT,
    TOKENS,
    Limits,
    MergeState,
)
from bpeline.tokenizer_core.kernels.merging.merge_step import (
    DONE,
    EXHAUSTED,
    NEEDS_PAIRS,
    NEEDS_TOKENS,
    add_token,
    merge_everywhere,
    merged_count,
    missing_room,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    find_row,
    pair_key,
    slot_of,
)

# How the next pair is chosen: from a list, by the sum of all sources, by the worst source.
GIVEN, TOGETHER, LEAST_COMPRESSED = 0, 1, 2

OWN = ("arena", "pairs", "slots", "heap", "waiting", "following", "sizes")
_of_set = with_arrays(OWN)

NOBODY = EMPTY  # the source of merges that are listed or chosen by the sum
MASK = 64  # sources per number of ``languages_of_token``
_LOW = np.int64(0xFFFFFFFF)


class Sources(NamedTuple):
    """S sources: L to learn from and then, if there are any, L to measure on.

    Attributes:
        sets: int64 [S + 1, NUMBERS · len(OWN)] the arrays of each source, see `records.described`;
            the last row: the arrays of all sources together, in the stage `TOGETHER`.
        learning: L.
        tokens: int64 [S] present number of tokens in the words of each source.
        languages_of_token: uint64 [T, ⌈S / 64⌉] bit mask of the sources where each token occurred;
            other sources need no look-up.
        rows: int64 [S] the row of the pair to merge, or `EMPTY`.
        chosen_languages: int32 [T] the source for which each token was created, or `EMPTY`.
    """

    sets: I64Rows
    learning: int
    tokens: I64s
    languages_of_token: U64Rows
    rows: I64s
    chosen_languages: I32s


class Choice(NamedTuple):
    """The state of choosing the source with the worst compression.

    Attributes:
        measured: whether there are sources to measure on.
        before: int64 [L] number of tokens in the words of each source before any merge.
        ratios: float64 [L] divisors of the compression of each source.
        needs: float64 [L] how bad each source's compression is; higher is worse.
        left_out: bool [L] sources without pairs.
        recent: int64 [W] the window: a ring buffer of the last choices; may be empty.
        often: int64 [L] how often each source is in the window.
        turns: int64 [1] number of choices so far.
        most: largest share of the window that a source may have.
    """

    measured: bool
    before: I64s
    ratios: F64s
    needs: F64s
    left_out: Flags
    recent: I64s
    often: I64s
    turns: I64s
    most: float


@kernel
def address_of_set(sources: Sources, number: I64) -> I64:
    return np.int64(sources.sets.ctypes.data) + 8 * number * sources.sets.shape[1]


@kernel
def note_need(sources: Sources, choice: Choice, source: I64) -> None:
    """Update ``needs`` after the tokens of a source changed."""
    if source >= sources.learning:
        choice.needs[source - sources.learning] = np.float64(sources.tokens[source])
    elif not choice.measured:
        compression = choice.before[source] / sources.tokens[source]
        choice.needs[source] = -(compression / choice.ratios[source])


@kernel
def least_compressed(sources: Sources, choice: Choice) -> I64:
    """The source with the highest need, first of equal ones; `EMPTY` if none is left.

    Sources that used up their share of the window are skipped, unless all have.
    """
    worst, worst_free = np.int64(EMPTY), np.int64(EMPTY)
    needs, window = choice.needs, choice.recent.size
    for source in range(sources.learning):
        if choice.left_out[source]:
            continue
        if worst == EMPTY or needs[source] > needs[worst]:
            worst = np.int64(source)
        if (worst_free == EMPTY or needs[source] > needs[worst_free]) and (
            window == 0 or choice.often[source] / window <= choice.most
        ):
            worst_free = np.int64(source)
    return worst if worst_free == EMPTY else worst_free


@kernel
def remember(choice: Choice, source: I64) -> None:
    """Add a choice to the window."""
    window = choice.recent.size
    if window == 0:
        return
    turn = choice.turns[0]
    place = turn % window
    if turn >= window:
        choice.often[choice.recent[place]] -= 1
    choice.recent[place] = source
    choice.often[source] += 1
    choice.turns[0] = turn + 1


@kernel
def key_for_worst_off(
    state: MergeState, limits: Limits, sources: Sources, choice: Choice
) -> tuple[I64, I64]:
    """The worst source that has a pair left, or `EMPTY`; and the key of its best pair.

    A source without pairs is left out from now on; its choice counts in the window.
    """
    while True:
        source = least_compressed(sources, choice)
        if source == EMPTY:
            return source, np.int64(0)
        own = _of_set(state, address_of_set(sources, source))
        row = next_pair(own, limits)
        if row != EMPTY:
            return source, own.pairs[row, KEY]
        remember(choice, source)
        choice.left_out[source] = True


@kernel
def count_in_all(state: MergeState, sources: Sources, key: I64) -> I64:
    count = np.int64(0)
    left, right = key >> 32, key & _LOW
    for part in range(sources.languages_of_token.shape[1]):
        mask = sources.languages_of_token[left, part] & sources.languages_of_token[right, part]
        while mask != 0:
            source = MASK * part + trailing_zeros(mask)
            mask &= mask - np.uint64(1)
            if source >= sources.learning:
                break
            own = _of_set(state, address_of_set(sources, source))
            row = find_row(own.pairs, own.slots, state.hash_key, np.uint64(key))
            if row != EMPTY:
                count += own.pairs[row, COUNT]
    return count


@kernel
def row_of_all(state: MergeState, limits: Limits, sources: Sources) -> I64:
    together = _of_set(state, address_of_set(sources, sources.rows.size))
    while True:
        row = next_pair(together, limits)
        if row == EMPTY:
            return row
        count = count_in_all(state, sources, together.pairs[row, KEY])
        if count == together.pairs[row, COUNT]:
            return row
        together.pairs[row, COUNT] = count


@kernel
def find_in_all(state: MergeState, sources: Sources, key: I64, joins: bool) -> I64:
    """Write the row of a pair in each source to ``rows``.

    Returns the set whose arrays must grow first, or `EMPTY`; ``joins`` checks the last set too.
    """
    left, right = key >> 32, key & _LOW
    sources.rows[:] = EMPTY
    new_pairs = np.int64(0)
    for part in range(sources.languages_of_token.shape[1]):
        mask = sources.languages_of_token[left, part] & sources.languages_of_token[right, part]
        while mask != 0:
            source = MASK * part + trailing_zeros(mask)
            mask &= mask - np.uint64(1)
            own = _of_set(state, address_of_set(sources, source))
            row = find_row(own.pairs, own.slots, state.hash_key, np.uint64(key))
            if row == EMPTY or own.pairs[row, COUNT] == 0:
                continue
            own.sizes[TOKENS] = state.sizes[TOKENS]
            length = own.pairs[row, LENGTH]
            if missing_room(own, length) != DONE:
                return source
            sources.rows[source] = row
            if source < sources.learning:
                new_pairs += 2 * min(length, state.sizes[TOKENS] + 1)
    if joins:
        together = _of_set(state, address_of_set(sources, sources.rows.size))
        if together.sizes[PAIRS] + new_pairs > together.pairs.shape[0]:
            return np.int64(sources.rows.size)
    return np.int64(EMPTY)


@kernel
def add_up(together: MergeState, own: MergeState, first: I64) -> None:
    """Add a source's counts from row ``first`` on to those of all sources together."""
    for row in range(first, own.sizes[PAIRS]):
        key = own.pairs[row, KEY]
        slot = slot_of(together.pairs, together.slots, together.hash_key, np.uint64(key))
        joined = np.int64(together.slots[slot])
        if joined == EMPTY:
            joined = together.sizes[PAIRS]
            together.sizes[PAIRS] = joined + 1
            together.slots[slot] = joined
            together.pairs[joined, KEY] = key
            together.pairs[joined, COUNT] = 0
            together.pairs[joined, LENGTH] = 0
        together.pairs[joined, COUNT] += own.pairs[row, COUNT]


@entry_kernel
def enter_stage(
    state: MergeState, limits: Limits, sources: Sources, choice: Choice, stage: I64
) -> None:
    """Queue all pairs for a stage; all queues are empty before.

    For `TOGETHER` the last set must be empty, with room for the pairs of all sources.
    """
    together = _of_set(state, address_of_set(sources, sources.rows.size))
    for source in range(sources.learning):
        own = _of_set(state, address_of_set(sources, source))
        if stage == TOGETHER:
            add_up(together, own, np.int64(0))
        else:
            queue_pairs(own, limits, np.int64(0), own.sizes[PAIRS])
    queue_pairs(together, limits, np.int64(0), together.sizes[PAIRS])
    for source in range(sources.rows.size):
        note_need(sources, choice, source)


@kernel
def holds_alone(sources: Sources) -> bool:
    present = np.int64(0)
    for source in range(sources.learning):
        present += np.int64(sources.rows[source] != EMPTY)
    return present == 1


@kernel
def merge_in_all(
    state: MergeState, limits: Limits, sources: Sources, choice: Choice, key: I64, stage: I64
) -> None:
    """Merge a pair in all sources that have it according to ``rows``.

    Pairs that are too rare or too long in one source are still entered, because another may choose
    them, unless no other source has the new token.
    """
    left, right = key >> 32, key & _LOW
    token = add_token(state, left, right, np.int64(0))
    last = np.int64(sources.rows.size)
    together = _of_set(state, address_of_set(sources, last))
    first_joined = np.int64(0)
    if stage == TOGETHER:
        first_joined = together.sizes[PAIRS]
    strict = Limits(
        limits.order,
        limits.min_count,
        limits.max_length,
        limits.min_count,
        limits.max_length,
        limits.base,
    )
    alone = stage != GIVEN and holds_alone(sources)
    count_of_all = np.int64(0)
    for source in range(last):
        row = sources.rows[source]
        if row == EMPTY:
            continue
        own = _of_set(state, address_of_set(sources, source))
        count = own.pairs[row, COUNT]
        first_new = own.sizes[PAIRS]
        is_learning = source < sources.learning
        merged = merge_everywhere(own, strict if alone and is_learning else limits, row)
        removed = count
        if left == right:  # a run of three holds the pair twice, but only one is merged
            removed = merged_count(own, merged)
        sources.tokens[source] -= removed
        note_need(sources, choice, source)
        sources.languages_of_token[token, source // MASK] |= np.uint64(1) << np.uint64(
            source % MASK
        )
        if is_learning:
            count_of_all += count
            if stage == TOGETHER:
                add_up(together, own, first_new)
            elif stage == LEAST_COMPRESSED:
                queue_pairs(own, limits, first_new, own.sizes[PAIRS])
    if stage == TOGETHER:
        queue_pairs(together, limits, first_joined, together.sizes[PAIRS])
    state.learned[token, MERGED_COUNT] = count_of_all


@entry_kernel
def merge_for_sources(
    state: MergeState,
    limits: Limits,
    sources: Sources,
    choice: Choice,
    given: I64Rows,
    stage: I64,
    goal: I64,
) -> tuple[I64, I64]:
    """Merge until there are ``goal`` tokens.

    Returns the result of `merge_step.learn`, and with `NEEDS_PAIRS` the set that must grow.

    Args:
        state: the shared arrays; its own arrays of the names in `OWN` hold no pair.
        given: [n, 2 or more], row k is the pair of merge k. Except in the stage `GIVEN`, sources
            are still chosen, as when these merges were learned.
        stage: `GIVEN`, `TOGETHER` or `LEAST_COMPRESSED`.
    """
    while state.sizes[TOKENS] < goal:
        token = state.sizes[TOKENS]
        rank = token - limits.base
        if token >= state.token_lengths.size:
            return np.int64(NEEDS_TOKENS), np.int64(EMPTY)
        source, key = np.int64(EMPTY), np.int64(EMPTY)
        if stage == TOGETHER:
            row = row_of_all(state, limits, sources)
            if row != EMPTY:
                key = _of_set(state, address_of_set(sources, sources.rows.size)).pairs[row, KEY]
        elif stage == LEAST_COMPRESSED:
            source, key_of_source = key_for_worst_off(state, limits, sources, choice)
            if source != EMPTY:
                key = key_of_source
        if rank < given.shape[0]:
            key = np.int64(pair_key(given[rank, LEFT], given[rank, RIGHT]))
        if key == EMPTY:
            return np.int64(EXHAUSTED), np.int64(EMPTY)
        full_set = find_in_all(state, sources, key, stage == TOGETHER)
        if full_set != EMPTY:
            return np.int64(NEEDS_PAIRS), full_set
        if source != EMPTY:
            remember(choice, source)
        merge_in_all(state, limits, sources, choice, key, stage)
        sources.chosen_languages[token] = source
    return np.int64(DONE), np.int64(EMPTY)
