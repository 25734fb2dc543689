"""Decoding of ids to bytes; characters, words and lines of texts."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import (
    entry_kernel,
    entry_kernel_holding_gil,
    kernel,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.python_objects import (
    NO_OBJECT,
    clear_error,
    int_value,
    list_item,
    list_size,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, I64Rows, I64s, U8s, U32s, U64Rows
from bpeline.tokenizer_core.kernels.scanning.characters import decode

CHARS, WORDS, LINES = range(3)
SUMS = 3


@kernel
def _is_space(point: I64) -> bool:
    """``str.isspace`` of a code point."""
    if point < 0x80:
        return point == 0x20 or 0x09 <= point <= 0x0D or 0x1C <= point <= 0x1F
    if point < 0x1680:
        return point == 0x85 or point == 0xA0
    general = 0x2000 <= point <= 0x200A or point in (0x2028, 0x2029, 0x202F, 0x205F)
    return general or point == 0x1680 or point == 0x3000


@entry_kernel
def measure_spans(text: U8s, spans: I64Rows, sums: I64s) -> None:
    """Add the numbers of code points, words and lines of spans to ``sums``.

    Words are maximal runs without white space. Lines end at line feeds; text after the last one is
    a line too. ``text`` is followed by `PADDING` readable bytes.
    """
    base = text.ctypes.data
    for span in range(len(spans)):
        at, end = spans[span, 0], spans[span, 1]
        if at == end:
            continue
        chars = words = np.int64(0)
        lines = np.int64(text[end - 1] != 0x0A)
        outside = True
        while at < end:
            point, size = decode(base + at)
            chars += 1
            at += size
            if _is_space(point):
                outside = True
                lines += point == 0x0A
            else:
                words += outside
                outside = False
        sums[CHARS] += chars
        sums[WORDS] += words
        sums[LINES] += lines


SLOT = 16  # bytes per id: a token of up to 15 bytes and its length, in one cache line
LONG = 255  # in place of the length: the token is longer and stored elsewhere

ABOVE = np.uint64(56)
BELOW = np.uint64((1 << 56) - 1)


@kernel
def put_token(slot: I64, elsewhere: I64, target: I64, room: I64) -> I64:
    """Write one token if it fits; returns its length, or 0 if the vocab lacks the id.

    Arguments are addresses of the id's slot, of the long tokens and of the target, of which up to
    `SLOT` bytes after the token are overwritten. ``room`` for the token may be negative.
    """
    first = load_u64(slot)
    second = load_u64(slot + 8)
    length = np.int64(second >> ABOVE)
    if length == LONG:
        length = np.int64(second & BELOW)
        if length <= room:
            begin = elsewhere + np.int64(first)
            for at in range(0, length, 8):
                store_u64(target + at, load_u64(begin + at))
    elif length <= room:
        store_u64(target, first)
        store_u64(target + 8, second)
    return length


@entry_kernel
def join_tokens(ids: U32s, slots: U64Rows, long_tokens: U8s, content: U8s) -> I64:
    """Write tokens one after the other while they fit.

    Returns the bytes of all tokens, or −1 − i if ``ids[i]`` is not in the vocab.

    Args:
        ids: uint32 ``[n]``.
        slots: uint64 ``[highest id + 1, 2]``: the bytes of the token and, in the last of the 16
            bytes, their number; 0: the vocab lacks the id. For a token above 15 bytes: its offset
            in ``long_tokens``, and its length below `LONG`.
        long_tokens: uint8, the long tokens joined, and 8 bytes more.
        content: uint8; all tokens fit if it has `SLOT` bytes more than they.
    """
    size = np.int64(0)
    room = np.int64(len(content) - SLOT)
    source = np.int64(slots.ctypes.data)
    elsewhere = np.int64(long_tokens.ctypes.data)
    target = np.int64(content.ctypes.data)
    for i in range(len(ids)):
        id_ = np.int64(ids[i])
        if id_ >= len(slots):
            return np.int64(-1 - i)
        length = put_token(source + SLOT * id_, elsewhere, target + size, room - size)
        if length == 0:
            return np.int64(-1 - i)
        size += length
    return size


@entry_kernel_holding_gil
def join_listed(listed: I64, facts: I64, target: I64, room: I64) -> I64:
    """`join_tokens` for a Python list; returns −1 if an item is not a known id.

    Args:
        facts: address of five int64: addresses of True, False and the slots, number of slots,
            address of the long tokens. (Unpacking array arguments costs more than decoding a
            hundred ids.)
        target: address to write to.
        room: bytes that the tokens may have; `SLOT` more bytes are writable.
    """
    true, false = np.int64(load_u64(facts)), np.int64(load_u64(facts + 8))
    slots, n_slots = np.int64(load_u64(facts + 16)), np.int64(load_u64(facts + 24))
    elsewhere = np.int64(load_u64(facts + 32))
    size = np.int64(0)
    for i in range(list_size(listed)):
        item, id_ = list_item(listed, i), np.int64(-1)
        if item != NO_OBJECT and item != true and item != false:
            id_ = int_value(item)  # may run Python code that changes the list
        if id_ < 0 or id_ >= n_slots:
            clear_error()
            return np.int64(-1)
        length = put_token(slots + SLOT * id_, elsewhere, target + size, room - size)
        if length == 0:
            return np.int64(-1)
        size += length
    return size
