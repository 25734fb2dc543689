"""Pairs in groups of equal count, in each the pair of the rarest parts first; knows no score.

The scores of `merge_score` weigh a pair by its count n and by the product of the counts of its
parts. Of pairs with one count the smallest product always goes first, whatever the score: so pairs
are ordered within their group for good, and only the first of each group competes with others.

A group is a pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986): a pair's product falls in
constant time, and a pair whose count changes moves to another group. Groups compete in a binary
heap of promises that may be too good, never too bad: see `merge_score`.

Most pairs never come near their turn. They wait in a chain of their group until the best that any
pair of that count could score (its parts never standing apart) reaches the top; until then nobody
looks at them when counts change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.merge_pairs import EMPTY, KEY, first_slot
from tokenizer_core.kernels.merge_state import Integer

BELOW, NEXT, PREVIOUS = 0, 1, 2  # columns of ``links``
UNGROUPED = -1


class Groups(NamedTuple):
    """Arrays by name; P, T, G: capacities.

    Attributes:
        pairs: int64 [P, 4], the table of pairs (`merge_pairs`).
        products: float64 [P]: of the counts of the pair's parts, where it is in a group.
        group_of: int32 [P]: its group, or `UNGROUPED` while it waits or is done with.
        links: int32 [P, 3]: the first pair below it, the next one beside it, the one before it (or
            above, for the first below). A waiting pair's `NEXT` is the next one that waits.
        beside: int32 [P, 2]: the next grouped pair with the same left, with the same right part.
        first_beside: int32 [T, 2]: the first of these, by part.
        counts: int64 [G]: the count of the group's pairs.
        waiting: int32 [G]: the first waiting pair, or `EMPTY`.
        best: int32 [G]: the grouped pair of the smallest product, or `EMPTY`.
        promises: float64 [G]: what the group's best pair scores at most.
        queue: int32 [G]: a heap of all groups, the greatest promise first, then the greatest count.
        places: int32 [G]: where in ``queue`` each group is.
        slots: int32 [power of two, 2 G at least]: hash slots of the counts.
        size: int64 [1]: how many groups there are.
    """

    pairs: NDArray[np.int64]
    products: NDArray[np.float64]
    group_of: NDArray[np.int32]
    links: NDArray[np.int32]
    beside: NDArray[np.int32]
    first_beside: NDArray[np.int32]
    counts: NDArray[np.int64]
    waiting: NDArray[np.int32]
    best: NDArray[np.int32]
    promises: NDArray[np.float64]
    queue: NDArray[np.int32]
    places: NDArray[np.int32]
    slots: NDArray[np.int32]
    size: NDArray[np.int64]


@kernel
def has_rarer_parts(groups: Groups, one: Integer, other: Integer) -> bool:
    """Whether a pair goes before another one of equal count; equals by the smallest ids."""
    if groups.products[one] != groups.products[other]:
        return bool(groups.products[one] < groups.products[other])
    return bool(groups.pairs[one, KEY] < groups.pairs[other, KEY])


@kernel
def meld(groups: Groups, one: Integer, other: Integer) -> Integer:
    """Make one heap of two, either of which may be `EMPTY`; returns its root."""
    links = groups.links
    if one == EMPTY:
        return other
    if other == EMPTY:
        return one
    if has_rarer_parts(groups, other, one):
        one, other = other, one
    below = np.int64(links[one, BELOW])
    links[other, NEXT] = below
    links[other, PREVIOUS] = one
    if below != EMPTY:
        links[below, PREVIOUS] = other
    links[one, BELOW] = other
    return one


@kernel
def cut(links: NDArray[np.int32], pair: Integer) -> None:
    """Take a pair, with what is below it, out of the heap; it is not the root."""
    before, behind = np.int64(links[pair, PREVIOUS]), np.int64(links[pair, NEXT])
    if links[before, BELOW] == pair:
        links[before, BELOW] = behind
    else:
        links[before, NEXT] = behind
    if behind != EMPTY:
        links[behind, PREVIOUS] = before
    links[pair, NEXT] = EMPTY
    links[pair, PREVIOUS] = EMPTY


@kernel
def meld_below(groups: Groups, pair: Integer) -> Integer:
    """Make one heap of what is below a pair: two by two first, then all; returns its root."""
    links = groups.links
    one: Integer = np.int64(links[pair, BELOW])
    links[pair, BELOW] = EMPTY
    melded: Integer = np.int64(EMPTY)
    while one != EMPTY:
        other = np.int64(links[one, NEXT])
        following: Integer = np.int64(EMPTY)
        if other != EMPTY:
            following = np.int64(links[other, NEXT])
            links[other, NEXT] = EMPTY
            links[other, PREVIOUS] = EMPTY
        links[one, NEXT] = EMPTY
        links[one, PREVIOUS] = EMPTY
        root = meld(groups, one, other)
        links[root, NEXT] = melded
        melded = root
        one = following
    heap: Integer = np.int64(EMPTY)
    while melded != EMPTY:
        following = np.int64(links[melded, NEXT])
        links[melded, NEXT] = EMPTY
        heap = meld(groups, heap, melded)
        melded = following
    return heap


@kernel
def slot_of_count(groups: Groups, count: Integer) -> Integer:
    """The slot that holds a count's group, or the empty one where it belongs."""
    slots = groups.slots
    slot = first_slot(slots, count)
    while slots[slot] != EMPTY and groups.counts[slots[slot]] != count:
        slot = (slot + 1) & (slots.size - 1)
    return slot


@kernel
def group_for(groups: Groups, count: Integer) -> Integer:
    """The group of a count, made if need be; there is room for it."""
    slot = slot_of_count(groups, count)
    group = np.int64(groups.slots[slot])
    if group == EMPTY:
        group = np.int64(groups.size[0])
        groups.size[0] = group + 1
        groups.slots[slot] = group
        groups.counts[group] = count
        groups.waiting[group] = EMPTY
        groups.best[group] = EMPTY
        groups.promises[group] = -np.inf
        groups.queue[group] = group
        groups.places[group] = group
        rise(groups, group)
    return group


@kernel
def goes_first(groups: Groups, one: Integer, other: Integer) -> bool:
    """Whether a group promises more than another; equals by the greater count."""
    if groups.promises[one] != groups.promises[other]:
        return bool(groups.promises[one] > groups.promises[other])
    return bool(groups.counts[one] > groups.counts[other])


@kernel
def rise(groups: Groups, group: Integer) -> None:
    """Move a group up to where its promise belongs."""
    queue, places = groups.queue, groups.places
    place = np.int64(places[group])
    while place > 0:
        parent = (place - 1) >> 1
        above = np.int64(queue[parent])
        if not goes_first(groups, group, above):
            break
        queue[place] = above
        places[above] = place
        place = parent
    queue[place] = group
    places[group] = place


@kernel
def sink(groups: Groups, group: Integer) -> None:
    """Move a group down to where its promise belongs."""
    queue, places, size = groups.queue, groups.places, groups.size[0]
    place = np.int64(places[group])
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and goes_first(
            groups, np.int64(queue[child + 1]), np.int64(queue[child])
        ):
            child += 1
        below = np.int64(queue[child])
        if goes_first(groups, group, below):
            break
        queue[place] = below
        places[below] = place
        place = child
    queue[place] = group
    places[group] = place


@kernel
def promise(groups: Groups, group: Integer, score: float) -> None:
    """A pair of the group scores so much."""
    if score > groups.promises[group]:
        groups.promises[group] = score
        rise(groups, group)


@kernel
def enter(groups: Groups, group: Integer, pair: Integer) -> None:
    """Put a pair, whose product is known, into a group."""
    links = groups.links
    links[pair, BELOW] = EMPTY
    links[pair, NEXT] = EMPTY
    links[pair, PREVIOUS] = EMPTY
    groups.group_of[pair] = group
    groups.best[group] = meld(groups, np.int64(groups.best[group]), pair)


@kernel
def leave(groups: Groups, pair: Integer) -> None:
    """Take a pair out of its group."""
    group = np.int64(groups.group_of[pair])
    below = meld_below(groups, pair)
    if groups.best[group] == pair:
        groups.best[group] = below
    else:
        cut(groups.links, pair)
        groups.best[group] = meld(groups, np.int64(groups.best[group]), below)
    groups.group_of[pair] = UNGROUPED


@kernel
def lower_product(groups: Groups, pair: Integer, product: float) -> None:
    """Tell a pair's group that the product is smaller now."""
    groups.products[pair] = product
    root = np.int64(groups.best[groups.group_of[pair]])
    if root != pair:
        cut(groups.links, pair)
        groups.best[groups.group_of[pair]] = meld(groups, root, pair)
