"""Words as rows of token ids: what their values come to for a token, and which rows hold some."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, Flags, I64s, U32s

LEAST, MOST, SUM = range(3)


@entry_kernel
def join_values(ids: U32s, ends: I64s, values: I64s, how: I64, found: I64s) -> None:
    """Join, by id, the values of all rows that hold a token, once for each time they do.

    Args:
        ids: uint32, row after row. ends: int64 ``[n]``: how many up to the end of each row.
        values: int64 ``[n]``.
        how: `LEAST`, `MOST` or `SUM`.
        found: int64, by id, joined with what it holds.
    """
    at = np.int64(0)
    for row in range(len(ends)):
        value = values[row]
        while at < ends[row]:
            id_ = ids[at]
            if how == SUM:
                found[id_] += value
            elif how == LEAST:
                found[id_] = min(found[id_], value)
            else:
                found[id_] = max(found[id_], value)
            at += 1


@entry_kernel
def mark_rows(ids: U32s, ends: I64s, tokens: Flags, rows: Flags) -> None:
    """Say of each row whether it holds a token of some.

    Args:
        ids, ends: as for `join_values`. tokens: bool, by id. rows: bool ``[n]``.
    """
    at = np.int64(0)
    for row in range(len(ends)):
        holds = False
        while at < ends[row]:
            holds |= tokens[ids[at]]
            at += 1
        rows[row] = holds
