"""Encoding of a short text to a list of ids in a single call.

A call from Python takes 0.1 µs, and longer with array arguments or when it releases the GIL;
encoding a sentence takes less. Holding the GIL also makes one workspace enough for all threads.
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
        ("text", _ADDRESS),  # room for the longest short text and `PADDING` bytes
        ("room", np.int64),  # bytes of the longest short text
        ("marks", _ADDRESS),  # room for its bitmap
        ("ids", _ADDRESS),  # uint32, room for one id per byte and `ROOM` more
        ("classes", _ADDRESS),  # the table of the mask kernels
        ("workspace", _ADDRESS),  # a `WORKSPACE` with enough scratch
        ("ints", _ADDRESS),  # ``ints`` and ``room`` of `append_ids`
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
    """Copy a text, append zeros, and clear its marks."""
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
    """Encode a short text that is split like `mark_gpt2`.

    Returns `LISTED`, `CACHE_IS_FULL` (ids are listed; use another cache for the next text) or
    `NO_MEMORY`.

    Args:
        address: of a `SHORT`.
        content: address of a ``bytes`` object of ``size`` bytes, at most ``room``.
        listed: address of an empty list, which receives the ids.
    """
    short = short_at(address)
    _copy(short, content, size)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    gpt2.mark_span(short.text, np.int64(0), size, short.classes, marks)
    return _listed(short, marks, size, listed)


@entry_kernel_holding_gil
def encode_short_cl100k(address: I64, content: I64, size: I64, listed: I64) -> I64:
    """`encode_short_gpt2` for text that is split like `mark_cl100k`."""
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
    """`encode_short_gpt2` for text that is split like `mark_o200k`."""
    short = short_at(address)
    _copy(short, content, size)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    o200k.mark_span(
        short.text, np.int64(0), size, short.classes, marks, short.digits, short.first != 0
    )
    return _listed(short, marks, size, listed)
