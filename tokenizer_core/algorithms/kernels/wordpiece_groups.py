"""Pairs in an order that holds however often each part occurs by now.

The scores of `merge_score` weigh a pair by its count n and by the product of the counts of its two
parts, which is small where the pair is remarkable. So, of pairs with one count, the smallest
product goes first whatever the score and however many tokens there are in all: pairs are ordered
within the *level* of their count for good, and levels compete with their best pairs.

Within a level, pairs that share a part, the more frequent of their two, are a *group*: there the
pair whose other part is rarer goes first, however often the shared part occurs. When the count of a
part changes, the pairs are looked at in which it is the rarer one (few parts are more frequent than
a frequent part, and a rare part has few neighbours), and the groups that share it (as many as its
pairs have different counts); not all the pairs that hold it.

Groups and levels are pairing heaps (Fredman, Sedgewick, Sleator and Tarjan, 1986). Levels compete
in a binary heap of promises that may be too good, never too bad.

Most pairs never come near their turn. They wait in a chain of their level, which promises the best
that any pair of that count could score; until that reaches the top nobody looks at them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.types import F64, I64, F64s, I32Rows, I32s, I64s, Int
from bpeline.tokenizer_core.kernels.tables.hashing import HashKey, mix, next_slot, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import EMPTY

BELOW, NEXT, PREVIOUS = 0, 1, 2  # columns of ``links``
UNGROUPED = -1
NOBODY = -1  # in the place of the shared part: not a group but a level
UNLISTED = -2


class Ordered(NamedTuple):
    """Members of pairing heaps: pairs, or groups."""

    # int32 [n, 3]: the first member below, the next one beside, the one before that (or above, for
    # the first below)
    links: I32Rows
    weights: F64s  # float64 [n]: the smallest goes first
    keys: I64s  # int64 [n]: among equal weights the smallest goes first


class Groups(NamedTuple):
    """Arrays by name; P, T, G: capacities. Levels have numbers among the groups."""

    pairs: Ordered  # [P] by how often the rarer part occurs, then by the key of the pair
    group_of: I32s  # int32 [P]: the pair's group, or `UNGROUPED` while it waits or is done with
    # int32 [P]: the next grouped pair with the same rarer part, or the next one that waits
    alike: I32s
    first_alike: I32s  # int32 [T]: the first grouped pair by its rarer part
    groups: Ordered  # [G] by the product of their first pair's parts, then by its key
    counts: I64s  # int64 [G]: the count of the pairs
    parts: I32s  # int32 [G]: the part they share, or `NOBODY` for a level
    levels: I32s  # int32 [G]: the level of a group
    firsts: I32s  # int32 [G]: a group's first pair, or a level's first group; or `EMPTY`
    sharing: I32s  # int32 [G]: the next group of the same part, or `UNLISTED`
    first_sharing: I32s  # int32 [T]: the first group of a part
    waiting: I32s  # int32 [G]: a level's first pair that waits, or `EMPTY`
    promises: F64s  # float64 [G]: what a level's best pair scores at most,
    floors: F64s  # float64 [G]: as long as the product of its parts' counts is not below this
    queue: I32s  # int32 [G]: a heap of the levels: the greatest promise, then the greatest count
    places: I32s  # int32 [G]: where in ``queue`` a level is
    slots: I32s  # int32 [power of two, 2 G at least]: hash slots of (count, part)
    hash_key: HashKey  # of these slots
    # int64 [3]: how many groups and levels there are; how many levels; how many pairs were let wait
    sizes: I64s


@kernel
def goes_before(members: Ordered, one: I64, other: I64) -> bool:
    if members.weights[one] != members.weights[other]:
        return bool(members.weights[one] < members.weights[other])
    return bool(members.keys[one] < members.keys[other])


@kernel
def meld(members: Ordered, one: I64, other: I64) -> I64:
    """Make one heap of two, either of which may be `EMPTY`; returns its root."""
    links = members.links
    if one == EMPTY:
        return other
    if other == EMPTY:
        return one
    if goes_before(members, other, one):
        one, other = other, one
    below = np.int64(links[one, BELOW])
    links[other, NEXT] = below
    links[other, PREVIOUS] = one
    if below != EMPTY:
        links[below, PREVIOUS] = other
    links[one, BELOW] = other
    return one


@kernel
def cut(members: Ordered, member: I64) -> None:
    """Take a member, with what is below it, out of the heap; it is not the root."""
    links = members.links
    before, behind = np.int64(links[member, PREVIOUS]), np.int64(links[member, NEXT])
    if links[before, BELOW] == member:
        links[before, BELOW] = behind
    else:
        links[before, NEXT] = behind
    if behind != EMPTY:
        links[behind, PREVIOUS] = before
    links[member, NEXT] = EMPTY
    links[member, PREVIOUS] = EMPTY


@kernel
def meld_below(members: Ordered, member: I64) -> I64:
    """Make one heap of what is below a member: two by two first, then all; returns its root."""
    links = members.links
    one: Int = np.int64(links[member, BELOW])
    links[member, BELOW] = EMPTY
    melded: Int = np.int64(EMPTY)
    while one != EMPTY:
        other = np.int64(links[one, NEXT])
        following: Int = np.int64(EMPTY)
        if other != EMPTY:
            following = np.int64(links[other, NEXT])
            links[other, NEXT] = EMPTY
            links[other, PREVIOUS] = EMPTY
        links[one, NEXT] = EMPTY
        links[one, PREVIOUS] = EMPTY
        root = meld(members, one, other)
        links[root, NEXT] = melded
        melded = root
        one = following
    heap: Int = np.int64(EMPTY)
    while melded != EMPTY:
        following = np.int64(links[melded, NEXT])
        links[melded, NEXT] = EMPTY
        heap = meld(members, heap, melded)
        melded = following
    return heap


@kernel
def inserted(members: Ordered, root: I64, member: I64, weight: F64, key: I64) -> I64:
    """The root once a member has joined the heap."""
    members.links[member, BELOW] = EMPTY
    members.links[member, NEXT] = EMPTY
    members.links[member, PREVIOUS] = EMPTY
    members.weights[member] = weight
    members.keys[member] = key
    return meld(members, root, member)


@kernel
def removed(members: Ordered, root: I64, member: I64) -> I64:
    """The root once a member has left the heap."""
    below = meld_below(members, member)
    if root == member:
        return below
    cut(members, member)
    return meld(members, root, below)


@kernel
def risen(members: Ordered, root: I64, member: I64, weight: F64, key: I64) -> I64:
    """The root once a member goes before more others than until now."""
    members.weights[member] = weight
    members.keys[member] = key
    if root == member:
        return root
    cut(members, member)
    return meld(members, root, member)


@kernel
def slot_for(groups: Groups, count: I64, part: I64) -> I64:
    """The slot of the group of a count and a part, or the empty one where it belongs."""
    slots, counts, parts = groups.slots, groups.counts, groups.parts
    shift = shift_for(slots.size)
    slot = mix(np.uint64(count), np.uint64(part), groups.hash_key) >> shift
    while slots[slot] != EMPTY and (counts[slots[slot]] != count or parts[slots[slot]] != part):
        slot = next_slot(slot, shift)
    return np.int64(slot)


@kernel
def added(groups: Groups, slot: I64, count: I64, part: I64) -> I64:
    """A new group or level, empty, in a slot."""
    group = groups.sizes[0]
    groups.sizes[0] = group + 1
    groups.slots[slot] = group
    groups.counts[group] = count
    groups.parts[group] = part
    groups.firsts[group] = EMPTY
    return group


@kernel
def level_for(groups: Groups, count: I64) -> I64:
    """The level of a count, made if need be; there is room for it."""
    slot = slot_for(groups, count, np.int64(NOBODY))
    if groups.slots[slot] != EMPTY:
        return np.int64(groups.slots[slot])
    level = added(groups, slot, count, np.int64(NOBODY))
    place = groups.sizes[1]
    groups.sizes[1] = place + 1
    groups.waiting[level] = EMPTY
    groups.promises[level] = -np.inf
    groups.floors[level] = np.inf
    groups.queue[place] = level
    groups.places[level] = place
    rise(groups, level)
    return level


@kernel
def group_for(groups: Groups, count: I64, part: I64) -> I64:
    """The group of a count and a part, made if need be; there is room for it and its level."""
    slot = slot_for(groups, count, part)
    if groups.slots[slot] != EMPTY:
        return np.int64(groups.slots[slot])
    group = added(groups, slot, count, part)
    groups.levels[group] = level_for(groups, count)
    groups.sharing[group] = UNLISTED
    groups.groups.weights[group] = np.inf
    return group


@kernel
def is_better_group(groups: Groups, one: I64, other: I64) -> bool:
    """Whether a level promises more than another; equals by the greater count."""
    if groups.promises[one] != groups.promises[other]:
        return bool(groups.promises[one] > groups.promises[other])
    return bool(groups.counts[one] > groups.counts[other])


@kernel
def rise(groups: Groups, level: I64) -> None:
    """Move a level up to where its promise belongs."""
    queue, places = groups.queue, groups.places
    place = np.int64(places[level])
    while place > 0:
        parent = (place - 1) >> 1
        above = np.int64(queue[parent])
        if not is_better_group(groups, level, above):
            break
        queue[place] = above
        places[above] = place
        place = parent
    queue[place] = level
    places[level] = place


@kernel
def sink(groups: Groups, level: I64) -> None:
    """Move a level down to where its promise belongs."""
    queue, places, size = groups.queue, groups.places, groups.sizes[1]
    place = np.int64(places[level])
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and is_better_group(
            groups, np.int64(queue[child + 1]), np.int64(queue[child])
        ):
            child += 1
        below = np.int64(queue[child])
        if is_better_group(groups, level, below):
            break
        queue[place] = below
        places[below] = place
        place = child
    queue[place] = level
    places[level] = place


@kernel
def promise(groups: Groups, level: I64, score: F64) -> None:
    """A pair of the level scores so much."""
    if score > groups.promises[level]:
        groups.promises[level] = score
        rise(groups, level)


@kernel
def leave(groups: Groups, pair: I64) -> I64:
    """Take a pair out of its group; returns the group."""
    group = np.int64(groups.group_of[pair])
    first = np.int64(groups.firsts[group])
    groups.firsts[group] = removed(groups.pairs, first, pair)
    groups.group_of[pair] = UNGROUPED
    return group


@kernel
def place_group(groups: Groups, group: I64, product: F64) -> None:
    """Bring a group, whose first pair's parts have this product, to its place in its level."""
    level, first = np.int64(groups.levels[group]), np.int64(groups.firsts[group])
    root: Int = np.int64(groups.firsts[level])
    members = groups.groups
    if first == EMPTY:
        if members.weights[group] != np.inf:
            groups.firsts[level] = removed(members, root, group)
            members.weights[group] = np.inf
        return
    key = groups.pairs.keys[first]
    if members.weights[group] == np.inf:
        groups.firsts[level] = inserted(members, root, group, product, key)
    elif product < members.weights[group] or (
        product == members.weights[group] and key < members.keys[group]
    ):
        groups.firsts[level] = risen(members, root, group, product, key)
    elif product != members.weights[group] or key != members.keys[group]:
        root = removed(members, root, group)
        groups.firsts[level] = inserted(members, root, group, product, key)
