r"""Pre-token starts for superwords, 64 bytes at a time.

The pattern is `\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)`; text between matches is a
pre-token as well. Matches are rare in most text. A character and the next byte tell where one may
begin:

- at the first number of a run;
- at the first character of a run of others (neither letters, numbers nor white space) of more than
  one byte; the space before such a run belongs to it;
- at the first space of a run that continues with white space or the end after its first byte.

These places are found as bits, then matched one after the other, like `regex`.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    mark,
    mask_spaces,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, U8s, U64s
from bpeline.tokenizer_core.kernels.scanning.characters import character_size, decode_beyond_ascii
from bpeline.tokenizer_core.kernels.scanning.classes import (
    MARK,
    NUMBER,
    OTHER,
    WHITE_SPACE,
)
from bpeline.tokenizer_core.kernels.scanning.masks import class_masks

_0, _1, _63 = np.uint64(0), np.uint64(1), np.uint64(63)
_ALL = ~np.uint64(0)
_SPACE, _SLASH = np.uint8(0x20), np.uint8(0x2F)
_LINE_FEED, _RETURN = np.uint8(0x0A), np.uint8(0x0D)
_GROUP = 3  # numbers


@kernel
def _class_at(address: I64, table: I64) -> I64:
    point = np.int64(load_u8(address))
    if point >= 0x80:
        point, _ = decode_beyond_ascii(address)
    return np.int64(load_u8(table + point))


@kernel
def _is_other(class_: I64) -> bool:
    return class_ in (OTHER, MARK)


@kernel
def _mark_within(starts: U64s, position: I64, end: I64) -> None:
    if position < end:
        mark(starts, position)


@kernel
def _after_numbers(base: I64, at: I64, end: I64, table: I64, starts: U64s) -> I64:
    """Mark a run of numbers in groups of three, and its end; returns the end."""
    number = np.int64(0)
    while at < end and _class_at(base + at, table) == NUMBER:
        if number % _GROUP == 0:
            mark(starts, at)
        number += 1
        at += character_size(load_u8(base + at))
    _mark_within(starts, at, end)
    return at


@kernel
def _after_spaces(base: I64, at: I64, end: I64, table: I64, starts: U64s) -> I64:
    """Mark a run of spaces and its end, without a last space before other characters.

    Returns the end, or ``at`` if nothing matches.
    """
    stop = at
    while stop < end and load_u8(base + stop) == _SPACE:
        stop += 1
    if stop < end and _class_at(base + stop, table) != WHITE_SPACE:
        stop -= 1
    if stop > at:
        mark(starts, at)
        _mark_within(starts, stop, end)
    return stop


@kernel
def _after_others(base: I64, at: I64, begin: I64, end: I64, table: I64, starts: U64s) -> I64:
    """Mark a run of others, with a space before and line ends and slashes after it.

    Text before ``begin`` is matched already. Returns the end of the match, or ``at`` if a single
    character matches nothing. A slash after a line end may begin a run, which is matched next.
    """
    start = at
    if at > begin and load_u8(base + at - 1) == _SPACE:
        start = at - 1
    while True:
        stop = at
        number = np.int64(0)
        while stop < end and _is_other(_class_at(base + stop, table)):
            number += 1
            stop += character_size(load_u8(base + stop))
        if number < 2:
            return at
        while stop < end:
            byte = load_u8(base + stop)
            if byte != _SLASH and byte != _LINE_FEED and byte != _RETURN:
                break
            stop += 1
        mark(starts, start)
        _mark_within(starts, stop, end)
        at = start = stop
        # Only a slash can lead into a run; other runs are found by their first bit.
        if at == end or load_u8(base + at - 1) != _SLASH:
            return at


@kernel
def mark_span(base: I64, begin: I64, end: I64, table: I64, starts: U64s) -> None:
    mark(starts, begin)
    numbers_before = others_before = spaces_before = _0
    straddling = (_0, _0, _0)
    matched = begin  # text before is matched
    block = begin & ~np.int64(63)
    valid = _ALL << np.uint64(begin & np.int64(63))
    while block < end:
        if end - block < 64:
            valid &= _ALL >> np.uint64(64 - (end - block))
        address = base + block
        letters, numbers, white, _, _, _, _, straddling = class_masks(
            address, valid, straddling, table
        )
        others = valid & ~(letters | numbers | white)
        spaces = mask_spaces(address) & valid
        # What follows the last byte is unknown, so anything may match there.
        last = (_1 << _63) | (valid & ~(valid >> _1))
        candidates = numbers & ~((numbers << _1) | numbers_before)
        candidates |= others & ~((others << _1) | others_before) & ((others >> _1) | last)
        candidates |= spaces & ~((spaces << _1) | spaces_before) & ((white >> _1) | last)
        while candidates:
            at = block + trailing_zeros(candidates)
            bit = candidates & (_0 - candidates)
            candidates ^= bit
            if at < matched:
                continue
            if numbers & bit:
                matched = _after_numbers(base, at, end, table, starts)
            elif spaces & bit:
                matched = _after_spaces(base, at, end, table, starts)
            else:
                matched = _after_others(base, at, matched, end, table, starts)
        numbers_before = numbers >> _63
        others_before = others >> _63
        spaces_before = spaces >> _63
        valid = _ALL
        block += 64


@entry_kernel
def mark_superwords(text: U8s, size: I64, spans: I64Rows, table: U8s, starts: U64s) -> bool:
    """Set the bits of ``starts`` where pre-tokens start; see `mark_gpt2`."""
    base = text.ctypes.data
    for i in range(spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return False
        if begin < end:
            mark_span(base, begin, end, table.ctypes.data, starts)
    return True
