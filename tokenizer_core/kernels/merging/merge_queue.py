"""The queue of pairs, best pair first, under one of three exact tie-breaks.

The best count never rises, so pairs are sorted only when their turn is near. Counts fall into
classes: small counts have a class each, larger ones share one with counts within 0.2 %. Pairs of
the present class are in a binary heap, all others in an unsorted chain per class.
(The idea of a radix heap: Ahuja, Mehlhorn, Orlin and Tarjan, 1990.)

A heap row holds (count, tie, index of the pair) of the time it was entered. Counts only fall and
first occurrences only move back, so a row may rank too high, never too low; the first row is
compared with the present count and queued again if it is stale. Of equal counts the smaller ``tie``
is first:

- `SMALLEST_IDS`: the pair's key;
- `FIRST_SEEN`: the position of its first occurrence;
- `GREATEST_BYTES`: the first eight bytes of the left token, complemented; if these are equal, the
  tokens are compared in the text, the left ones, then the right ones.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import leading_zeros, prefetch
from bpeline.tokenizer_core.kernels.memory.types import I64, Int, U8s
from bpeline.tokenizer_core.kernels.merging.merge_layout import symbol_at
from bpeline.tokenizer_core.kernels.merging.merge_state import (
    CLASS,
    QUEUED,
    Limits,
    MergeState,
)
from bpeline.tokenizer_core.kernels.tables.pair_tables import (
    COLUMNS,
    COUNT,
    EMPTY,
    KEY,
    LENGTH,
    START,
)

SMALLEST_IDS, GREATEST_BYTES, FIRST_SEEN = 0, 1, 2
HEAP_COUNT, HEAP_TIE, HEAP_PAIR = 0, 1, 2  # columns
HEAP_COLUMNS = 3

_EXACT_BITS, _STEP_BITS = 10, 9
_EXACT = 1 << _EXACT_BITS  # smaller counts have a class each
_STEPS = 1 << _STEP_BITS  # classes from one power of two to the next
CLASSES = _EXACT + (63 - _EXACT_BITS) * _STEPS  # of all counts below 2⁶³

_LOW = np.int64(0xFFFFFFFF)
_PREFIX = 8  # bytes


@kernel
def class_of(count: I64) -> I64:
    """The class of a count from 0 to 2⁶³ − 1; classes ascend with counts."""
    if count < _EXACT:
        return np.int64(count)
    exponent = 63 - leading_zeros(np.uint64(count))
    step = (count >> (exponent - _STEP_BITS)) - _STEPS
    return np.int64(_EXACT + (exponent - _EXACT_BITS) * _STEPS + step)


@kernel
def tie_of_bytes(text: U8s, start: I64, length: I64) -> I64:
    """The first eight bytes of a token as a number, smaller for greater bytes."""
    prefix = np.uint64(0)
    for index in range(_PREFIX):
        prefix <<= np.uint64(8)
        if index < length:
            prefix |= np.uint64(text[start + index])
    return np.int64(prefix ^ np.uint64(0x7FFFFFFFFFFFFFFF))


@entry_kernel
def prefix_tie(text: U8s, start: I64, length: I64) -> I64:
    return tie_of_bytes(text, start, length)


@kernel
def compare_tokens(state: MergeState, one: I64, other: I64) -> I64:
    """Lexicographic comparison of two tokens in the text; only the sign matters."""
    if one == other:
        return 0
    text, lengths, width = state.text, state.token_lengths, state.width
    start, other_start = state.token_starts[one] * width, state.token_starts[other] * width
    for index in range(min(lengths[one], lengths[other]) * width):
        byte, other_byte = text[start + index], text[other_start + index]
        if byte != other_byte:
            return 1 if byte > other_byte else -1
    return lengths[one] - lengths[other]


@kernel
def has_greater_bytes(state: MergeState, one: I64, other: I64) -> bool:
    """Whether a pair is greater than another as a tuple (left bytes, right bytes)."""
    key, other_key = state.pairs[one, KEY], state.pairs[other, KEY]
    sign = compare_tokens(state, key >> 32, other_key >> 32)
    if sign == 0:
        sign = compare_tokens(state, key & _LOW, other_key & _LOW)
    if sign != 0:
        return bool(sign > 0)
    # Only tokens from an existing vocab can have the same bytes twice; then smaller ids are first.
    return bool(key < other_key)


@kernel
def occurs_at(state: MergeState, pair: I64, position: Int) -> bool:
    """Whether a position from the pair's segment is still an occurrence of it.

    Tokens only grow, so equal ids at the two boundary tags are the same two tokens.
    """
    left = state.pairs[pair, KEY] >> 32
    if symbol_at(state.cells, state.high, position) != left:
        return False
    second = symbol_at(state.cells, state.high, position + state.token_widths[left])
    return second == state.pairs[pair, KEY] & _LOW


@kernel
def tie_of(state: MergeState, order: I64, pair: I64) -> I64:
    """The present ``tie`` of a pair that occurs.

    Under `FIRST_SEEN`, stale positions at the start of its segment are dropped.
    """
    pairs = state.pairs
    if order == SMALLEST_IDS:
        return pairs[pair, KEY]
    if order != FIRST_SEEN:
        return state.token_ties[pairs[pair, KEY] >> 32]
    while not occurs_at(state, pair, state.arena[pairs[pair, START]]):
        pairs[pair, START] += 1
        pairs[pair, LENGTH] -= 1
    return np.int64(state.arena[pairs[pair, START]])


@kernel
def goes_first(state: MergeState, order: I64, count: I64, tie: I64, pair: I64, row: I64) -> bool:
    heap = state.heap
    if count != heap[row, HEAP_COUNT]:
        return count > heap[row, HEAP_COUNT]
    if tie != heap[row, HEAP_TIE]:
        return tie < heap[row, HEAP_TIE]
    if order != GREATEST_BYTES:
        return False
    return has_greater_bytes(state, pair, heap[row, HEAP_PAIR])


@kernel
def push(state: MergeState, order: I64, count: I64, tie: I64, pair: I64) -> None:
    heap, sizes = state.heap, state.sizes
    row = sizes[QUEUED]
    sizes[QUEUED] = row + 1
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
def drop_first(state: MergeState, order: I64) -> None:
    heap, sizes = state.heap, state.sizes
    size = sizes[QUEUED] - 1
    sizes[QUEUED] = size
    count, tie, pair = heap[size, HEAP_COUNT], heap[size, HEAP_TIE], heap[size, HEAP_PAIR]
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


@kernel
def queue_pair(state: MergeState, limits: Limits, pair: I64) -> None:
    """Queue a pair by its present count, unless it is below ``min_count``."""
    count = state.pairs[pair, COUNT]
    if count < limits.min_count:
        return
    its_class = class_of(count)
    if its_class >= state.sizes[CLASS]:
        push(state, limits.order, count, tie_of(state, limits.order, pair), pair)
    else:
        state.following[pair] = state.waiting[its_class]
        state.waiting[its_class] = pair


@kernel
def queue_pairs(state: MergeState, limits: Limits, first: I64, behind: I64) -> None:
    """Queue the rows ``first`` … ``behind - 1``, except pairs that are too long."""
    for pair in range(first, behind):
        key = state.pairs[pair, KEY]
        length = state.token_lengths[key >> 32] + state.token_lengths[key & _LOW]
        if length <= limits.max_length:
            queue_pair(state, limits, pair)


@entry_kernel
def queue_new_pairs(state: MergeState, limits: Limits, first: I64, behind: I64) -> None:
    queue_pairs(state, limits, first, behind)


@kernel
def next_pair(state: MergeState, limits: Limits) -> I64:
    """The best pair, which stays first in the queue, or `EMPTY` if none may be merged."""
    heap, sizes, waiting = state.heap, state.sizes, state.waiting
    while True:
        while sizes[QUEUED] > 0:
            pair = heap[0, HEAP_PAIR]
            # Words have positive counts, so any lost occurrence lowers the count. If the count is
            # unchanged, so is the tie.
            if heap[0, HEAP_COUNT] == state.pairs[pair, COUNT]:
                return pair
            drop_first(state, limits.order)
            queue_pair(state, limits, pair)
        while sizes[CLASS] > 0 and waiting[sizes[CLASS]] == EMPTY:
            sizes[CLASS] -= 1
        pair = np.int64(waiting[sizes[CLASS]])
        if pair == EMPTY:
            return EMPTY
        waiting[sizes[CLASS]] = EMPTY
        while pair != EMPTY:
            following = np.int64(state.following[pair])
            prefetch(np.int64(state.pairs.ctypes.data) + following * (8 * COLUMNS))
            prefetch(np.int64(state.following.ctypes.data) + following * 4)
            queue_pair(state, limits, pair)
            pair = following
