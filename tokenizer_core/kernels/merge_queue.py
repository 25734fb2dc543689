"""The queue of pairs: a binary heap, best pair first, under one of three exact tie-breaks.

A row of the heap is a promise made when the pair was queued: (count, tie, index of the pair).
Counts only fall and first occurrences only move back, so a promise may be too good, never too
bad; whoever takes the first row compares it with the present and queues it again if it is stale.
Among equal counts the smaller ``tie`` goes first:

- `SMALLEST_IDS`: the pair's key;
- `FIRST_SEEN`: the position of its first occurrence;
- `GREATEST_BYTES`: the first eight bytes of the left token, complemented; where these are equal
  the tokens are compared in the text, the left ones, then the right ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.merge_pairs import KEY, Integer
from tokenizer_core.kernels.merge_state import MergeState

SMALLEST_IDS, GREATEST_BYTES, FIRST_SEEN = 0, 1, 2
HEAP_COUNT, HEAP_TIE, HEAP_PAIR = 0, 1, 2  # columns
HEAP_COLUMNS = 3

_LOW = np.int64(0xFFFFFFFF)
_PREFIX = 8


@kernel
def prefix_tie(text: NDArray[np.uint8], start: Integer, length: Integer) -> Integer:
    """The first eight bytes of a token as a number that is smaller for greater bytes."""
    prefix = np.uint64(0)
    for index in range(_PREFIX):
        prefix <<= np.uint64(8)
        if index < length:
            prefix |= np.uint64(text[start + index])
    return np.int64(prefix ^ np.uint64(0x7FFFFFFFFFFFFFFF))


@kernel
def compare_tokens(state: MergeState, one: Integer, other: Integer) -> Integer:
    """Sign of the lexicographic comparison of two tokens as bytes."""
    text, starts, lengths = state.text, state.token_starts, state.token_lengths
    if one == other:
        return 0
    shared = min(lengths[one], lengths[other])
    for index in range(shared):
        mine, theirs = text[starts[one] + index], text[starts[other] + index]
        if mine != theirs:
            return 1 if mine > theirs else -1
    return lengths[one] - lengths[other]


@kernel
def has_greater_bytes(state: MergeState, one: Integer, other: Integer) -> bool:
    """Whether pair ``one`` is greater than ``other`` as a tuple (left bytes, right bytes)."""
    key, other_key = state.pairs[one, KEY], state.pairs[other, KEY]
    sign = compare_tokens(state, key >> 32, other_key >> 32)
    if sign == 0:
        sign = compare_tokens(state, key & _LOW, other_key & _LOW)
    if sign != 0:
        return bool(sign > 0)
    # Only tokens that came from outside can spell the same bytes twice: smaller ids, then.
    return bool(key < other_key)


@kernel
def goes_first(
    state: MergeState, order: Integer, count: Integer, tie: Integer, pair: Integer, row: Integer
) -> bool:
    """Whether (count, tie, pair) goes before a row of the heap."""
    heap = state.heap
    if count != heap[row, HEAP_COUNT]:
        return count > heap[row, HEAP_COUNT]
    if tie != heap[row, HEAP_TIE]:
        return tie < heap[row, HEAP_TIE]
    if order != GREATEST_BYTES:
        return False
    return has_greater_bytes(state, pair, heap[row, HEAP_PAIR])


@kernel
def push(
    state: MergeState, order: Integer, size: Integer, count: Integer, tie: Integer, pair: Integer
) -> None:
    """Queue a pair behind ``size`` others."""
    heap = state.heap
    row = size
    while row > 0:
        parent = (row - 1) >> 1
        if not goes_first(state, order, count, tie, pair, parent):
            break
        heap[row, HEAP_COUNT] = heap[parent, HEAP_COUNT]
        heap[row, HEAP_TIE] = heap[parent, HEAP_TIE]
        heap[row, HEAP_PAIR] = heap[parent, HEAP_PAIR]
        row = parent
    heap[row, HEAP_COUNT] = count
    heap[row, HEAP_TIE] = tie
    heap[row, HEAP_PAIR] = pair


@kernel
def replace_first(
    state: MergeState, order: Integer, size: Integer, count: Integer, tie: Integer, pair: Integer
) -> None:
    """Drop the first of ``size`` rows and queue (count, tie, pair) in the room it leaves."""
    heap = state.heap
    row = 0
    while True:
        child = 2 * row + 1
        if child >= size:
            break
        sibling = child + 1
        if sibling < size and goes_first(
            state,
            order,
            heap[sibling, HEAP_COUNT],
            heap[sibling, HEAP_TIE],
            heap[sibling, HEAP_PAIR],
            child,
        ):
            child = sibling
        if goes_first(state, order, count, tie, pair, child):
            break
        heap[row, HEAP_COUNT] = heap[child, HEAP_COUNT]
        heap[row, HEAP_TIE] = heap[child, HEAP_TIE]
        heap[row, HEAP_PAIR] = heap[child, HEAP_PAIR]
        row = child
    heap[row, HEAP_COUNT] = count
    heap[row, HEAP_TIE] = tie
    heap[row, HEAP_PAIR] = pair
