"""A short text in, the list of its ids out, by one call: read where Python keeps it, cut, encoded.

A call from Python takes a tenth of a microsecond, and longer with arrays and with the lock of the
interpreter released, which other threads may take; cutting and encoding a sentence takes less. The
lock is also what makes one workspace enough for all threads: nobody else runs meanwhile. The caller
holds the text. Knows the patterns that mask kernels cut by.
"""

from __future__ import annotations

import numpy as np
from numba import types

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel_holding_gil, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_whole
from bpeline.tokenizer_core.kernels.encoding.workspace_record import workspace_at
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING, store_u64
from bpeline.tokenizer_core.kernels.memory.array_sets import array_at
from bpeline.tokenizer_core.kernels.memory.list_filling import fill_list, numbers_at
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.memory.text_objects import copy_text, holds, texts_at
from bpeline.tokenizer_core.kernels.memory.types import I64, U64s
from bpeline.tokenizer_core.kernels.scanning import cl100k, gpt2, o200k

_ADDRESS = np.int64
_0 = np.uint64(0)
LISTED, CACHE_IS_FULL, NOT_LISTED = 0, 1, -1

SHORT = np.dtype(
    [
        ("text", _ADDRESS),  # room for the longest short text, `PADDING` bytes and 8 more
        ("room", np.int64),  # bytes of the longest
        ("marks", _ADDRESS),  # room for the bitmap of such a text
        ("ids", _ADDRESS),  # uint32, room for one id per byte and `ROOM` more
        ("classes", _ADDRESS),  # the table of the mask kernels
        ("workspace", _ADDRESS),  # a `WORKSPACE`; its scratch is enough
        ("texts", _ADDRESS),  # a `TEXTS`
        ("numbers", _ADDRESS),  # a `NUMBERS`
        # What the mask kernel is told, see `mark_cl100k` and `mark_o200k`.
        ("digits", np.int64),
        ("first", np.int64),
        ("second", np.int64),
    ]
)
short_at = record_at(SHORT)


_marks_at = array_at(types.uint64[::1])


@kernel
def _taken(short: Record, text: I64, sought: I64) -> I64:
    """Copy a text and clear its marks; its size, or −1."""
    size = copy_text(text, texts_at(short.texts), short.text, short.room)
    if size < 0:
        return np.int64(-1)
    for place in range(size, size + PADDING, 8):
        store_u64(short.text + place, _0)
    if sought != 0 and holds(short.text, size, np.uint64(sought)):
        return np.int64(-1)
    for place in range(0, ((size >> 6) + 2) * 8, 8):
        store_u64(short.marks + place, _0)
    return size


@kernel
def _listed(short: Record, marks: U64s, size: I64, listed: I64) -> I64:
    workspace = workspace_at(short.workspace)
    count, state = encode_whole(short.text, marks, size, workspace, short.ids), LISTED
    if count < 0:
        count, state = -1 - count, CACHE_IS_FULL
    if not fill_list(short.ids, count, listed, numbers_at(short.numbers)):
        return np.int64(NOT_LISTED)
    return np.int64(state)


@entry_kernel_holding_gil
def encode_short_gpt2(address: I64, text: I64, listed: I64, sought: I64) -> I64:
    """Encode a short text, cut as `mark_gpt2` cuts it.

    Args:
        address: of a `SHORT`.
        text: address of a ``str`` or ``bytes`` object; see `copy_text`.
        listed: address of an empty list, which receives the ids; see `list_filling`.
        sought: bytes that texts are left alone for; see `holds`. 0: none.

    Returns:
        `LISTED`; `CACHE_IS_FULL`, and listed too: the next text gets another; or `NOT_LISTED`: the
        text is not one for this kernel, or an id not one for the list.
    """
    short = short_at(address)
    size = _taken(short, text, sought)
    if size < 0:
        return np.int64(NOT_LISTED)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    gpt2.mark_span(short.text, np.int64(0), size, short.classes, marks)
    return _listed(short, marks, size, listed)


@entry_kernel_holding_gil
def encode_short_cl100k(address: I64, text: I64, listed: I64, sought: I64) -> I64:
    """The same, cut as `mark_cl100k` cuts it."""
    short = short_at(address)
    size = _taken(short, text, sought)
    if size < 0:
        return np.int64(NOT_LISTED)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    cl100k.mark_span(
        short.text, np.int64(0), size, short.classes, marks,
        short.digits, short.first != 0, short.second != 0,
    )  # fmt: skip
    return _listed(short, marks, size, listed)


@entry_kernel_holding_gil
def encode_short_o200k(address: I64, text: I64, listed: I64, sought: I64) -> I64:
    """The same, cut as `mark_o200k` cuts it."""
    short = short_at(address)
    size = _taken(short, text, sought)
    if size < 0:
        return np.int64(NOT_LISTED)
    marks = _marks_at(short.marks, (short.room >> 6) + 2)
    o200k.mark_span(
        short.text, np.int64(0), size, short.classes, marks, short.digits, short.first != 0
    )
    return _listed(short, marks, size, listed)
