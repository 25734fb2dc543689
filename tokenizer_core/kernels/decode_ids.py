"""Token ids in, the bytes of their tokens out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import load_u64, store_u64

SLOT = 16  # bytes kept of each id: a token of up to 15 and its length, in one line of the cache
LONG = 255  # in place of the length, where the token is longer and lies elsewhere

ABOVE = np.uint64(56)
BELOW = np.uint64((1 << 56) - 1)


@kernel
def join_tokens(
    ids: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    long_tokens: NDArray[np.uint8],
    content: NDArray[np.uint8],
) -> np.int64:
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
        first = load_u64(source + SLOT * id_)
        second = load_u64(source + SLOT * id_ + 8)
        length = np.int64(second >> ABOVE)
        if length == 0:
            return np.int64(-1 - i)
        if length == LONG:
            length = np.int64(second & BELOW)
            if size + length <= room:
                begin = elsewhere + np.int64(first)
                for at in range(0, length, 8):
                    store_u64(target + size + at, load_u64(begin + at))
        elif size + length <= room:
            store_u64(target + size, first)
            store_u64(target + size + 8, second)
        size += length
    return size
