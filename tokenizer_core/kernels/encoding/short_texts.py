"""A short text in, the list of its ids out, by one call.

A call from Python takes a tenth of a microsecond, and longer with arrays and with the lock of the
interpreter released, which other threads may take; cutting and encoding a sentence takes less. The
lock is also what makes one workspace enough for all threads: no other thread runs meanwhile.
"""

from __future__ import annotations

import numpy as np
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel_holding_gil, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_whole
from bpeline.tokenizer_core.kernels.encoding.word_cache import workspace_at
from bpeline.tokenizer_core.kernels.memory.addresses import (
    PADDING,
    load_u8,
    load_u64,
    store_u8,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.python_objects import append_ids, bytes_begin
from bpeline.tokenizer_core.kernels.memory.records import Record, array_at, record_at
from bpeline.tokenizer_core.kernels.memory.types import I64, U64s
from bpeline.tokenizer_core.kernels.scanning import cl100k, gpt2, o200k

_ADDRESS = np.int64
_0 = np.uint64(0)
LISTED, CACHE_IS_FULL, NO_MEMORY = 0, 1, 2

SHORT = np.dtype(
    [
        ("text", _ADDRESS),  # room for the longest short text, and `PADDING` bytes
        ("room", np.int64),  # bytes of the longest
        ("marks", _ADDRESS),  # room for the bitmap of such a text
        ("ids", _ADDRESS),  # uint32, room for one id per byte and `ROOM` more
        ("classes", _ADDRESS),  # the table of the mask kernels
        ("workspace", _ADDRESS),  # a `WORKSPACE`; its scratch is enough
        ("ints", _ADDRESS),  # a list, and room: see `append_ids`
        ("room_for_ints", _ADDRESS),
        # Options of the mask kernel, see `mark_cl100k` and `mark_o200k`.
        ("digits", np.int64),
        ("first", np.int64),
        ("second", np.int64),
    ]
)
short_at = record_at(SHORT)


_marks_at = array_at(types.uint64[::1])


@kernel
def _copy(short: Record, content: I64, size: I64) -> None:
    """Copy a text, with zeros after it, and clear its marks."""
    source, whole = bytes_begin(content), size & ~7
    for place in range(0, whole, 8):
        store_u64(short.text + place, load_u64(source + place))
    for place in range(whole, size):
        store_u8(short.text + place, load_u8(source + place))
    for place in range(size, size + PADDING, 8):
        store_u64(short.text + place, _0)
    for place in range(0, ((size >> 6) + 2) * 8, 8):
        store_u64(short.marks + place, _0)


@kernel
def _listed(short: Record, marks: U64s, size: I64, listed: I64) -> I64:
    workspace = workspace_at(short.workspace)
    count, state = encode_whole(short.text, marks, size, workspace, short.ids), LISTED
    if count < 0:
        count, state = -1 - count, CACHE_IS_FULL
    if not append_ids(short.ids, count, listed, short.ints, short.room_for_ints):
        state = NO_MEMORY
    return np.int64(state)


@entry_kernel_holding_gil
def encode_short_gpt2(address: I64, content: I64, size: I64, listed: I64) -> I64:
    """Encode a short text, cut as `mark_gpt2` cuts it.

    Args:
        address: of a `SHORT`.
        content: address of a ``bytes`` object of at most as many bytes as there is room for.
        size: how many.
        listed: address of an empty list, which receives the ids.

    Returns:
        `LISTED`; `CACHE_IS_FULL`, and listed too: the next text gets another; or `NO_MEMORY`.
    """
    short = short_at(address)
    _copy(short, content, size)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    gpt2.mark_span(short.text, np.int64(0), size, short.classes, marks)
    return _listed(short, marks, size, listed)


@entry_kernel_holding_gil
def encode_short_cl100k(address: I64, content: I64, size: I64, listed: I64) -> I64:
    """The same, cut as `mark_cl100k` cuts it."""
    short = short_at(address)
    _copy(short, content, size)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    cl100k.mark_span(
        short.text, np.int64(0), size, short.classes, marks,
        short.digits, short.first != 0, short.second != 0,
    )  # fmt: skip
    return _listed(short, marks, size, listed)


@entry_kernel_holding_gil
def encode_short_o200k(address: I64, content: I64, size: I64, listed: I64) -> I64:
    """The same, cut as `mark_o200k` cuts it."""
    short = short_at(address)
    _copy(short, content, size)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    o200k.mark_span(
        short.text, np.int64(0), size, short.classes, marks, short.digits, short.first != 0
    )
    return _listed(short, marks, size, listed)
