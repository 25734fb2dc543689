"""Symbols that are no tokens replaced by the tokens that stand for them; knows no text."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U32s


@entry_kernel
def write_symbols(
    symbols: U32s,
    ends: I64s,
    first: I64,
    edges: I64s,
    tokens: U32s,
    fused: bool,
    ids: U32s,
    ends_of_ids: I64s,
) -> I64:
    """Copy symbols; in place of those that are no tokens write what stands for them.

    Args:
        symbols: uint32: ids of tokens, and from ``first`` on symbols that are none.
        ends: int64 ``[n]``: how many symbols there are up to the end of each span.
        edges: int64 ``[kinds + 1]``, tokens: uint32: what is written for each kind of symbol.
        fused: whether nothing is written for such a symbol that follows another one in its span.
        ids: uint32, with room for all that is written.
        ends_of_ids: int64 ``[n]``: receives how many ids there are up to the end of each span.

    Returns:
        How many ids there are.
    """
    read = written = np.int64(0)
    for span in range(len(ends)):
        was_none = False
        while read < ends[span]:
            kind = np.int64(symbols[read]) - first
            if kind < 0:
                ids[written] = symbols[read]
                written += 1
            elif not (fused and was_none):
                for at in range(edges[kind], edges[kind + 1]):
                    ids[written] = tokens[at]
                    written += 1
            was_none = kind >= 0
            read += 1
        ends_of_ids[span] = written
    return written
