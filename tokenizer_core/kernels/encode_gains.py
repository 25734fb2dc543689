"""How often each merge fires on counted words; knows nothing of text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.encode_word import Integer, merge_word


@kernel
def add_gains(
    words: NDArray[np.uint8],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    counts: NDArray[np.int64],
    byte_ids: NDArray[np.uint32],
    pairs: NDArray[np.uint64],
    shift: Integer,
    scratch: NDArray[np.uint64],
    gains: NDArray[np.int64],
) -> None:
    """Merge every word and add its count to each merge that fires.

    Args:
        words: uint8. begins, ends: int64 ``[n]``: non-empty byte ranges in it.
        counts: int64 ``[n]``.
        byte_ids, pairs, shift: see `merge_word`. scratch: uint64, enough for the longest word.
        gains: int64 ``[n_merges]``, added to.
    """
    for i in range(len(begins)):
        merge_word(
            words.ctypes.data + begins[i],
            ends[i] - begins[i],
            byte_ids.ctypes.data,
            pairs.ctypes.data,
            shift,
            scratch.ctypes.data,
            gains.ctypes.data,
            counts[i],
        )
