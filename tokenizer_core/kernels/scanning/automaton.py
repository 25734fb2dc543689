"""Pre-token starts by an automaton: one table look-up per character.

A move leads from a state, on the class of the next character, to a state, with flags:

- CUT: a pre-token ends before this character and another starts (both moves in one);
- GAP: unmatched text starts here instead of a match, up to the next match;
- AFTER_GAP: unmatched text ended here;
- ACCEPT: the attempt may end here, but a longer match may be preferred: remember the place;
- DEAD: the attempt is over; it ends at the remembered place, or nothing matches at its start;
- STOP: the span ends, and with it a pre-token.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import load_u8, load_u32, mark, unmark
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s, U32Planes, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import character_size, decode_beyond_ascii

CUT, GAP, ACCEPT, AFTER_GAP, DEAD, STOP = 1, 2, 4, 8, 16, 32
MOVE = 8  # bytes of a move: offset of the next row in the table, and flags, 4 bytes each

# State of `mark_by_automaton` between calls: int64 [5].
SPAN, POSITION, ROW, RESCANNED, MEMO_SHIFT = range(5)
PROGRESS = 5
DONE, OUTSIDE, NEEDS_MEMO, MEMO_USED = range(4)

_CUT, _GAP, _AFTER_GAP = np.uint32(CUT), np.uint32(GAP), np.uint32(AFTER_GAP)
_ACCEPT, _DEAD, _STOP = np.uint32(ACCEPT), np.uint32(DEAD), np.uint32(STOP)
_0, _1, _1_32 = np.uint64(0), np.uint64(1), np.uint32(1)
_63 = np.uint64(63)


@kernel
def _mark_span(
    base: I64,
    begin: I64,
    end: I64,
    classes: I64,
    moves: I64,
    shape: I64s,
    starts: U64s,
    gaps: U64s,
    memo: U64s,
    progress: I64s,
) -> I64:
    columns, last_line_feed, at_end, states = shape[0], shape[1], shape[2], shape[3]
    patience = 8 * (end - begin) + 65536
    remembering = len(memo) > 0
    shift = progress[MEMO_SHIFT]
    # A line feed at the end of the span has a column of its own.
    ordinary = end - np.int64(load_u8(base + end - 1) == np.uint8(0x0A))
    position, row = progress[POSITION], progress[ROW]
    before = attempt = accept = position
    gap_end = np.int64(-1)  # end of unmatched text; a failed attempt there continues that text
    while True:
        # The marks of one word collect in a register, without a branch.
        word = position >> 6
        limit = min((word + 1) << 6, ordinary)
        marks = gap_marks = _0
        flags = np.uint32(0)
        next_row = row
        width = np.int64(1)
        while position < limit:
            width = np.int64(1)
            point = np.int64(load_u8(base + position))
            if point >= 0x80:
                point, width = decode_beyond_ascii(base + position)
            # Only the last addition depends on the state, so a character costs the latency of one
            # load.
            move = (moves + MOVE * np.int64(load_u8(classes + point))) + row
            next_row, flags = np.int64(load_u32(move)), load_u32(move + 4)
            if remembering:
                if _failed_here(memo, position, before, begin, shift, row, columns, states):
                    flags = _DEAD
                before = position
            bit = np.uint64(position) & _63
            marks |= np.uint64(flags & _1_32) << bit
            gap_marks |= np.uint64((flags >> _1_32) & _1_32) << bit
            if flags & _CUT:
                attempt = position
            if flags & _ACCEPT:
                accept = position
            if flags >= _AFTER_GAP:
                break
            row = next_row
            position += width
        starts[word] |= marks
        if len(gaps) > 0:
            gaps[word] |= gap_marks
        if position >= limit:
            if position < ordinary:
                continue
            width = np.int64(1)
            move = moves + MOVE * (last_line_feed if position < end else at_end) + row
            next_row, flags = np.int64(load_u32(move)), load_u32(move + 4)
            if flags & _CUT:
                mark(starts, position)
                attempt = position
            if flags & _GAP:
                _put_gap(gaps, position)
            if flags & _ACCEPT:
                accept = position
        if flags & _STOP:
            return DONE
        if flags & _DEAD:
            progress[RESCANNED] += position - max(accept, attempt)
            if accept > attempt:
                position, row = accept, np.int64(0)
            else:
                if gap_end == attempt:
                    unmark(starts, attempt)
                else:
                    _put_gap(gaps, attempt)
                position = attempt + character_size(load_u8(base + attempt))
                row = MOVE * columns
            before = position
            if progress[RESCANNED] > patience and not remembering:
                progress[POSITION], progress[ROW] = position, row
                return NEEDS_MEMO
            continue
        if flags & _AFTER_GAP:
            gap_end = position
        row = next_row
        position += width


@kernel
def _failed_here(
    memo: U64s,
    position: I64,
    before: I64,
    begin: I64,
    shift: I64,
    row: I64,
    columns: I64,
    states: I64,
) -> bool:
    """Whether an earlier attempt was in this state at this place: then it has failed."""
    if (position >> shift) == (before >> shift) or row < 2 * MOVE * columns:
        return False
    bit = ((position - begin) >> shift) * states + row // (MOVE * columns)
    word = memo[bit >> 6]
    mask = _1 << np.uint64(bit & 63)
    memo[bit >> 6] = word | mask
    return (word & mask) != _0


@kernel
def _put_gap(gaps: U64s, position: I64) -> None:
    if len(gaps) > 0:
        mark(gaps, position)


@entry_kernel
def mark_by_automaton(
    text: U8s,
    size: I64,
    spans: I64Rows,
    classes: U8s,
    moves: U32Planes,
    shape: I64s,
    starts: U64s,
    gaps: U64s,
    memo: U64s,
    progress: I64s,
) -> I64:
    """Set the bits of ``starts`` where pre-tokens and unmatched text start.

    An attempt may read far beyond the place where it ends, and the next attempt reads that text
    again: ``a*b|a`` would read a text of a's once per character. When a span has been read eight
    times over, the kernel asks for a *memo* of one bit per state and position, in which attempts
    recognize where earlier ones have failed (Reps 1998, "Maximal-munch" tokenization in linear
    time).

    Args:
        text, size, spans, starts: see `mark_gpt2`.
        classes: uint8 [0x110000], moves: uint32, shape: int64 [4] (columns, column of a line feed
            that ends a span, column of the end, rows): see `SplitAutomaton`.
        gaps: uint64, like ``starts``, receives the starts of unmatched text; or empty.
        memo: uint64, zero, rows bits for each of 1 + ((end - begin) >> shift) positions; or empty.
        progress: int64 [PROGRESS], zero at first, with POSITION -1.

    Returns:
        DONE; OUTSIDE: a span is not within the text; NEEDS_MEMO: call again with a memo for the
        span ``progress[SPAN]`` and its shift; MEMO_USED: call again without it.
    """
    base = text.ctypes.data
    for i in range(progress[SPAN], spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return OUTSIDE
        if begin == end:
            continue
        if progress[POSITION] < 0:
            progress[POSITION], progress[ROW], progress[RESCANNED] = begin, 0, 0
        status = _mark_span(
            base,
            begin,
            end,
            classes.ctypes.data,
            moves.ctypes.data,
            shape,
            starts,
            gaps,
            memo,
            progress,
        )
        if status == NEEDS_MEMO:
            progress[SPAN] = i
            return NEEDS_MEMO
        progress[POSITION] = -1
        if len(memo) > 0:
            progress[SPAN] = i + 1
            return MEMO_USED
    return DONE
