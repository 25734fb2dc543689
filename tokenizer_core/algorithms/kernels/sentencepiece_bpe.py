"""Kernels of SentencePiece BPE: split texts, drop or replace unknown characters."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I64Rows, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import decode

ONE, SIX, BIT_MASK = np.uint64(1), np.uint64(6), np.uint64(63)
POINT_BITS = np.uint64(21)
MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


@kernel
def place_of_pair(left: I64, right: I64, shift: U64) -> U64:
    """The bit of two characters in the pair filter."""
    return (((np.uint64(left) << POINT_BITS) | np.uint64(right)) * MIX) >> shift


@entry_kernel
def fill_pair_filter(left: I64s, right: I64s, shift: U64, joined: U64s) -> None:
    """Enter pairs of characters into a filter, which may have false positives.

    Args:
        left, right: int64 ``[n]``, code points.
        shift: uint64, 64 minus the base-2 logarithm of the number of bits.
        joined: uint64 ``[bits / 64]``, zero at first.
    """
    for i in range(len(left)):
        place = place_of_pair(left[i], right[i], shift)
        joined[np.int64(place >> SIX)] |= ONE << (place & BIT_MASK)


@entry_kernel
def mark_unjoined(
    text: U8s, size: I64, spans: I64Rows, joined: U64s, shift: U64, marks: U64s
) -> bool:
    """Mark span starts, and characters that no merge joins to the one before.

    Args:
        text: uint8, valid UTF-8 within the spans, followed by `PADDING` readable bytes.
        spans: int64 ``[n, 2]``. marks: uint64 bitmap; bits are added.

    Returns:
        Whether all spans lie within the text.
    """
    base = text.ctypes.data
    for span in range(len(spans)):
        begin, end = spans[span, 0], spans[span, 1]
        if begin < 0 or end > size or begin > end:
            return False
        if begin == end:
            continue
        marks[begin >> 6] |= ONE << np.uint64(begin & 63)
        before, width = decode(base + begin)
        at = begin + width
        while at < end:
            point, width = decode(base + at)
            place = place_of_pair(before, point, shift)
            is_joined = (joined[np.int64(place >> SIX)] >> (place & BIT_MASK)) & ONE
            marks[at >> 6] |= (is_joined ^ ONE) << np.uint64(at & 63)
            before = point
            at += width
    return True


@entry_kernel
def keep_known(
    text: U8s,
    spans: I64Rows,
    marks: U64s,
    known: U64s,
    kept: U8s,
    kept_spans: I64Rows,
    kept_marks: U64s,
) -> I64:
    """Copy the known characters of spans; return the number of bytes.

    Args:
        text, spans, marks: as in `mark_unjoined`; marks are the starts of pre-tokens.
        known: uint64, one bit per code point.
        kept: uint8, with room for the bytes of all spans, which are joined.
        kept_spans, kept_marks: int64 ``[n, 2]`` and zero bitmap; receive the spans and the starts
            of pre-tokens in ``kept``.
    """
    base = text.ctypes.data
    to = np.int64(0)
    for span in range(len(spans)):
        at, end = spans[span, 0], spans[span, 1]
        kept_spans[span, 0] = to
        starts = ONE
        while at < end:
            starts |= (marks[at >> 6] >> np.uint64(at & 63)) & ONE
            point, width = decode(base + at)
            if (known[point >> 6] >> np.uint64(point & 63)) & ONE:
                kept_marks[to >> 6] |= starts << np.uint64(to & 63)
                starts = np.uint64(0)
                for i in range(width):
                    kept[to + i] = text[at + i]
                to += width
            at += width
        kept_spans[span, 1] = to
    return to


@entry_kernel
def write_symbols(
    symbols: U32s,
    ends: I64s,
    first: I64,
    edges: I64s,
    tokens: U32s,
    fused: bool,
    ids: U32s,
    ends_of_ids: I64s,
) -> I64:
    """Copy symbols, replacing those that are not tokens; return the number of ids.

    Args:
        symbols: uint32, token ids; from ``first`` on other symbols.
        ends, ends_of_ids: int64 ``[n]``, the number of symbols, and then of ids, up to the end of
            each span.
        edges, tokens: int64 ``[kinds + 1]`` and uint32, the ids for each kind of symbol.
        fused: in a run of such symbols write only the first.
    """
    read = written = np.int64(0)
    for span in range(len(ends)):
        was_none = False
        while read < ends[span]:
            kind = np.int64(symbols[read]) - first
            if kind < 0:
                ids[written] = symbols[read]
                written += 1
            elif not (fused and was_none):
                for at in range(edges[kind], edges[kind + 1]):
                    ids[written] = tokens[at]
                    written += 1
            was_none = kind >= 0
            read += 1
        ends_of_ids[span] = written
    return written
