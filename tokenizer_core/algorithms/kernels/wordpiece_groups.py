"""Priority queue of pairs for scores that depend on the counts of both parts.

A score combines the count n of a pair with the product of its parts' counts. Among pairs of equal
count the smallest product wins, whatever the score. So pairs of one count form a *level* with a
permanent order, and levels compete by their best pairs.

Within a level, the pairs that share their more frequent part form a *group*, ordered by the count
of the rarer part. When the count of a part changes, only two kinds of members move: pairs in which
it is the rarer part (few: rare parts have few neighbours), and the groups that share it.

Groups and levels are pairing heaps (Fredman, Sedgewick, Sleator and Tarjan, 1986). Levels compete
in a binary heap by upper bounds, their *promises*.

Most pairs never come near the top. They stay on a waiting list of their level, whose promise covers
any pair of that count, and are grouped only when the level reaches the top.
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
NOBODY = -1  # marks a level, where a group has its shared part
UNLISTED = -2


class Ordered(NamedTuple):
    """Members of pairing heaps: pairs or groups."""

    # int32 [n, 3]: first child, next sibling, previous sibling (of the first child: the parent)
    links: I32Rows
    weights: F64s  # float64 [n]: the smallest comes first
    keys: I64s  # int64 [n]: among equal weights the smallest comes first


class Groups(NamedTuple):
    """Pairs, groups and levels; P, T, G: capacities. Levels are numbered as groups."""

    pairs: Ordered  # [P] by the count of the rarer part, then by the key of the pair
    group_of: I32s  # int32 [P]: the pair's group; `UNGROUPED` while it waits or is finished
    # int32 [P]: the next grouped pair with the same rarer part, or the next waiting pair
    alike: I32s
    first_alike: I32s  # int32 [T]: the first grouped pair by its rarer part
    groups: Ordered  # [G] by the product of their first pair's parts, then by its key
    counts: I64s  # int64 [G]: the count of the pairs
    parts: I32s  # int32 [G]: the shared part, or `NOBODY` for a level
    levels: I32s  # int32 [G]: the level of a group
    firsts: I32s  # int32 [G]: a group's first pair, a level's first group, or `EMPTY`
    sharing: I32s  # int32 [G]: the next group of the same part, or `UNLISTED`
    first_sharing: I32s  # int32 [T]: the first group of a part
    waiting: I32s  # int32 [G]: a level's first waiting pair, or `EMPTY`
    promises: F64s  # float64 [G]: upper bound of the scores in a level,
    floors: F64s  # float64 [G]: valid while the product of its best pair is not below this
    queue: I32s  # int32 [G]: heap of the levels: the greatest promise, then the greatest count
    places: I32s  # int32 [G]: the position of a level in ``queue``
    slots: I32s  # int32 [power of two, at least 2 G]: hash slots of (count, part)
    hash_key: HashKey
    # int64 [3]: the number of groups and levels; of levels; of pairs that were put on waiting lists
    sizes: I64s


@kernel
def goes_before(members: Ordered, one: I64, other: I64) -> bool:
    if members.weights[one] != members.weights[other]:
        return bool(members.weights[one] < members.weights[other])
    return bool(members.keys[one] < members.keys[other])


@kernel
def meld(members: Ordered, one: I64, other: I64) -> I64:
    """Meld two heaps, either of which may be `EMPTY`; return the root."""
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
    """Cut a member that is not the root out of its heap, with its children."""
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
    """Meld the children of a member, pairwise and then all; return the root."""
    links = members.links
    first: Int = np.int64(links[member, BELOW])
    links[member, BELOW] = EMPTY
    melded: Int = np.int64(EMPTY)
    while first != EMPTY:
        second = np.int64(links[first, NEXT])
        following: Int = np.int64(EMPTY)
        if second != EMPTY:
            following = np.int64(links[second, NEXT])
            links[second, NEXT] = EMPTY
            links[second, PREVIOUS] = EMPTY
        links[first, NEXT] = EMPTY
        links[first, PREVIOUS] = EMPTY
        root = meld(members, first, second)
        links[root, NEXT] = melded
        melded = root
        first = following
    heap: Int = np.int64(EMPTY)
    while melded != EMPTY:
        following = np.int64(links[melded, NEXT])
        links[melded, NEXT] = EMPTY
        heap = meld(members, heap, melded)
        melded = following
    return heap


@kernel
def inserted(members: Ordered, root: I64, member: I64, weight: F64, key: I64) -> I64:
    """Insert a member; return the root."""
    members.links[member, BELOW] = EMPTY
    members.links[member, NEXT] = EMPTY
    members.links[member, PREVIOUS] = EMPTY
    members.weights[member] = weight
    members.keys[member] = key
    return meld(members, root, member)


@kernel
def removed(members: Ordered, root: I64, member: I64) -> I64:
    """Remove a member; return the root."""
    below = meld_below(members, member)
    if root == member:
        return below
    cut(members, member)
    return meld(members, root, below)


@kernel
def risen(members: Ordered, root: I64, member: I64, weight: F64, key: I64) -> I64:
    """Decrease the weight or key of a member; return the root."""
    members.weights[member] = weight
    members.keys[member] = key
    if root == member:
        return root
    cut(members, member)
    return meld(members, root, member)


@kernel
def slot_for(groups: Groups, count: I64, part: I64) -> I64:
    """The slot of the group of a count and a part, or the empty one for it."""
    slots, counts, parts = groups.slots, groups.counts, groups.parts
    shift = shift_for(slots.size)
    slot = mix(np.uint64(count), np.uint64(part), groups.hash_key) >> shift
    while slots[slot] != EMPTY and (counts[slots[slot]] != count or parts[slots[slot]] != part):
        slot = next_slot(slot, shift)
    return np.int64(slot)


@kernel
def added(groups: Groups, slot: I64, count: I64, part: I64) -> I64:
    group = groups.sizes[0]
    groups.sizes[0] = group + 1
    groups.slots[slot] = group
    groups.counts[group] = count
    groups.parts[group] = part
    groups.firsts[group] = EMPTY
    return group


@kernel
def level_for(groups: Groups, count: I64) -> I64:
    """The level of a count, created if missing; needs room for one more."""
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
    """The group of a count and a part, created if missing; needs room for two."""
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
    """Whether level ``one`` has the greater promise; equals by the greater count."""
    if groups.promises[one] != groups.promises[other]:
        return bool(groups.promises[one] > groups.promises[other])
    return bool(groups.counts[one] > groups.counts[other])


@kernel
def rise(groups: Groups, level: I64) -> None:
    """Move a level in the queue to its position."""
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
    """Move a level in the queue to its position."""
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
    """Raise the promise of a level to at least this score."""
    if score > groups.promises[level]:
        groups.promises[level] = score
        rise(groups, level)


@kernel
def leave(groups: Groups, pair: I64) -> I64:
    """Remove a pair from its group; return the group."""
    group = np.int64(groups.group_of[pair])
    first = np.int64(groups.firsts[group])
    groups.firsts[group] = removed(groups.pairs, first, pair)
    groups.group_of[pair] = UNGROUPED
    return group


@kernel
def place_group(groups: Groups, group: I64, product: F64) -> None:
    """Move a group to its position in its level, given the product of its first pair."""
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
