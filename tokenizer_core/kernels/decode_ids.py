"""Token ids in, the bytes of their tokens out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel
from tokenizer_core.kernels.memory import load_u64, store_u64


@kernel
def join_tokens(
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    tokens: NDArray[np.uint8],
    content: NDArray[np.uint8],
) -> np.int64:
    """Write the tokens one after the other, if there is room for them.

    Copies eight bytes at a time: ``tokens`` has 8 bytes more than it needs.

    Args:
        ids: uint32 ``[n]``.
        offsets: int64 ``[highest id + 2]``: the token of id i is ``offsets[i]:offsets[i + 1]``;
            tokens are not empty, so an empty range is an id that the vocab lacks.
        tokens: uint8, the tokens joined in order of id.
        content: uint8; there is room when it has 8 bytes more than the tokens together.

    Returns:
        Bytes of all tokens together, or −1 − i when ``ids[i]`` is not in the vocab.
    """
    size = np.int64(0)
    for i in range(len(ids)):
        id_ = np.int64(ids[i])
        if id_ + 1 >= len(offsets) or offsets[id_] == offsets[id_ + 1]:
            return np.int64(-1 - i)
        size += offsets[id_ + 1] - offsets[id_]
    if size + 8 > len(content):
        return size
    source = np.int64(tokens.ctypes.data)
    target = np.int64(content.ctypes.data)
    for i in range(len(ids)):
        begin = offsets[np.int64(ids[i])]
        length = offsets[np.int64(ids[i]) + 1] - begin
        for at in range(0, length, 8):
            store_u64(target + at, load_u64(source + begin + at))
        target += length
    return size
