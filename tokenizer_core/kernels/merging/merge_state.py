"""The arrays of the merging state; Python allocates them, kernels fill them.

All occurrences of a pair arise at once, when the younger of its two tokens is created. Afterwards
they only disappear. Hence:

- each pair has one segment of ascending positions in ``arena``, complete when created. A position
  is stale once the symbols there are no longer the pair. New pairs reuse the segment of the merged
  pair; what does not fit is appended.
- counts only fall, so queued counts may be too high, never too low (see `merge_queue`).
- a pair that is created too rare or too long to be merged is never entered. At first "too rare" is
  a high threshold. Once no pair above it is left, cells are closed up (one per token) and pairs are
  counted and collected again down to a lower threshold. Counts are exact then, so the order of
  merges does not depend on the threshold.

A token has its id at its first and last position (*boundary tags*) and `INSIDE` between them, so
both neighbours of an occurrence are read directly and words need no linked lists.
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

Integer = int | np.integer[Any]  # for Python code: results of kernels, or plain numbers

SEPARATOR = -1  # a symbol between words
INSIDE = -2  # a symbol inside a token, neither its first nor its last

CELL_BITS = 16  # of a symbol; more than `NARROW` tokens need eight more bits in a second array
NARROW = (1 << CELL_BITS) - 2  # ids below `INSIDE` and `SEPARATOR` as uint16
MOST_TOKENS = 1 << 23  # symbols have 24 bits, including the sign
PAGE_BITS = 8  # log2 of the cells of a page, see `Weights`

# Entries of ``sizes``: used lengths of arrays, neighbours met in this merge, class of the queue;
# neighbours met in the last merge; free part of the merged pair's segment, from and up to.
TOKENS, PAIRS, QUEUED, ARENA, MET_LEFT, MET_RIGHT, CLASS = 0, 1, 2, 3, 4, 5, 6
LATELY_MET_LEFT, LATELY_MET_RIGHT = 7, 8
FREE, FREE_END = 9, 10
NOWHERE = 11  # a place of the arena for unwanted positions, one per thread
SIZES = 12

# ``changes`` and ``touched``: the first axis is the side of the neighbour; columns of ``changes``.
LEFT_SIDE, RIGHT_SIDE = 0, 1
GAINED, OCCURRENCES = 0, 1
PLACE = OCCURRENCES  # the same cell, after the occurrences were assigned a place

# Rows of ``noted``.
BEFORE, AFTER, POSITION = 0, 1, 2
NOTES = 3

# Columns of ``learned``.
LEFT, RIGHT, MERGED_COUNT = 0, 1, 2


class Weights(NamedTuple):
    """Counts of words by position; consecutive words with equal counts form a run.

    ``starts`` [R + 1] are the starts of runs and the end, ``counts`` [R] the count of each word of
    a run, ``pages`` the run of the first cell of each page of 2^`PAGE_BITS` cells.
    """

    starts: I32s
    counts: I64s
    pages: I32s


class MergeState(NamedTuple):
    """State of the merging; T, P, H, M, N, A are capacities.

    Attributes:
        cells: uint16 [N] low bits of the symbol at each position: an id at boundaries, or
            `SEPARATOR` or `INSIDE`.
        high: int8 [N] the bits above these, or [0] while there are at most `NARROW` tokens.
        arena: int32 [A] positions of occurrences, one segment per pair.
        pairs: int64 [P, 4] rows of the pair table.
        slots: int32 [power of two] its hash slots.
        heap: int64 [P, 3] the pairs of the present class of the queue.
        waiting: int32 [CLASSES + 1] the first pair of each lower class, or `EMPTY`.
        following: int32 [P] the next pair in the chain of each waiting one.
        text: uint8 [(N + base tokens) · width] the base token at each position as a big-endian
            number, or [0] when tokens are compared by id.
        width: bytes of a base token in ``text``.
        token_starts: int32 [T] a position where the token can be read in ``text``.
        token_lengths: int32 [T] base tokens in each token.
        token_widths: int32 [T] cells of each token: its length, or less after `close_up`.
        token_ties: int64 [T] see `tie_of_bytes`.
        learned: int64 [T, 3] left, right and count of the merge that created each token.
        changes: int64 [2, T + 1, 2] effect of this merge on the neighbour in row id + 1: count and
            occurrences of its new pair. Zero between merges, except row 0, the scratch row of
            separators.
        touched: int32 [2, T + 1] neighbours met in this merge or the last one.
        noted: int32 [3, M] per merged occurrence: the symbols before and after it (negative if they
            form no pair with it), and its position.
        sizes: int64 [`SIZES`] see `TOKENS` … `NOWHERE`.
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
    """Thresholds and order of the merging.

    Attributes:
        order: `SMALLEST_IDS`, `GREATEST_BYTES` or `FIRST_SEEN`.
        min_count: rarer pairs are not merged.
        max_length: pairs of more base tokens are not merged.
        kept_count, kept_length: the same for entering pairs into the table; wider while merges
            learned elsewhere are applied.
        base: number of base tokens; merge k creates token ``base + k``.
    """

    order: int
    min_count: int
    max_length: int
    kept_count: int
    kept_length: int
    base: int
