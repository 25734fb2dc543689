"""The arrays that merging works on, as one value; Python owns and grows them, kernels fill them.

Everything about a pair is made at one step: its occurrences arise when the younger of its two
tokens is made, all at once, and afterwards only disappear. Hence:

- ``arena`` is append-only: each pair has one segment of positions, ascending, complete when made.
  A position is stale once the symbols there are no longer the pair.
- counts only fall, so a heap whose rows may be too good, never too bad, finds the best pair.
- a pair that is born too rare or too long to be merged is never entered at all.

A token keeps its id at its first and at its last position (its *boundary tags*), `INSIDE` between
them, so both neighbours of an occurrence are read in one step and words need no linked lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Entries of ``sizes``: how much of each array is in use.
TOKENS, PAIRS, QUEUED, ARENA, MET_LEFT, MET_RIGHT = 0, 1, 2, 3, 4, 5
SIZES = 6

# Columns of ``changes``: what one merge does to the pairs with one neighbour.
# The first axis of ``changes``, ``touched`` and ``beside``: 0 left neighbours, 1 right neighbours.
LOST, GAINED, OCCURRENCES, PLACE = 0, 1, 2, 3

# Columns of ``learned``.
LEFT, RIGHT, MERGED_COUNT = 0, 1, 2


class MergeState(NamedTuple):
    """Arrays by name; shapes in brackets, T, P, H, M: capacities.

    Attributes:
        symbols: int32 [N] ids at boundaries, or `SEPARATOR`, `INSIDE`.
        word_of: int32 [N] index of the word at each position.
        word_counts: int64 [words].
        arena: int32 [A] positions of occurrences, one segment per pair.
        pairs: int64 [P, 4] rows of the pair table.
        slots: int32 [power of two] its hash slots.
        heap: int64 [P, 3] the queue.
        text: uint8 [N] the bytes at each position, or [0] when tokens are compared by id.
        token_starts: int32 [T] a place in ``text`` where the token can be read.
        token_lengths: int32 [T] bytes.
        token_ties: int64 [T] see `prefix_tie`.
        learned: int64 [T, 3] left, right and count of the merge that made each token.
        changes: int64 [2, T, 4] zero between merges.
        touched: int32 [2, T] neighbours met in this merge.
        beside: int32 [2, M] left and right neighbour of each merged occurrence, or −1.
        sizes: int64 [6] how many tokens, pairs, heap rows, places of the arena and neighbours
            (left, right) are in use.
    """

    symbols: NDArray[np.int32]
    word_of: NDArray[np.int32]
    word_counts: NDArray[np.int64]
    arena: NDArray[np.int32]
    pairs: NDArray[np.int64]
    slots: NDArray[np.int32]
    heap: NDArray[np.int64]
    text: NDArray[np.uint8]
    token_starts: NDArray[np.int32]
    token_lengths: NDArray[np.int32]
    token_ties: NDArray[np.int64]
    learned: NDArray[np.int64]
    changes: NDArray[np.int64]
    touched: NDArray[np.int32]
    beside: NDArray[np.int32]
    sizes: NDArray[np.int64]


class Limits(NamedTuple):
    """What the kernels may do.

    Attributes:
        order: `SMALLEST_IDS`, `GREATEST_BYTES` or `FIRST_SEEN`.
        min_count: rarer pairs are not merged.
        max_token_bytes: pairs that make a longer token are not merged.
        kept_count, kept_bytes: the same for entering pairs at all; wider while merges that were
            learned elsewhere are being applied.
    """

    order: int
    min_count: int
    max_token_bytes: int
    kept_count: int
    kept_bytes: int
