"""Kernels of WordPiece training: merge the pair with the best score.

Merging (a, b) only changes the counts of pairs that contain a or b. Grouped pairs that lost
occurrences change group; those with a or b as the rarer part rise within their group, and groups
that share a or b rise within their level. N, the number of all tokens, falls with every merge, and
every `GAIN` with it, so a level's bound is recomputed when the level reaches the top of the queue.
The first level whose bound is exact has the best pair.

`learn_by_likelihood` evaluates every pair before every merge, because N changes all gains: use it
on small corpora.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.algorithms.kernels.wordpiece_groups import (
    UNGROUPED,
    UNLISTED,
    Groups,
    group_for,
    inserted,
    leave,
    level_for,
    place_group,
    promise,
    risen,
    sink,
)
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import F64, I64, I64s, Int
from bpeline.tokenizer_core.kernels.merging.merge_layout import symbol_at, weight_at
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    LATELY_MET_LEFT,
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
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    find_row,
    pair_key,
)

RATIO, GAIN = 0, 1
NEEDS_GROUPS = 4  # in addition to the results of `merge_step.learn`
_SLACK = 1 - 2.0**-6  # loosens a level's bound, so that few merges have to update it
_LOW = np.int64(0xFFFFFFFF)


class Scoring(NamedTuple):
    groups: Groups
    kind: Int
    counts: I64s
    total: Int


@kernel
def score_of(kind: I64, count: I64, product: F64, total: I64) -> F64:
    """Score of a pair from its count and the product of its parts' counts."""
    if kind == RATIO:
        return np.float64(count) / product
    return np.float64(count) * math.log(np.float64(count) * np.float64(total) / product)


@kernel
def most_for(kind: I64, count: I64, total: I64) -> F64:
    """Upper bound of the score of any pair with this count, now or later.

    A part occurs at least as often as the pair; n · log(N / n) decreases beyond n = N / e.
    """
    most = score_of(kind, count, np.float64(count) * np.float64(count), total)
    return max(most, np.float64(count)) if kind == GAIN else most


@entry_kernel
def count_tokens(state: MergeState, counts: I64s) -> None:
    """Add the number of occurrences of each token in the words to ``counts``."""
    position = np.int64(0)
    while position < state.cells.size:
        token = symbol_at(state.cells, state.high, position)
        if token < 0:
            position += 1
        else:
            counts[token] += weight_at(state.weights, position)
            position += np.int64(state.token_widths[token])


@kernel
def renew_group(scoring: Scoring, group: I64) -> None:
    """Update a group's position after its first pair or the counts of parts changed."""
    groups, kind, counts, total = scoring
    first = groups.firsts[group]
    if first == EMPTY:
        place_group(groups, group, np.inf)
        return
    product = np.float64(counts[groups.parts[group]]) * groups.pairs.weights[first]
    place_group(groups, group, product)
    level = np.int64(groups.levels[group])
    if groups.firsts[level] == group and product < groups.floors[level]:
        floor = product * _SLACK
        groups.floors[level] = floor
        promise(groups, level, score_of(kind, groups.counts[group], floor, total))


@kernel
def enter_and_renew(scoring: Scoring, group: I64, pair: I64, key: I64) -> None:
    groups = scoring.groups
    part = groups.parts[group]
    rarer = key & _LOW if key >> 32 == part else key >> 32
    groups.group_of[pair] = group
    rarity, first = np.float64(scoring.counts[rarer]), np.int64(groups.firsts[group])
    groups.firsts[group] = inserted(groups.pairs, first, pair, rarity, key)
    if groups.sharing[group] == UNLISTED:
        groups.sharing[group] = groups.first_sharing[part]
        groups.first_sharing[part] = group
    renew_group(scoring, group)


@kernel
def wait(state: MergeState, limits: Limits, scoring: Scoring, first: I64, stop: I64) -> None:
    """Put the pairs in rows ``first`` … ``stop - 1`` on the waiting lists."""
    groups = scoring.groups
    for pair in range(first, stop):
        count = state.pairs[pair, COUNT]
        groups.group_of[pair] = UNGROUPED
        if count >= limits.min_count:
            level = level_for(groups, count)
            groups.alike[pair] = groups.waiting[level]
            groups.waiting[level] = pair
            promise(groups, level, most_for(scoring.kind, count, scoring.total))


@kernel
def wait_with_new_pairs(state: MergeState, limits: Limits, scoring: Scoring) -> None:
    """Put the pairs found since the last call on the waiting lists."""
    sizes = scoring.groups.sizes
    wait(state, limits, scoring, sizes[2], state.sizes[PAIRS])
    sizes[2] = state.sizes[PAIRS]


@kernel
def call_waiting(state: MergeState, limits: Limits, scoring: Scoring, level: I64) -> None:
    """Move the waiting pairs of a level into groups, while there is room."""
    groups, counts = scoring.groups, scoring.counts
    while groups.waiting[level] != EMPTY and groups.sizes[0] + 2 <= groups.counts.size:
        pair = np.int64(groups.waiting[level])
        groups.waiting[level] = groups.alike[pair]
        count, key = state.pairs[pair, COUNT], state.pairs[pair, KEY]
        if count != groups.counts[level]:
            wait(state, limits, scoring, pair, pair + 1)
            continue
        left, right = key >> 32, key & _LOW
        shared, rarer = (left, right) if counts[left] > counts[right] else (right, left)
        groups.alike[pair] = groups.first_alike[rarer]
        groups.first_alike[rarer] = pair
        group = group_for(groups, count, shared)
        enter_and_renew(scoring, group, pair, key)


@kernel
def best_by_score(state: MergeState, limits: Limits, scoring: Scoring) -> I64:
    """The pair of the best score, or `EMPTY`, or −`NEEDS_GROUPS`."""
    groups, kind, _, total = scoring
    while groups.sizes[1] > 0:
        level = np.int64(groups.queue[0])
        group, count = np.int64(groups.firsts[level]), groups.counts[level]
        grouped_score, waiting_bound = -np.inf, -np.inf
        if group != EMPTY:
            grouped_score = score_of(kind, count, groups.groups.weights[group], total)
        if groups.waiting[level] != EMPTY:
            waiting_bound = most_for(kind, count, total)
        present = max(grouped_score, waiting_bound)
        if present < groups.promises[level]:
            groups.promises[level] = present
            groups.floors[level] = np.inf if group == EMPTY else groups.groups.weights[group]
            sink(groups, level)
        elif present == -np.inf:
            return EMPTY
        elif waiting_bound < grouped_score:
            return np.int64(groups.firsts[group])
        elif groups.sizes[0] + 2 > groups.counts.size:
            return -NEEDS_GROUPS
        else:
            call_waiting(state, limits, scoring, level)
    return EMPTY


@kernel
def move_to_its_group(state: MergeState, limits: Limits, scoring: Scoring, pair: I64) -> None:
    """Move a grouped pair that lost occurrences to the group of its new count."""
    groups = scoring.groups
    if pair == EMPTY or groups.group_of[pair] == UNGROUPED:
        return
    group = leave(groups, pair)
    renew_group(scoring, group)
    count = state.pairs[pair, COUNT]
    if count >= limits.min_count:
        group = group_for(groups, count, np.int64(groups.parts[group]))
        enter_and_renew(scoring, group, pair, state.pairs[pair, KEY])


@kernel
def raise_pairs(scoring: Scoring, part: I64) -> None:
    """Move up the grouped pairs whose rarer part is ``part``; unlink ungrouped ones."""
    groups, counts = scoring.groups, scoring.counts
    before = np.int64(EMPTY)
    pair = np.int64(groups.first_alike[part])
    while pair != EMPTY:
        following = np.int64(groups.alike[pair])
        group = np.int64(groups.group_of[pair])
        if group != UNGROUPED:
            first, key = np.int64(groups.firsts[group]), groups.pairs.keys[pair]
            rarity = np.float64(counts[part])
            groups.firsts[group] = risen(groups.pairs, first, pair, rarity, key)
            if groups.firsts[group] == pair:
                renew_group(scoring, group)
            before = pair
        elif before == EMPTY:
            groups.first_alike[part] = following
        else:
            groups.alike[before] = following
        pair = following


@kernel
def raise_groups(scoring: Scoring, part: I64) -> None:
    """Move up the groups that share ``part``; unlink empty ones."""
    groups = scoring.groups
    before = np.int64(EMPTY)
    group = np.int64(groups.first_sharing[part])
    while group != EMPTY:
        following = np.int64(groups.sharing[group])
        if groups.firsts[group] != EMPTY:
            renew_group(scoring, group)
            before = group
        else:
            groups.sharing[group] = UNLISTED
            if before == EMPTY:
                groups.first_sharing[part] = following
            else:
                groups.sharing[before] = following
        group = following


@entry_kernel
def learn_by_score(
    state: MergeState,
    limits: Limits,
    groups: Groups,
    kind: I64,
    counts: I64s,
    total: I64s,
    goal: I64,
) -> I64:
    """Merge the best pairs until there are ``goal`` tokens.

    Args:
        groups: of all pairs so far, or empty.
        kind: `RATIO` or `GAIN`.
        counts: int64 ``[≥ goal]``, occurrences of each token. total: int64 ``[1]``, their sum.

    Returns:
        As `merge_step.learn`, or `NEEDS_GROUPS`.
    """
    pairs, slots, sizes = state.pairs, state.slots, state.sizes
    scoring = Scoring(groups, kind, counts, total[0])
    wait_with_new_pairs(state, limits, scoring)
    while sizes[TOKENS] < goal:
        pair = best_by_score(state, limits, scoring)
        if pair == EMPTY:
            return EXHAUSTED
        if pair == -NEEDS_GROUPS:
            return NEEDS_GROUPS
        token, length = sizes[TOKENS], pairs[pair, LENGTH]
        missing = missing_room(state, length)
        if missing != DONE:
            return missing
        # Each new or changed pair may need a group and a level.
        if groups.sizes[0] + 8 * min(length, token + 1) + 4 > groups.counts.size:
            return NEEDS_GROUPS
        left, right = pairs[pair, KEY] >> 32, pairs[pair, KEY] & _LOW
        group = leave(groups, pair)
        occurrences = merged_count(state, merge_everywhere(state, limits, pair))
        counts[left] -= occurrences
        counts[right] -= occurrences
        counts[token] = occurrences
        total[0] -= occurrences
        scoring = Scoring(groups, kind, counts, total[0])
        groups.first_alike[token] = EMPTY
        groups.first_sharing[token] = EMPTY
        renew_group(scoring, group)
        wait_with_new_pairs(state, limits, scoring)
        for side in range(2):
            for index in range(sizes[LATELY_MET_LEFT + side]):
                neighbour = np.int64(state.touched[side, index])
                old = pair_key(right, neighbour) if side else pair_key(neighbour, left)
                changed = find_row(pairs, slots, state.hash_key, old)
                move_to_its_group(state, limits, scoring, changed)
        between = find_row(pairs, slots, state.hash_key, pair_key(right, left))
        move_to_its_group(state, limits, scoring, between)
        for part in (left, right):
            raise_pairs(scoring, part)
        for part in (left, right):
            raise_groups(scoring, part)
    return DONE


@kernel
def part_of_likelihood(count: I64) -> F64:
    """n · log n; the log-likelihood is its sum over all tokens, minus N · log N."""
    return np.float64(count) * math.log(np.float64(count)) if count > 0 else 0.0


@kernel
def gained_by(made: I64, left: I64, right: I64, total: I64, double: bool) -> F64:
    """Gain in log-likelihood when ``made`` occurrences of two tokens are merged."""
    gained = part_of_likelihood(made)
    gained += part_of_likelihood(left - (2 if double else 1) * made) - part_of_likelihood(left)
    if not double:
        gained += part_of_likelihood(right - made) - part_of_likelihood(right)
    return gained - (part_of_likelihood(total - made) - part_of_likelihood(total))


@kernel
def count_doubles(state: MergeState, doubles: I64s) -> None:
    """Count how often each token can be merged with itself: ``aaa`` gives one (a, a)."""
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
    """The pair of the greatest gain, ties as in `train_wordpiece`; or `EMPTY`."""
    pairs = state.pairs
    best = np.int64(EMPTY)
    most, most_often, least, smallest = -np.inf, np.int64(0), np.inf, np.int64(0)
    for pair in range(state.sizes[PAIRS]):
        count, key = pairs[pair, COUNT], pairs[pair, KEY]
        if count < limits.min_count:
            continue
        left, right = counts[key >> 32], counts[key & _LOW]
        double = key >> 32 == key & _LOW
        occurrences = doubles[key & _LOW] if double else count
        gained = gained_by(occurrences, left, right, total, double)
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

    Arguments and results as in `learn_by_score`; ``doubles`` is scratch of the size of ``counts``.
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
        occurrences = merged_count(state, merge_everywhere(state, limits, pair))
        counts[key >> 32] -= occurrences
        counts[key & _LOW] -= occurrences
        counts[token] = occurrences
        total[0] -= occurrences
    return DONE
