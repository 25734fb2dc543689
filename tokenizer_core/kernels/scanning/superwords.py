r"""Pre-token starts of what superwords are cut at, 64 bytes at a time.

The pattern is `\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)`, and what lies between matches is
a pre-token as well. Matches are rare in most text, and where one can begin is told by a character
and the next byte:

- at the first number of a run;
- at the first character of a run of others (neither letters, numbers nor white space) that does
  not end with its first byte; the space before such a run belongs to it;
- at the first space of a run that white space or the end follows behind its first byte.

These places are found as bits, and matched one after the other, as `regex` does.
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
    """Mark a run of numbers in threes, and what follows; returns where that is."""
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
    """Mark a run of spaces, without its last one where no white space follows, and what is behind.

    Returns:
        Where that is, or ``at`` where nothing matches.
    """
    behind = at
    while behind < end and load_u8(base + behind) == _SPACE:
        behind += 1
    if behind < end and _class_at(base + behind, table) != WHITE_SPACE:
        behind -= 1
    if behind > at:
        mark(starts, at)
        _mark_within(starts, behind, end)
    return behind


@kernel
def _after_others(base: I64, at: I64, begin: I64, end: I64, table: I64, starts: U64s) -> I64:
    """Mark a run of others with the space before it and the ends of lines and slashes behind.

    Args:
        begin: the place before which all is matched.

    Returns:
        Where the match ends, or ``at`` where a single character matches nothing. A slash behind the
        end of a line may be the first of a run, whose rest is the next to be matched.
    """
    start = at
    if at > begin and load_u8(base + at - 1) == _SPACE:
        start = at - 1
    while True:
        behind = at
        number = np.int64(0)
        while behind < end and _is_other(_class_at(base + behind, table)):
            number += 1
            behind += character_size(load_u8(base + behind))
        if number < 2:
            return at
        while behind < end:
            byte = load_u8(base + behind)
            if byte != _SLASH and byte != _LINE_FEED and byte != _RETURN:
                break
            behind += 1
        mark(starts, start)
        _mark_within(starts, behind, end)
        at = start = behind
        # Only a slash can have led into a run; elsewhere the next run is found by its first bit.
        if at == end or load_u8(base + at - 1) != _SLASH:
            return at


@kernel
def mark_span(base: I64, begin: I64, end: I64, table: I64, starts: U64s) -> None:
    mark(starts, begin)
    numbers_before = others_before = spaces_before = _0
    straddling = (_0, _0, _0)
    matched = begin  # all before is
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
        # Of the last byte it is not known what follows: it may be all.
        last = (_1 << _63) | (valid & ~(valid >> _1))
        found = numbers & ~((numbers << _1) | numbers_before)
        found |= others & ~((others << _1) | others_before) & ((others >> _1) | last)
        found |= spaces & ~((spaces << _1) | spaces_before) & ((white >> _1) | last)
        while found:
            at = block + trailing_zeros(found)
            bit = found & (_0 - found)
            found ^= bit
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
    """Set the bits of ``starts`` where pre-tokens start; arguments as for `mark_gpt2`."""
    base = text.ctypes.data
    for i in range(spans.shape[0]):
        begin, end = spans[i, 0], spans[i, 1]
        if begin < 0 or end < begin or end > size:
            return False
        if begin < end:
            mark_span(base, begin, end, table.ctypes.data, starts)
    return True
