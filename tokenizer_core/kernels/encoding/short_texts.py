"""A short text in, its ids out, by one call of a kernel: read where Python keeps it, cut, encoded.

A call from Python takes a quarter of a microsecond, and longer with arrays and with the lock of the
interpreter released, which other threads may take; cutting and encoding a sentence takes less. The
caller holds the bytes. Knows the patterns that mask kernels cut by.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel_holding_gil, kernel
from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_whole
from bpeline.tokenizer_core.kernels.encoding.workspace_record import workspace_at
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING, load_u64, store_u64
from bpeline.tokenizer_core.kernels.memory.python_lists import BYTES_BEGIN, BYTES_SIZE, OBJECT_TYPE
from bpeline.tokenizer_core.kernels.memory.records import Record, record_at
from bpeline.tokenizer_core.kernels.memory.types import I64, U64s
from bpeline.tokenizer_core.kernels.scanning import cl100k, gpt2, o200k

_ADDRESS = np.int64
_0 = np.uint64(0)
NOT_BYTES = -(1 << 62)

SHORT = np.dtype(
    [
        ("text", _ADDRESS),  # room for the longest short text, `PADDING` bytes and 8 more
        ("ids", _ADDRESS),  # uint32, room for one id per byte and `ROOM` more
        ("classes", _ADDRESS),  # the table of the mask kernels
        ("workspace", _ADDRESS),  # a `WORKSPACE`; its scratch is enough
        ("bytes_type", _ADDRESS),  # the type of what is read
        # What the mask kernel is told, see `mark_cl100k` and `mark_o200k`.
        ("digits", np.int64),
        ("first", np.int64),
        ("second", np.int64),
    ]
)
short_at = record_at(SHORT)


@kernel
def _taken(short: Record, content: I64, marks: U64s) -> I64:
    """Copy the text of a ``bytes`` object, behind which nothing may be read; its size.

    Eight bytes at a time: an object begins where a multiple of eight does, so that no memory is
    touched which the object's last byte does not lie in. −1: it is no ``bytes`` object.
    """
    if np.int64(load_u64(content + OBJECT_TYPE)) != short.bytes_type:
        return np.int64(-1)
    size = np.int64(load_u64(content + BYTES_SIZE))
    for place in range(0, size, 8):
        store_u64(short.text + place, load_u64(content + BYTES_BEGIN + place))
    for place in range(size, size + PADDING, 8):
        store_u64(short.text + place, _0)
    for block in range((size >> 6) + 2):
        marks[block] = _0
    return size


@kernel
def _ids(short: Record, marks: U64s, size: I64) -> I64:
    return encode_whole(short.text, marks, size, workspace_at(short.workspace), short.ids)


@entry_kernel_holding_gil
def encode_short_gpt2(marks: U64s, address: I64, content: I64) -> I64:
    """Encode a text of at most `SHORT_TEXT` bytes, cut as `mark_gpt2` cuts it.

    Args:
        marks: uint64, room for the bitmap of such a text.
        address: of a `SHORT`.
        content: address of the ``bytes`` object; see `python_lists`.

    Returns:
        As `encode_span`; `NOT_BYTES` for another object.
    """
    short = short_at(address)
    size = _taken(short, content, marks)
    if size < 0:
        return np.int64(NOT_BYTES)
    gpt2.mark_span(short.text, np.int64(0), size, short.classes, marks)
    return _ids(short, marks, size)


@entry_kernel_holding_gil
def encode_short_cl100k(marks: U64s, address: I64, content: I64) -> I64:
    """The same, cut as `mark_cl100k` cuts it."""
    short = short_at(address)
    size = _taken(short, content, marks)
    if size < 0:
        return np.int64(NOT_BYTES)
    cl100k.mark_span(
        short.text, np.int64(0), size, short.classes, marks,
        short.digits, short.first != 0, short.second != 0,
    )  # fmt: skip
    return _ids(short, marks, size)


@entry_kernel_holding_gil
def encode_short_o200k(marks: U64s, address: I64, content: I64) -> I64:
    """The same, cut as `mark_o200k` cuts it."""
    short = short_at(address)
    size = _taken(short, content, marks)
    if size < 0:
        return np.int64(NOT_BYTES)
    o200k.mark_span(
        short.text, np.int64(0), size, short.classes, marks, short.digits, short.first != 0
    )
    return _ids(short, marks, size)
