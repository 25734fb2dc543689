"""The arrays that merging works on, as one value; Python owns and grows them, kernels fill them.

Everything about a pair is made at one step: its occurrences arise when the younger of its two
tokens is made, all at once, and afterwards only disappear. Hence:

- each pair has one segment of positions in ``arena``, ascending, complete when made. A position is
  stale once the symbols there are no longer the pair. New pairs take the place of the segment of
  the pair that was merged, which nobody needs any more, and only what does not fit is appended.
- counts only fall, so the queue may promise too much, never too little (see `merge_queue`).
- a pair that is born too rare or too long to be merged is never entered at all. "Too rare" is
  first said of most pairs: only the frequent ones are in sight. Once none of these is left, cells
  are closed up (one for each token), and pairs are counted and collected anew down to a lower
  count. All counts are exact then, so the order of merges is that of all pairs in sight.

A token keeps its id at its first and at its last position (its *boundary tags*), `INSIDE` between
them, so both neighbours of an occurrence are read in one step and words need no linked lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.memory.types import (
    I8s,
    I32Rows,
    I32s,
    I64Planes,
    I64Rows,
    I64s,
    U8s,
    U16s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HashKey

Integer = int | np.integer[Any]  # outside kernels: what they give, and what Python gives them

SEPARATOR = -1  # a symbol between words
INSIDE = -2  # a symbol inside a token of more than two base tokens: neither its first nor its last

# A cell has 16 bits, of which the last two numbers are the symbols above, until there are more
# tokens; then eight more in an array of their own.
CELL_BITS = 16
NARROW = (1 << CELL_BITS) - 2  # tokens that 16 bits can number
MOST_TOKENS = 1 << 23  # symbols have 24 bits, one of them for the sign
PAGE_BITS = 8  # cells of a page, see `Weights`

# Entries of ``sizes``: how much of each array is in use; the class the queue has come to; and how
# many neighbours the last merge met.
TOKENS, PAIRS, QUEUED, ARENA, MET_LEFT, MET_RIGHT, CLASS = 0, 1, 2, 3, 4, 5, 6
LATELY_MET_LEFT, LATELY_MET_RIGHT = 7, 8
FREE, FREE_END = 9, 10
NOWHERE = 11  # a place of the arena, of this thread, where positions go that nobody wants
SIZES = 12

# Columns of ``changes``, whose first axis, as that of ``touched``, is the side of the neighbour.
LEFT_SIDE, RIGHT_SIDE = 0, 1
GAINED, OCCURRENCES = 0, 1
PLACE = OCCURRENCES  # the same cell, once the occurrences have been given their place

# Rows of ``noted``.
BEFORE, AFTER, POSITION = 0, 1, 2
NOTES = 3

# Columns of ``learned``.
LEFT, RIGHT, MERGED_COUNT = 0, 1, 2


class Weights(NamedTuple):
    """How often words occur, by position. Words lie in runs of those that occur equally often.

    Attributes:
        starts: int32 [R + 1] where each run begins, ascending, and the end.
        counts: int64 [R] how often each word of a run occurs.
        pages: int32, the run of the first cell of each `PAGE_BITS` page.
    """

    starts: I32s
    counts: I64s
    pages: I32s


class MergeState(NamedTuple):
    """Arrays by name; shapes in brackets, T, P, H, M: capacities.

    Attributes:
        cells: uint16 [N] the low bits of the symbol at each position: an id at boundaries, or
            `SEPARATOR` or `INSIDE`.
        high: int8 [N] the bits above these, or [0] while there are at most `NARROW` tokens.
        weights: how often words occur.
        arena: int32 [A] positions of occurrences, one segment per pair.
        pairs: int64 [P, 4] rows of the pair table.
        slots: int32 [power of two] its hash slots.
        hash_key: of these slots.
        heap: int64 [P, 3] the pairs of the class the queue has come to.
        waiting: int32 [CLASSES + 1] the first pair of each lower class, or `EMPTY`.
        following: int32 [P] the pair behind each waiting one.
        text: uint8 [(N + base tokens) · width] the base token at each position as a big-endian
            number, or [0] when tokens are compared by id.
        width: bytes of a base token in ``text``.
        token_starts: int32 [T] a position where the token can be read in ``text``.
        token_lengths: int32 [T] base tokens in each token.
        token_widths: int32 [T] cells of each token: as many, or fewer once cells were closed up.
        token_ties: int64 [T] see `tie_of_bytes`.
        learned: int64 [T, 3] left, right and count of the merge that made each token.
        changes: int64 [2, T + 1, 2] what this merge does to the pairs with the neighbour in row
            id + 1: the count and the occurrences its new pair gains. Zero between merges, except
            for row 0, where separators are noted for nobody.
        touched: int32 [2, T + 1] neighbours met in this merge, or in the last one.
        noted: int32 [3, M] of each merged occurrence the symbols before and behind it (negative
            where no pair arises), and its position.
        sizes: int64 [12] how many tokens, pairs, heap rows, places of the arena and neighbours
            (left, right) are in use; the class of the queue; the neighbours of the last merge;
            which places of the merged pair's segment new pairs may take, from and up to; and the
            place for what nobody wants.
    """

    cells: U16s
    high: I8s
    weights: Weights
    arena: I32s
    pairs: I64Rows
    slots: I32s
    hash_key: HashKey
    heap: I64Rows
    waiting: I32s
    following: I32s
    text: U8s
    width: int
    token_starts: I32s
    token_lengths: I32s
    token_widths: I32s
    token_ties: I64s
    learned: I64Rows
    changes: I64Planes
    touched: I32Rows
    noted: I32Rows
    sizes: I64s


class Limits(NamedTuple):
    """What the kernels may do.

    Attributes:
        order: `SMALLEST_IDS`, `GREATEST_BYTES` or `FIRST_SEEN`.
        min_count: rarer pairs are not merged.
        max_length: pairs that make a token of more base tokens are not merged.
        kept_count, kept_length: the same for entering pairs at all; wider while merges that were
            learned elsewhere are being applied.
        base: how many base tokens there are; merge k makes token ``base + k``.
    """

    order: int
    min_count: int
    max_length: int
    kept_count: int
    kept_length: int
    base: int
