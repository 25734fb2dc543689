"""Token ids in, the bytes of their tokens out."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import (
    entry_kernel,
    entry_kernel_holding_gil,
    kernel,
)
from bpeline.tokenizer_core.kernels.memory.addresses import load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.python_lists import (
    INT_TAG,
    INT_VALUE,
    LIST_ITEMS,
    LIST_SIZE,
    OBJECT_TYPE,
)
from bpeline.tokenizer_core.kernels.memory.types import I64, U8s, U32s, U64Rows

SLOT = 16  # bytes kept of each id: a token of up to 15 and its length, in one line of the cache
LONG = 255  # in place of the length, where the token is longer and lies elsewhere

ABOVE = np.uint64(56)
BELOW = np.uint64((1 << 56) - 1)
SMALL = np.uint64((1 << 30) - 1)  # the bits of a Python int that has one digit


@kernel
def put_token(slot: I64, elsewhere: I64, target: I64, room: I64) -> I64:
    """Write one token if there is room for it; return its length, 0 where the vocab has none.

    Args:
        slot: address of the id's slot.
        elsewhere: address of the long tokens.
        target: address to write at; up to `SLOT` bytes behind the token are written too.
        room: bytes that the token may have; negative: none.
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
    """Write the tokens one after the other, as far as there is room for them.

    Args:
        ids: uint32 ``[n]``.
        slots: uint64 ``[highest id + 1, 2]``: for each id the bytes of its token and, as the last
            of the 16 bytes, their number; 0: the vocab lacks the id. Of a token above 15 bytes: its
            place among the long ones, and its length below `LONG`.
        long_tokens: uint8, the long tokens joined, with 8 bytes behind.
        content: uint8; there is room when it has `SLOT` bytes more than the tokens together.

    Returns:
        Bytes of all tokens together, or −1 − i when ``ids[i]`` is not in the vocab.
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
    """`join_tokens` of a Python list, which is read where it lies.

    Args:
        listed: address of the list, which the caller holds; see `python_lists`.
        facts: address of six int64: the type of plain ints, their tags when 0 and when 1; address
            of the slots, their number, address of the long tokens. (Arrays as arguments cost more
            to take apart than a hundred ids to decode.)
        target: address to write at.
        room: bytes that the tokens may have together; `SLOT` bytes more are there.

    Returns:
        Bytes of all tokens together, or −1 where an item is no id of the vocab or no plain int.
    """
    int_type, zero, one = load_u64(facts), load_u64(facts + 8), load_u64(facts + 16)
    slots, n_slots = np.int64(load_u64(facts + 24)), np.int64(load_u64(facts + 32))
    elsewhere = np.int64(load_u64(facts + 40))
    items = np.int64(load_u64(listed + LIST_ITEMS))
    size = np.int64(0)
    for i in range(np.int64(load_u64(listed + LIST_SIZE))):
        item = np.int64(load_u64(items + 8 * i))
        tag = load_u64(item + INT_TAG)
        if load_u64(item + OBJECT_TYPE) != int_type or (tag != zero and tag != one):
            return np.int64(-1)
        id_ = np.int64(load_u64(item + INT_VALUE) & SMALL)
        if id_ >= n_slots:
            return np.int64(-1)
        length = put_token(slots + SLOT * id_, elsewhere, target + size, room - size)
        if length == 0:
            return np.int64(-1)
        size += length
    return size
