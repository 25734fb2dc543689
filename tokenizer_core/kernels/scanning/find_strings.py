"""Search for given strings: leftmost first, the longest at each place."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    BLOCK,
    load_block,
    load_u8,
    of_two,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    U64,
    I16Rows,
    I32Rows,
    I32s,
    I64Rows,
    I64s,
    U8s,
    U64s,
)

_VECTOR = ir.VectorType(ir.IntType(8), BLOCK)
_LANES = ir.VectorType(ir.IntType(32), BLOCK)

# Limit of bytes compared without a match: per byte of the text, and in addition.
_COMPARED, _COMPARED_FIRST = 64, 1 << 14

_0 = np.uint64(0)
_1 = np.uint64(1)


def _compare(builder: Any, address: Any, byte: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    lane = builder.insert_element(undefined, byte, ir.Constant(ir.IntType(32), 0))
    wanted = builder.shuffle_vector(lane, undefined, ir.Constant(_LANES, [0] * BLOCK))
    equal = builder.icmp_unsigned("==", load_block(builder, address), wanted)
    return builder.bitcast(equal, ir.IntType(64))


# ``mask(address, byte) -> uint64``: which of 64 bytes are ``byte``.
_mask_equal = of_two(types.uint64, types.int64, types.uint8, _compare)


@kernel
def _candidates(address: I64, openings: I16Rows) -> U64:
    matches = _0
    for i in range(openings.shape[0]):
        first = _mask_equal(address, np.uint8(openings[i, 0]))
        if first:  # rare; the branch keeps LLVM from transforming the loop
            if openings[i, 1] >= 0:
                first &= _mask_equal(address + 1, np.uint8(openings[i, 1]))
            matches |= first
    return matches


@kernel
def _begins_like_one(address: I64, pairs: U64s) -> bool:
    pair = np.int64(load_u8(address)) | np.int64(load_u8(address + 1)) << 8
    return (pairs[pair >> 6] >> np.uint64(pair & 63)) & _1 != _0


@kernel
def _first_from(low: I64, high: I64, depth: I64, least: I64, sought: U8s, offsets: I64s) -> I64:
    """The first string from ``low`` on whose byte at ``depth`` is at least ``least``."""
    while low < high:
        middle = (low + high) >> 1
        if sought[offsets[middle] + depth] < least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _longest_at(
    base: I64, position: I64, end: I64, firsts: I64s, sought: U8s, offsets: I64s
) -> tuple[I64, I64]:
    """Index of the longest string at ``position``, or -1; and the bytes read.

    Each byte narrows the range of sorted strings; a string comes before those that it begins.
    """
    byte = np.int64(load_u8(base + position))
    low, high = firsts[byte], firsts[byte + 1]
    longest = np.int64(-1)
    depth = np.int64(1)
    while low < high:
        if offsets[low + 1] - offsets[low] == depth:
            longest = low
            low += 1
        if low == high or position + depth >= end:
            break
        byte = np.int64(load_u8(base + position + depth))
        if sought[offsets[low] + depth] != byte:
            low = _first_from(low, high, depth, byte, sought, offsets)
        if low < high and sought[offsets[high - 1] + depth] != byte:
            high = _first_from(low, high, depth, byte + 1, sought, offsets)
        depth += 1
    return longest, depth


@kernel
def _find(
    base: I64,
    begin: I64,
    end: I64,
    openings: I16Rows,
    pairs: U64s,
    firsts: I64s,
    sought: U8s,
    offsets: I64s,
    found: I64Rows,
    count: I64,
) -> tuple[I64, I64]:
    position = np.int64(begin)
    compared = np.int64(0)
    few = openings.shape[0] > 0
    while position < end:
        if few:
            candidates = _candidates(base + position, openings)
            block = position
            position += 64
        else:
            while position < end and not _begins_like_one(base + position, pairs):
                position += 1
            if position >= end:
                break
            candidates = _1
            block = position
            position += 1
        while candidates:
            place = block + trailing_zeros(candidates)
            candidates &= candidates - _1
            if place >= end:
                break
            index, bytes_read = _longest_at(base, place, end, firsts, sought, offsets)
            compared += bytes_read
            if index >= 0:
                if count == found.shape[0]:
                    return count, place
                found[count, 0] = place
                position = place + offsets[index + 1] - offsets[index]
                found[count, 1] = position
                found[count, 2] = index
                count += 1
                if compared > _COMPARED_FIRST + _COMPARED * (position - begin):
                    return count, position
                break
            if compared > _COMPARED_FIRST + _COMPARED * (place - begin):
                return count, place
    return count, np.int64(end)


@entry_kernel
def find_specials(
    text: U8s,
    begin: I64,
    end: I64,
    openings: I16Rows,
    pairs: U64s,
    firsts: I64s,
    sought: U8s,
    offsets: I64s,
    found: I64Rows,
) -> tuple[I64, I64]:
    """Find strings from the left, without overlap, the longest at each place.

    Returns the number of strings found, and where to continue: ``end``; or before it if ``found``
    is full, or if so much was compared in vain that `find_longest` is faster.

    Args:
        text: uint8 with `PADDING` readable bytes after ``end``.
        openings: int16 [p, 2], the distinct first two bytes; the second is -1 for one-byte strings.
            Empty if there are too many to compare all of them.
        pairs: uint64 [1024], bitmap of the first two bytes of strings, the second times 256.
        firsts: int64 [257], for each byte the first string that begins with it or a greater one.
        sought: uint8, the strings joined, sorted.
        offsets: int64 [n + 1], where they begin.
        found: int64 [capacity, 3], receives begin, end and index of each occurrence.
    """
    base = text.ctypes.data
    tables = openings, pairs, firsts, sought, offsets
    return _find(base, begin, end, *tables, found, 0)


@entry_kernel
def find_specials_in_spans(
    text: U8s,
    spans: I64Rows,
    openings: I16Rows,
    pairs: U64s,
    firsts: I64s,
    sought: U8s,
    offsets: I64s,
    found: I64Rows,
    counts: I64s,
    span: I64,
    position: I64,
) -> tuple[I64, I64, I64]:
    """Find strings in each of many ranges separately; see `find_specials`.

    Returns the number of strings found, the range to continue with (the number of ranges: done),
    and the position. ``span`` and ``position`` are 0 and the start of the first range, or these
    values. ``counts`` [n] is increased by the number of strings in each range.
    """
    base = text.ctypes.data
    tables = openings, pairs, firsts, sought, offsets
    count = np.int64(0)
    while span < spans.shape[0]:
        before = count
        end = spans[span, 1]
        count, position = _find(base, position, end, *tables, found, count)
        counts[span] += count - before
        if position < end:
            break
        span += 1
        if span < spans.shape[0]:
            position = spans[span, 0]
    return count, np.int64(span), np.int64(position)


_LABEL, _CHILD, _SIBLING, _FALLBACK, _STRING = 0, 1, 2, 3, 4  # columns of a state
COLUMNS = 5


@kernel
def _child(states: I32Rows, state: I64, byte: I64) -> I64:
    child = np.int64(states[state, _CHILD])
    while child != 0 and states[child, _LABEL] != byte:
        child = np.int64(states[child, _SIBLING])
    return child


@kernel
def _after(states: I32Rows, state: I64, byte: I64) -> I64:
    """The state after one more byte, with fallbacks."""
    child = _child(states, state, byte)
    while child == 0 and state != 0:
        state = np.int64(states[state, _FALLBACK])
        child = _child(states, state, byte)
    return child


@entry_kernel
def read_from_right(sought: U8s, offsets: I64s, states: I32Rows, queue: I32s) -> I64:
    """Build an Aho-Corasick automaton that reads from right to left; returns its size.

    ``sought`` and ``offsets`` are distinct strings, see `find_specials`. ``states``
    [len(sought) + 1, COLUMNS] receives the automaton; ``queue`` [len(sought) + 1] is scratch.
    """
    states[0] = 0
    states[0, _STRING] = -1
    number = np.int64(1)
    for string in range(len(offsets) - 1):
        state = np.int64(0)
        for place in range(offsets[string + 1] - 1, offsets[string] - 1, -1):
            child = _child(states, state, np.int64(sought[place]))
            if child == 0:
                child = number
                number += 1
                states[child, _LABEL] = sought[place]
                states[child, _CHILD] = 0
                states[child, _SIBLING] = states[state, _CHILD]
                states[child, _FALLBACK] = 0
                states[child, _STRING] = -1
                states[state, _CHILD] = child
            state = child
        states[state, _STRING] = string
    # Breadth first: each state falls back to a shorter one.
    queue[0] = 0
    done, waiting = np.int64(0), np.int64(1)
    while done < waiting:
        state = np.int64(queue[done])
        done += 1
        child = np.int64(states[state, _CHILD])
        while child != 0:
            if state != 0:
                fallback = np.int64(states[state, _FALLBACK])
                fallback = _after(states, fallback, np.int64(states[child, _LABEL]))
                states[child, _FALLBACK] = fallback
                if states[child, _STRING] < 0:
                    states[child, _STRING] = states[fallback, _STRING]
            queue[waiting] = child
            waiting += 1
            child = np.int64(states[child, _SIBLING])
    return number


@entry_kernel
def find_longest(
    text: U8s,
    begin: I64,
    window: I64,
    end: I64,
    longest: I64,
    states: I32Rows,
    offsets: I64s,
    strings: I32s,
    found: I64Rows,
) -> tuple[I64, I64]:
    """Find strings that begin in [begin, window), like `find_specials`.

    Returns the number of strings found, and where to continue: ``window``, or the end of the last
    string.

    Args:
        end: end of the text, which strings may not cross.
        longest: bytes of the longest string.
        states, offsets: result and argument of `read_from_right`.
        strings: int32 ``[window - begin]``, scratch.
        found: int64 ``[window - begin, 3]``, receives begin, end and index of each.
    """
    state = np.int64(0)
    for place in range(min(end, window + longest) - 1, begin - 1, -1):
        state = _after(states, state, np.int64(text[place]))
        if place < window:
            strings[place - begin] = states[state, _STRING]
    count, place = np.int64(0), begin
    while place < window:
        string = np.int64(strings[place - begin])
        if string < 0:
            place += 1
            continue
        found[count, 0] = place
        place += offsets[string + 1] - offsets[string]
        found[count, 1] = place
        found[count, 2] = string
        count += 1
    return count, place
